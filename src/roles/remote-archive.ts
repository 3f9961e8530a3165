/** The archive as a process sees it that does not archive: how far others are. */
import type { ArchiverStatus } from '../archive/archiver.ts';
import { coveredUntilMs } from '../archive/coverage.ts';
import type { Manifest } from '../archive/manifest.ts';
import type { ObjectStore } from '../archive/port.ts';
import type { ClickLogReader } from '../log/port.ts';
import { type Clock, monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { ArchiveView } from './ledger-view.ts';
import type { SharedFacts } from './shared-facts.ts';

/** A proof costs a listing a partition: whoever only shows it gets one of a moment ago. */
const SHOWN_FOR_MS = 5_000;
const POLL_MS = 500;
/** A listing a partition: at a request of S3 each, this is what a look may cost. */
const LOOK_AGAIN_MS = 15_000;

export interface RemoteArchiveParts {
  readonly reader: ClickLogReader;
  readonly store: ObjectStore;
  readonly manifest: Manifest;
  readonly clock: Clock;
  readonly facts: SharedFacts;
}

export class RemoteArchive implements ArchiveView {
  readonly #parts: RemoteArchiveParts;
  /** Partitions of an archive that was brought in: no log has them. */
  #moved: readonly number[] = [];
  #shown: { readonly atMs: number; readonly coveredUntilMs: Promise<number> } | null = null;
  #refreshedAtMs = Number.NEGATIVE_INFINITY;
  readonly #logEnds = new Map<number, number>();

  constructor(parts: RemoteArchiveParts) {
    this.#parts = parts;
  }

  async look(): Promise<void> {
    this.#moved = await this.#parts.facts.movedPartitions();
  }

  /** Takes what others have archived into the manifest; for a look at most once in a while. */
  async refresh(why: 'turn' | 'look'): Promise<void> {
    const nowMs = monotonicMs();
    if (why === 'look' && nowMs - this.#refreshedAtMs < LOOK_AGAIN_MS) return;
    // What was brought in since the last look must not be missing in an hour that turns final now.
    if (why === 'turn') await this.look();
    await this.#refresh(await this.#parts.reader.partitions());
    this.#refreshedAtMs = nowMs;
  }

  #refresh(partitions: readonly number[]): Promise<void> {
    const { manifest, store } = this.#parts;
    return manifest.refresh(
      store,
      new Set([...partitions, ...manifest.partitions(), ...this.#moved]),
    );
  }

  /** As of now: what hours turn final by. */
  async prove(): Promise<number> {
    const { reader, manifest, clock } = this.#parts;
    return coveredUntilMs({ reader, manifest, clock, refresh: (some) => this.#refresh(some) });
  }

  coveredUntilMs(): Promise<number> {
    const nowMs = monotonicMs();
    if (this.#shown === null || nowMs - this.#shown.atMs > SHOWN_FOR_MS) {
      this.#shown = { atMs: nowMs, coveredUntilMs: this.prove() };
      // Whoever asked gets it; the next one asks anew.
      this.#shown.coveredUntilMs.catch(() => {
        this.#shown = null;
      });
    }
    return this.#shown.coveredUntilMs;
  }

  /** Waits until everything that the log holds now is archived. Throws LedgerError `archive_behind`. */
  async awaitAll(withinMs: number): Promise<void> {
    const { reader, manifest } = this.#parts;
    const partitions = await reader.partitions();
    const ranges = await Promise.all(partitions.map((each) => reader.range(each)));
    for (const { partition, endOffset } of ranges) this.#logEnds.set(partition, endOffset);
    const untilMs = monotonicMs() + withinMs;
    for (;;) {
      await this.#refresh(partitions);
      const behind = ranges.find(
        ({ partition, endOffset }) => manifest.archivedUpTo(partition).nextOffset < endOffset,
      );
      if (behind === undefined) return;
      if (monotonicMs() > untilMs) throw isBehind(behind.partition);
      await Bun.sleep(POLL_MS);
    }
  }

  /** What stops an archiver is told by that archiver. */
  status(): ArchiverStatus {
    const { manifest } = this.#parts;
    const partitions = manifest.partitions().map((partition) => {
      const { nextOffset, lastAppendedAtMs } = manifest.archivedUpTo(partition);
      const logEndOffset = this.#logEnds.get(partition) ?? nextOffset;
      const problem = manifest.problemOf(partition);
      const stopped = problem === null ? null : new LedgerError('manifest_broken', problem.message);
      return {
        ...{ partition, lastAppendedAtMs, logEndOffset, stopped },
        archivedNextOffset: nextOffset,
        waitingSinceMs: null,
      };
    });
    return { partitions, lastError: null };
  }
}

function isBehind(partition: number): LedgerError {
  return new LedgerError('archive_behind', `partition ${partition} is not archived yet`, {
    kind: 'retry',
    hint: 'Look whether "clickledger archiver" runs, and at its /readyz.',
  });
}
