/**
 * The counter's state on disk: a journal of commits, kept in a disk log of its own.
 *
 * J1 A commit holds new claims, changed rows and the log position together; its parts count only
 *    with their own seal, which is appended last and says where they begin: parts of a commit that died
 *    before its seal do not count with a later one. State and position move together or not at all.
 * J2 Reading the journal from its first retained record gives the state of the last seal: positions,
 *    watermarks and totals are whole in every seal, rows and claims are the sum of the parts.
 */
import { LedgerError } from '../platform/errors.ts';
import {
  encodeSeal,
  KIND_CLAIMS,
  KIND_ROWS,
  KIND_SEAL,
  readSeal,
  type Seal,
} from './journal-codec.ts';
import type { JournalLog } from './port.ts';

const READ_BYTES = 8 * 1024 * 1024;

/** Receives the parts of each sealed commit, oldest first. */
export interface CommitVisitor {
  claims(part: Buffer): void;
  rows(part: Buffer): void;
  seal(seal: Seal): void;
}

export class CounterJournal {
  readonly #log: JournalLog;
  #nextOffset: number;

  private constructor(log: JournalLog) {
    this.#log = log;
    this.#nextOffset = log.nextOffset;
  }

  /** Opens the journal, replaying its commits into `visitor`. */
  static async open(log: JournalLog, visitor: CommitVisitor): Promise<CounterJournal> {
    const journal = new CounterJournal(log);
    await journal.#replay(visitor);
    return journal;
  }

  async #replay(visitor: CommitVisitor): Promise<void> {
    const { reader, partition } = this.#log;
    const range = await reader.range(partition);
    let next = range.firstOffset;
    let parts: Part[] = [];
    while (next < range.endOffset) {
      for (const batch of await reader.read(partition, next, READ_BYTES)) {
        for (let i = 0; i < batch.count; i++) {
          const bytes = batch.bytes.subarray(batch.bounds[2 * i]!, batch.bounds[2 * i + 1]!);
          parts.push({ offset: batch.firstOffset + i, bytes });
          if (bytes[0] === KIND_SEAL) {
            applyCommit(parts, visitor);
            parts = [];
          }
        }
        next = batch.firstOffset + batch.count;
      }
    }
  }

  /** The offset that the next part will get. */
  get nextOffset(): number {
    return this.#nextOffset;
  }

  /** Resolves when the whole commit is durable; rejects when it is not known to be. */
  async commit(parts: readonly Buffer[], seal: Omit<Seal, 'partsFrom'>): Promise<void> {
    const partsFrom = this.#nextOffset;
    for (const part of parts) await this.#appendWhenRoom(part);
    await this.#appendDurable(encodeSeal({ ...seal, partsFrom }));
  }

  /** Parts may come faster than the disk takes them: wait for room, the seal makes them count. */
  async #appendWhenRoom(part: Buffer): Promise<void> {
    try {
      this.#log.writer.append(part, part.length, () => {});
    } catch (error) {
      if (!(error instanceof LedgerError) || error.code !== 'log_full_queue') throw error;
      await new Promise((resolve) => setImmediate(resolve));
      return this.#appendWhenRoom(part);
    }
    this.#nextOffset++;
  }

  async #appendDurable(part: Buffer): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#log.writer.append(part, part.length, (error) => (error ? reject(error) : resolve()));
    });
    this.#nextOffset++;
  }

  /** Drops what lies wholly below `offset`. */
  trim(offset: number): void {
    this.#log.trim(offset);
  }

  async close(): Promise<void> {
    await this.#log.writer.close();
    await this.#log.reader.close();
  }
}

interface Part {
  readonly offset: number;
  readonly bytes: Buffer;
}

/** The last part is the seal. */
function applyCommit(parts: readonly Part[], visitor: CommitVisitor): void {
  const seal = readSeal(parts.at(-1)!.bytes);
  for (const { offset, bytes } of parts.slice(0, -1)) {
    if (offset < seal.partsFrom) continue;
    if (bytes[0] === KIND_CLAIMS) visitor.claims(bytes);
    else if (bytes[0] === KIND_ROWS) visitor.rows(bytes);
    else throw new LedgerError('counter_state_unreadable', `unknown journal part ${bytes[0]}`);
  }
  visitor.seal(seal);
}
