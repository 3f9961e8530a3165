/**
 * Checked clicks on disk, encoded, until every row of their file is checked.
 *
 * Owns one file of `u32 length, event bytes`. Does not own what becomes of the events. The file is
 * unlinked as soon as it is open, so that it is gone with the process however that ends, and a file
 * of millions of clicks needs no memory.
 *
 * P1 Written whole, then read whole; never both at once.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClickEvent } from '../event/click-event.ts';
import { encodeEvent, MAX_EVENT_BYTES } from '../event/codec.ts';
import { assert, LedgerError } from '../platform/errors.ts';

const LENGTH_BYTES = 4;
/** Written and read in pieces of about this size; between two of them the event loop has its turn. */
const PIECE_BYTES = 256 * 1024;

export class EventSpool {
  readonly #file: FileHandle;
  readonly #piece = Buffer.alloc(PIECE_BYTES + LENGTH_BYTES + MAX_EVENT_BYTES);
  #used = 0;
  #sizeBytes = 0;
  #events = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static open(dir: string): Promise<EventSpool> {
    return orSpoolFailed(async () => {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      const path = join(dir, `ingest-${randomUUID()}.spool`);
      const file = await open(path, 'wx+', 0o600);
      await unlink(path);
      return new EventSpool(file);
    });
  }

  get events(): number {
    return this.#events;
  }

  /** Takes an event; returns a promise when a piece is full, to be awaited before the next one. */
  add(event: ClickEvent): Promise<void> | undefined {
    const at = this.#used + LENGTH_BYTES;
    const end = encodeEvent(event, this.#piece, at);
    this.#piece.writeUInt32LE(end - at, this.#used);
    this.#used = end;
    this.#events += 1;
    return end >= PIECE_BYTES ? this.#flush() : undefined;
  }

  async #flush(): Promise<void> {
    await orSpoolFailed(async () => {
      for (let at = 0; at < this.#used; ) {
        const length = this.#used - at;
        const position = this.#sizeBytes + at;
        at += (await this.#file.write(this.#piece, at, length, position)).bytesWritten;
      }
    });
    this.#sizeBytes += this.#used;
    this.#used = 0;
  }

  /** Every event's bytes in order, as slices of one buffer: use them before asking for the next. */
  async *read(): AsyncGenerator<Buffer> {
    await this.#flush();
    const piece = this.#piece;
    let held = 0;
    for (let position = 0; position < this.#sizeBytes; ) {
      const room = piece.length - held;
      const { bytesRead } = await orSpoolFailed(() => this.#file.read(piece, held, room, position));
      assert(bytesRead > 0, 'the spool is shorter than what was written to it');
      position += bytesRead;
      const end = held + bytesRead;
      let at = 0;
      for (let next = recordEnd(piece, at, end); next > 0; next = recordEnd(piece, at, end)) {
        yield piece.subarray(at + LENGTH_BYTES, next);
        at = next;
      }
      piece.copyWithin(0, at, end);
      held = end - at;
    }
    assert(held === 0, 'the spool ends in the middle of an event');
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** Where the record at `at` ends, or 0 when `piece[at, end)` does not hold all of it. */
function recordEnd(piece: Buffer, at: number, end: number): number {
  if (at + LENGTH_BYTES > end) return 0;
  const next = at + LENGTH_BYTES + piece.readUInt32LE(at);
  return next > end ? 0 : next;
}

async function orSpoolFailed<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new LedgerError('ingest_spool_failed', `the clicks cannot be kept aside: ${why}`, {
      kind: 'retry',
      hint: 'See that the data folder can be written and has space for the file.',
      cause,
    });
  }
}
