/** The facts that all roles share, by name and shape. */
import { z } from 'zod';
import type { SharedState } from '../control/port.ts';
import { LedgerError } from '../platform/errors.ts';

const ms = z.int();

/** Why the next hour does not turn final, as the reconciler that tried last has found it. */
export interface StuckFact {
  readonly hourMs: number;
  readonly code: string;
  readonly reason: string;
}

export interface RebuildFact {
  /** Rises whenever the warehouse has been emptied; counters begin anew when it does. */
  readonly id: number;
  /** End of the hours that were final before; null when all of them are again. */
  readonly untilMs: number | null;
  /** Whether the warehouse is still to be emptied, or it is not known that it was. */
  readonly isToEmpty: boolean;
}

/** A stretch of a partition that its counter never read: the log had dropped it. */
export interface LiveGapFact {
  readonly partition: number;
  readonly fromMs: number;
  readonly toMs: number;
  readonly atMs: number;
}

/** An archive that is being brought in: no hour may turn final on a part of it. */
export interface MoveFact {
  readonly from: string;
  readonly atMs: number;
}

const rebuildSchema: z.ZodType<RebuildFact> = z.strictObject({
  id: z.int().min(0),
  untilMs: ms.nullable(),
  isToEmpty: z.boolean(),
});
const gapSchema: z.ZodType<LiveGapFact> = z.strictObject({
  partition: z.int(),
  fromMs: ms,
  toMs: ms,
  atMs: ms,
});
const gapsSchema = z.array(gapSchema);
const acceptedSchema: z.ZodType<Record<string, number>> = z.record(z.string(), z.int());
const flushSchema: z.ZodType<{ readonly atMs: number }> = z.strictObject({ atMs: ms });
const stuckSchema: z.ZodType<StuckFact | null> = z
  .strictObject({ hourMs: ms, code: z.string(), reason: z.string() })
  .nullable();
const partitionsSchema = z.array(z.int());
const moveSchema: z.ZodType<MoveFact | null> = z
  .strictObject({ from: z.string(), atMs: ms })
  .nullable();

const logsSchema: z.ZodType<Record<string, string>> = z.record(z.string(), z.string());

const NO_REBUILD: RebuildFact = { id: 0, untilMs: null, isToEmpty: false };
/** Older gaps lie in hours that are long final. */
const KEPT_GAPS = 1_000;

export class SharedFacts {
  readonly #state: SharedState;

  constructor(state: SharedState) {
    this.#state = state;
  }

  async rebuild(): Promise<RebuildFact> {
    return (await this.#state.get('rebuild', rebuildSchema)) ?? NO_REBUILD;
  }

  /** A rebuild that died is not forgotten: what was final before it has to come back too. */
  beginRebuild(untilMs: number): Promise<RebuildFact> {
    return this.#state.update('rebuild', rebuildSchema, (old = NO_REBUILD) => {
      return { id: old.id, untilMs: Math.max(untilMs, old.untilMs ?? 0), isToEmpty: true };
    });
  }

  /**
   * Told after every emptying, also after one that somebody else has told of already: rows that counters
   * wrote before it are gone, and the log is counted anew. `counted` is what they go by now, which is more
   * than we know when the facts are from a backup.
   */
  noteEmptied({ untilMs }: RebuildFact, counted: number): Promise<RebuildFact> {
    return this.#state.update('rebuild', rebuildSchema, (old = NO_REBUILD) => {
      const before = Math.max(untilMs ?? 0, old.untilMs ?? 0);
      return { id: Math.max(old.id, counted) + 1, untilMs: before, isToEmpty: false };
    });
  }

  /** Ends this one, not one that has begun since. */
  endRebuild(id: number): Promise<RebuildFact> {
    return this.#state.update('rebuild', rebuildSchema, (old = NO_REBUILD) =>
      old.id === id && !old.isToEmpty ? { ...old, untilMs: null } : old,
    );
  }

  async liveGaps(): Promise<readonly LiveGapFact[]> {
    return (await this.#state.get('live-gaps', gapsSchema)) ?? [];
  }

  /** Noting it again changes nothing. */
  async noteLiveGap(gap: LiveGapFact): Promise<void> {
    await this.#state.update('live-gaps', gapsSchema, (old = []) => {
      const isKnown = old.some(
        ({ partition, fromMs, toMs }) =>
          partition === gap.partition && fromMs === gap.fromMs && toMs === gap.toMs,
      );
      return isKnown ? old : [...old, gap].slice(-KEPT_GAPS);
    });
  }

  /** First offset of the log from which counting may go on, by partition. */
  async acceptedGaps(): Promise<ReadonlyMap<number, number>> {
    const accepted = (await this.#state.get('accepted-gaps', acceptedSchema)) ?? {};
    return new Map(Object.entries(accepted).map(([key, offset]) => [Number(key), offset]));
  }

  async acceptGap(partition: number, firstOffset: number): Promise<void> {
    await this.#state.update('accepted-gaps', acceptedSchema, (old = {}) => {
      return { ...old, [partition]: firstOffset };
    });
  }

  /** When somebody last asked the archivers to write out what they hold; null: nobody has. */
  async flushAskedAtMs(): Promise<number | null> {
    return (await this.#state.get('flush', flushSchema))?.atMs ?? null;
  }

  async askForFlush(atMs: number): Promise<void> {
    await this.#state.update('flush', flushSchema, (old) => {
      return { atMs: Math.max(atMs, (old?.atMs ?? 0) + 1) };
    });
  }

  /** Partitions of archives that were brought in. */
  async movedPartitions(): Promise<readonly number[]> {
    return (await this.#state.get('moved-partitions', partitionsSchema)) ?? [];
  }

  async addMovedPartitions(partitions: readonly number[]): Promise<void> {
    await this.#state.update('moved-partitions', partitionsSchema, (old = []) =>
      [...new Set([...old, ...partitions])].sort((a, b) => a - b),
    );
  }

  /**
   * Which log has the partitions that are numbered from `firstPartition` on: the first that was seen with them.
   * It stays, whatever becomes of the log.
   */
  async logOf(firstPartition: number, seen: string): Promise<string> {
    const logs = await this.#state.update('logs', logsSchema, (old = {}) => {
      return { [firstPartition]: seen, ...old };
    });
    return logs[firstPartition]!;
  }

  async stuck(): Promise<StuckFact | null> {
    return (await this.#state.get('stuck', stuckSchema)) ?? null;
  }

  async setStuck(stuck: StuckFact | null): Promise<void> {
    await this.#state.set('stuck', stuck);
  }

  async move(): Promise<MoveFact | null> {
    return (await this.#state.get('move', moveSchema)) ?? null;
  }

  async setMove(move: MoveFact | null): Promise<void> {
    await this.#state.set('move', move);
  }
}

/** Throws a retryable error while an archive is being brought in: no hour may turn final on part of it. */
export async function requireNoMove(facts: SharedFacts): Promise<void> {
  const move = await facts.move();
  if (move === null) return;
  throw new LedgerError('archive_moving', `the archive ${move.from} is being brought in`, {
    kind: 'retry',
    hint: 'Let "clickledger rebuild --from" come to its end, or begin it again when it was interrupted.',
  });
}
