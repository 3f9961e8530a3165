/**
 * Zeros written ahead of the log's end.
 *
 * A synchronous write into space that exists already only moves data; one that grows the file also
 * commits the file system's journal and takes about twice as long. The zeros go in small chunks from
 * the same thread pool, never into a range that a frame may use at the same time.
 */
import type { FileDone, LogFiles } from './files.ts';

const CHUNK_BYTES = 1024 * 1024;
const ZEROS = Buffer.alloc(CHUNK_BYTES);

export class SpaceAhead {
  readonly #files: LogFiles;
  readonly #fd: number;
  readonly #limitBytes: number;
  /** Everything below is zeros on disk or frames. */
  #ready = 0;
  /** End of the chunk being written; equal to `#ready` when none is. */
  #claimed = 0;
  #stopped = false;
  #waiters: (() => void)[] = [];
  failure: Error | null = null;

  constructor(files: LogFiles, fd: number, limitBytes: number) {
    this.#files = files;
    this.#fd = fd;
    this.#limitBytes = limitBytes;
    this.#fill();
  }

  /** Whether a frame may be written up to `end` now; prepares more space when it runs low. */
  allows(end: number): boolean {
    const running = this.#claimed > this.#ready;
    if (end > this.#ready - CHUNK_BYTES && !running) this.#fill();
    // Beyond the limit (the frame that overflows the segment), or with the preparation failed, the
    // frame grows the file itself and reports what happens.
    return end <= this.#ready || this.#claimed === this.#ready;
  }

  /** Calls back once no chunk is being written. */
  whenReady(callback: () => void): void {
    if (this.#claimed > this.#ready) this.#waiters.push(callback);
    else setImmediate(callback);
  }

  /** Stops preparing; calls back when the file can be closed. */
  stop(callback: () => void): void {
    this.#stopped = true;
    if (this.#claimed > this.#ready) this.#waiters.push(callback);
    else callback();
  }

  #fill(): void {
    const length = Math.min(CHUNK_BYTES, this.#limitBytes - this.#ready);
    if (length <= 0 || this.#stopped || this.failure !== null) return;
    const at = this.#ready;
    this.#claimed = at + length;
    const done: FileDone = (error) => {
      this.failure = error;
      if (error === null) this.#ready = this.#claimed;
      else this.#claimed = this.#ready;
      for (const waiter of this.#waiters.splice(0)) waiter();
    };
    this.#files.write(this.#fd, ZEROS, length, at, done);
  }
}
