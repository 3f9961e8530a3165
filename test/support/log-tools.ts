/** Small helpers for tests of the disk log. */
import { DiskLogReader } from '../../src/log/disk/reader.ts';
import { DiskLogWriter, type DiskWriterOptions } from '../../src/log/disk/writer.ts';
import type { ClickLogReader } from '../../src/log/port.ts';
import { systemClock } from '../../src/platform/clock.ts';

export function openWriter(
  logDir: string,
  options: Partial<DiskWriterOptions> = {},
): DiskLogWriter {
  return new DiskLogWriter({
    logDir,
    partition: 0,
    segmentBytes: 65_536,
    clock: systemClock,
    ...options,
  });
}

/** Appends; tells whether the record was acknowledged. */
export function tryAppend(writer: DiskLogWriter, text: string): Promise<boolean> {
  return new Promise((resolve) => {
    const bytes = Buffer.from(text);
    writer.append(bytes, bytes.length, (error) => resolve(error === null));
  });
}

export async function until(condition: () => boolean, what: string): Promise<void> {
  const startedMs = performance.now();
  while (!condition()) {
    if (performance.now() - startedMs > 20_000) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Reads on from where it last stopped, and insists that offsets follow each other. */
export class Tail {
  readonly texts: string[] = [];
  readonly #reader: ClickLogReader;
  #next = 0;
  #stopped = false;
  #running: Promise<void> | null = null;

  constructor(logDir: string) {
    this.#reader = new DiskLogReader(logDir);
  }

  /** Everything that there is now. */
  async read(): Promise<string[]> {
    for (;;) {
      const batches = await this.#reader.read(0, this.#next, 4_096);
      if (batches.length === 0) return this.texts;
      for (const batch of batches) {
        if (batch.firstOffset > this.#next) throw new Error(`a hole before ${batch.firstOffset}`);
        for (let i = this.#next - batch.firstOffset; i < batch.count; i++) {
          const { bytes, bounds } = batch;
          this.texts.push(bytes.toString('utf8', bounds[2 * i]!, bounds[2 * i + 1]!));
          this.#next++;
        }
      }
    }
  }

  /** Reads all the time, as the counter of another process does. */
  start(): void {
    this.#running = (async () => {
      while (!this.#stopped) {
        await this.read();
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
  }

  async stop(): Promise<string[]> {
    this.#stopped = true;
    await this.#running;
    return this.read();
  }
}
