/**
 * How far all counters together are, for processes that do not count: read from the notes that they
 * commit, and from the log's own ends.
 *
 * Owns the last answer; asks only when `poll` is called. Belongs to no group.
 *
 * Y1 `asOfMs` holds for the whole log: it is the least over its partitions. One that nobody has counted
 *    and that holds records counts as 0. One of which everything is in the warehouse does not hold it
 *    back, whether or not somebody counts it at the moment.
 * Y2 It never goes back but for a rebuild: the least is taken of notes that only rise.
 */
import { noOutcomes, OUTCOMES, type OutcomeTotals } from '../counting/types.ts';
import type { Committed, GroupProgress } from '../log/group.ts';
import type { ClickLogReader, PartitionRange } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import { type CounterNote, type CounterProblem, decodeNote, unreadableNote } from './note.ts';
import { Places } from './turns.ts';

export interface CounterProgressParts {
  readonly group: GroupProgress;
  readonly reader: Pick<ClickLogReader, 'partitions' | 'range'>;
  readonly clock: Clock;
}

export interface PartitionProgressStatus {
  readonly partition: number;
  /** Next offset to be counted; null when nothing was committed. */
  readonly nextOffset: number | null;
  readonly firstOffset: number;
  readonly endOffset: number;
  /** Rows of all records before it are in the warehouse. */
  readonly upserted: number;
  readonly asOfMs: number;
  readonly watermarkMs: number | null;
  readonly holder: string | null;
  readonly rebuildId: number | null;
  readonly problem: CounterProblem | null;
}

const RANGES_AT_ONCE = 16;

export class CounterProgress {
  readonly #parts: CounterProgressParts;
  readonly #places = new Places(RANGES_AT_ONCE);
  #partitions: readonly PartitionProgressStatus[] = [];
  #outcomes = noOutcomes();
  #asOfMs = 0;
  #upserted = '';

  constructor(parts: CounterProgressParts) {
    this.#parts = parts;
  }

  /** Reads the notes again; whether rows came since. What was known stays when it throws. */
  async poll(): Promise<boolean> {
    const { group, reader, clock } = this.#parts;
    // Before anything is asked: what the answers do not show was not there then.
    const askedAtMs = clock();
    const committed = await group.committed();
    const partitions = await reader.partitions();
    const statuses = await Promise.all(
      partitions.map(async (partition) => {
        const range = await this.#places.run(() => reader.range(partition));
        return statusOf(range, committed.get(partition), askedAtMs);
      }),
    );
    const outcomes = noOutcomes();
    for (const partition of partitions) {
      const note = decodeNote(committed.get(partition)?.note ?? '');
      for (const outcome of OUTCOMES) outcomes[outcome] += note?.outcomes[outcome] ?? 0;
    }
    const upserted = statuses.map(({ upserted }) => upserted).join();
    const isChanged = upserted !== this.#upserted;
    this.#upserted = upserted;
    this.#partitions = statuses;
    this.#outcomes = outcomes;
    this.#asOfMs = statuses.length === 0 ? 0 : Math.min(...statuses.map(({ asOfMs }) => asOfMs));
    return isChanged;
  }

  /** Every record that the log took before this time is in the warehouse's live rows (Y1). */
  get asOfMs(): number {
    return this.#asOfMs;
  }

  partitions(): readonly PartitionProgressStatus[] {
    return this.#partitions;
  }

  /** Records by outcome since counting began. */
  outcomes(): OutcomeTotals {
    return { ...this.#outcomes };
  }

  /** Least event time of partitions that have records to be counted; null when none have. */
  watermarkMs(): number | null {
    let least: number | null = null;
    for (const { watermarkMs, nextOffset, endOffset } of this.#partitions) {
      if (watermarkMs === null || nextOffset === null || nextOffset >= endOffset) continue;
      if (least === null || watermarkMs < least) least = watermarkMs;
    }
    return least;
  }

  /** Partitions that are not counted until somebody acts. */
  problems(): { readonly partition: number; readonly problem: CounterProblem }[] {
    return this.#partitions.flatMap(({ partition, problem }) =>
      problem === null ? [] : [{ partition, problem }],
    );
  }

  /** Whether the notes of all partitions are of this building of the warehouse. */
  isOfRebuild(rebuildId: number): boolean {
    return this.#partitions.every((each) => {
      if (each.rebuildId === null) return each.endOffset === each.firstOffset;
      return each.rebuildId >= rebuildId;
    });
  }
}

function statusOf(
  { partition, firstOffset, endOffset }: PartitionRange,
  committed: Committed | undefined,
  askedAtMs: number,
): PartitionProgressStatus {
  const note = committed === undefined ? null : decodeNote(committed.note);
  const isUnreadable = committed !== undefined && note === null;
  return {
    partition,
    nextOffset: committed?.offset ?? null,
    firstOffset,
    endOffset,
    upserted: note?.upserted ?? 0,
    asOfMs: isUnreadable ? 0 : asOf(note, { firstOffset, endOffset }, askedAtMs),
    watermarkMs: note?.watermarkMs ?? null,
    holder: note?.holder ?? null,
    rebuildId: note?.rebuildId ?? null,
    problem: isUnreadable ? unreadableNote(partition) : (note?.problem ?? null),
  };
}

/** Y1. */
function asOf(
  note: CounterNote | null,
  { firstOffset, endOffset }: { firstOffset: number; endOffset: number },
  askedAtMs: number,
): number {
  if (note === null) return firstOffset === endOffset ? askedAtMs : 0;
  const isWhole = note.upserted >= endOffset && note.problem === null;
  return isWhole ? Math.max(note.asOfMs, askedAtMs) : note.asOfMs;
}
