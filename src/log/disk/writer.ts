/**
 * The one writer of a partition: group commit to a segmented file.
 *
 * Owns the partition's newest segment and its durable end. Does not own reading, retention, or what
 * the records mean.
 *
 * L1 `done(null)` only after the record's frame was written through to disk (O_DSYNC).
 * L2 At most one write is in flight; what arrives meanwhile is the next frame. So the only frame
 *    that can be torn is the last one, and none of its records was acknowledged.
 * L3 A failed write is never tried again as if it could succeed: its records fail, the segment is
 *    given up, and a new segment begins at the same offset. Readers ignore what an older segment
 *    holds at or beyond the first offset of the next one.
 * L4 Offsets have no holes and are never used twice for acknowledged records.
 */
import fs from 'node:fs';
import { dirname, join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import { monotonicMs } from '../../platform/clock.ts';
import { assert, LedgerError } from '../../platform/errors.ts';
import type { AppendDone, ClickLogWriter } from '../port.ts';
import { DurableEnd } from './durable-end.ts';
import { type LogFiles, nodeFiles } from './files.ts';
import { FRAME_HEADER_BYTES, RECORD_HEADER_BYTES, sealFrame, segmentName } from './format.ts';
import { type Recovery, recoverPartition } from './recover.ts';
import { partitionDir } from './segments.ts';
import { SpaceAhead } from './space-ahead.ts';

const REOPEN_INTERVAL_MS = 250;
const MAX_FRAME_BYTES = 8 * 1024 * 1024;

export interface DiskWriterOptions {
  readonly logDir: string;
  readonly partition: number;
  readonly segmentBytes: number;
  readonly clock: Clock;
  readonly files?: LogFiles;
  /** Called after each frame. */
  readonly onCommit?: (commit: Commit) => void;
  /** Called when the writer cannot go on, and when it can again (`error` null). */
  readonly onHealth?: (error: Error | null) => void;
}

/** One group commit, as it is reported. */
export interface Commit {
  readonly records: number;
  readonly bytes: number;
  /** Time of the write. */
  readonly writeMs: number;
  /** Time since the first of its records was taken. */
  readonly waitedMs: number;
}

interface Frame {
  readonly bytes: Buffer;
  /** When its first record was taken, on the monotonic clock. */
  begunMs: number;
  used: number;
  waiters: AppendDone[];
}

interface OpenSegment {
  readonly fd: number;
  readonly ahead: SpaceAhead;
  end: number;
}

const newFrame = (): Frame => ({
  bytes: Buffer.allocUnsafeSlow(MAX_FRAME_BYTES),
  begunMs: 0,
  used: FRAME_HEADER_BYTES,
  waiters: [],
});

export class DiskLogWriter implements ClickLogWriter {
  readonly partition: number;
  readonly recovery: Recovery;
  readonly #options: DiskWriterOptions;
  readonly #dir: string;
  readonly #files: LogFiles;
  readonly #durable: DurableEnd;
  #segment: OpenSegment | null = null;
  #nextOffset: number;
  #lastAppendedAtMs: number;
  #filling: Frame = newFrame();
  #spare: Frame | null = newFrame();
  #writing = false;
  #scheduled = false;
  #failure: Error | null = null;
  #closed = false;
  #reopenTimer: ReturnType<typeof setTimeout> | null = null;
  #idleWaiters: (() => void)[] = [];

  /** Repairs the partition's tail and opens it. Throws LedgerError `log_damaged` on damage. */
  constructor(options: DiskWriterOptions) {
    this.#options = options;
    this.partition = options.partition;
    this.#files = options.files ?? nodeFiles;
    this.#dir = partitionDir(options.logDir, options.partition);
    if (fs.mkdirSync(this.#dir, { recursive: true, mode: 0o700 }) !== undefined) {
      // A folder that a power cut takes away takes every synced record with it.
      for (const dir of [options.logDir, dirname(options.logDir)]) this.#files.syncDirectory(dir);
    }
    this.#durable = DurableEnd.forWriter(this.#dir);
    this.recovery = recoverPartition(this.#dir, this.#durable.promised, this.#files);
    this.#nextOffset = this.recovery.nextOffset;
    this.#lastAppendedAtMs = this.recovery.lastAppendedAtMs;
    this.#durable.set(this.#nextOffset);
    try {
      this.#openSegment();
    } catch (error) {
      // A full disk at start is the same as one later: refuse clicks, try again, take them again.
      this.#giveUpSegment(error as Error);
      return;
    }
    this.#fillLost();
  }

  get healthy(): boolean {
    return this.#failure === null && !this.#closed;
  }

  /** R2: an offset that was acknowledged once is never given to another record. */
  #fillLost(): void {
    const nothing = Buffer.alloc(0);
    const lost = this.#durable.promised - this.#nextOffset;
    for (let i = 0; i < lost; i++) this.append(nothing, 0, () => {});
  }

  append(bytes: Buffer, length: number, done: AppendDone): void {
    if (this.#failure !== null || this.#closed) {
      throw new LedgerError('log_unavailable', 'the click log cannot be written now', {
        kind: 'retry',
        cause: this.#failure,
      });
    }
    const frame = this.#filling;
    const at = frame.used;
    if (at + RECORD_HEADER_BYTES + length > MAX_FRAME_BYTES) {
      throw new LedgerError('log_full_queue', 'too many clicks wait for the disk', {
        kind: 'retry',
      });
    }
    frame.bytes.writeUInt32LE(length, at);
    bytes.copy(frame.bytes, at + RECORD_HEADER_BYTES, 0, length);
    frame.used = at + RECORD_HEADER_BYTES + length;
    if (frame.waiters.push(done) === 1) frame.begunMs = monotonicMs();
    if (!this.#scheduled && !this.#writing) {
      this.#scheduled = true;
      // After the requests of this turn of the loop have appended: they share one write.
      setImmediate(this.#commit);
    }
  }

  readonly #commit = (): void => {
    this.#scheduled = false;
    const frame = this.#filling;
    const segment = this.#segment;
    if (this.#writing || frame.waiters.length === 0 || segment === null) return;
    if (!segment.ahead.allows(segment.end + frame.used)) {
      segment.ahead.whenReady(this.#commit);
      return;
    }
    assert(this.#spare !== null, 'two frames in flight');
    this.#filling = this.#spare;
    this.#spare = null;
    this.#writing = true;
    this.#lastAppendedAtMs = Math.max(this.#lastAppendedAtMs, this.#options.clock());
    sealFrame(frame.bytes, frame.used, {
      firstOffset: this.#nextOffset,
      appendedAtMs: this.#lastAppendedAtMs,
      count: frame.waiters.length,
    });
    const startedMs = monotonicMs();
    this.#files.write(segment.fd, frame.bytes, frame.used, segment.end, (error) => {
      if (error === null) this.#committed(frame, segment, monotonicMs() - startedMs);
      else this.#failed(frame, error);
    });
  };

  #committed(frame: Frame, segment: OpenSegment, writeMs: number): void {
    const waiters = frame.waiters;
    const bytes = frame.used;
    segment.end += bytes;
    this.#nextOffset += waiters.length;
    this.#durable.set(this.#nextOffset);
    const waitedMs = monotonicMs() - frame.begunMs;
    this.#recycle(frame);
    for (let i = 0; i < waiters.length; i++) waiters[i]!(null);
    this.#options.onCommit?.({ records: waiters.length, bytes, writeMs, waitedMs });
    // A callback above may have closed the writer.
    if (segment.end >= this.#options.segmentBytes && this.#segment === segment) this.#roll();
    this.#continue();
  }

  /** L3: everything that waits fails now; a fresh segment must prove that the disk works again. */
  #failed(frame: Frame, error: Error): void {
    const waiters = [...frame.waiters, ...this.#filling.waiters];
    this.#recycle(frame);
    this.#filling.waiters = [];
    this.#filling.used = FRAME_HEADER_BYTES;
    this.#giveUpSegment(error);
    for (const done of waiters) done(error);
    this.#continue();
  }

  #recycle(frame: Frame): void {
    frame.waiters = [];
    frame.used = FRAME_HEADER_BYTES;
    this.#spare = frame;
    this.#writing = false;
  }

  #continue(): void {
    if (this.#filling.waiters.length > 0) this.#commit();
    else if (!this.#writing) for (const idle of this.#idleWaiters.splice(0)) idle();
  }

  #giveUpSegment(error: Error): void {
    const segment = this.#segment;
    this.#segment = null;
    this.#failure = error;
    this.#options.onHealth?.(error);
    if (segment !== null) this.#closeSegment(segment);
    if (!this.#closed) this.#reopenTimer = setTimeout(() => this.#reopen(), REOPEN_INTERVAL_MS);
  }

  #reopen(): void {
    this.#reopenTimer = null;
    try {
      this.#openSegment();
    } catch (error) {
      this.#failure = error as Error;
      this.#reopenTimer = setTimeout(() => this.#reopen(), REOPEN_INTERVAL_MS);
      return;
    }
    // The first space of the new segment is written now; only when that works are clicks taken again.
    const segment = this.#segment;
    segment?.ahead.whenReady(() => {
      if (this.#closed) return;
      if (this.#segment !== segment || segment.ahead.failure !== null) {
        this.#giveUpSegment(segment.ahead.failure ?? new Error('the segment was given up'));
        return;
      }
      this.#failure = null;
      this.#fillLost();
      this.#options.onHealth?.(null);
    });
  }

  #roll(): void {
    const full = this.#segment;
    this.#segment = null;
    if (full !== null) this.#closeSegment(full);
    try {
      this.#openSegment();
    } catch (error) {
      const waiters = this.#filling.waiters;
      this.#filling.waiters = [];
      this.#filling.used = FRAME_HEADER_BYTES;
      this.#giveUpSegment(error as Error);
      for (const done of waiters) done(error as Error);
    }
  }

  #openSegment(): void {
    const path = join(this.#dir, segmentName(this.#nextOffset));
    // Left by a failed attempt at this same offset; nothing in it was acknowledged (L3).
    if (fs.existsSync(path)) fs.unlinkSync(path);
    const fd = this.#files.createForSyncWrites(path);
    try {
      this.#files.syncDirectory(this.#dir);
    } catch (error) {
      this.#files.close(fd);
      throw error;
    }
    const ahead = new SpaceAhead(this.#files, fd, this.#options.segmentBytes);
    this.#segment = { fd, end: 0, ahead };
  }

  #closeSegment(segment: OpenSegment): void {
    segment.ahead.stop(() => {
      try {
        // Gives back the space prepared ahead, and a failed frame with it. Harmless when it fails:
        // readers stop at the next segment's first offset.
        this.#files.truncateOpen(segment.fd, segment.end);
      } catch {
        // The disk that refused the write may refuse this as well.
      }
      this.#files.close(segment.fd);
    });
  }

  async close(): Promise<void> {
    // First, so that requests that still come in cannot keep the writer busy for ever.
    this.#closed = true;
    if (this.#writing || this.#filling.waiters.length > 0) {
      await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
    }
    if (this.#reopenTimer !== null) clearTimeout(this.#reopenTimer);
    const segment = this.#segment;
    this.#segment = null;
    if (segment !== null) {
      await new Promise<void>((resolve) => {
        this.#closeSegment(segment);
        segment.ahead.stop(resolve);
      });
    }
  }
}
