/**
 * The counter's state on disk: a journal of commits, kept in a disk log of its own.
 *
 * J1 A commit holds new claims, changed rows and the log position together; its parts count only
 *    with their seal, which is appended last. State and position move together or not at all.
 * J2 Reading the journal from its first retained record gives the state of the last seal: positions,
 *    watermarks and totals are whole in every seal, rows and claims are the sum of the parts.
 */
import { existsSync } from 'node:fs';
import { DiskLogReader } from '../log/disk/reader.ts';
import { removeOldSegments } from '../log/disk/retention.ts';
import { DiskLogWriter } from '../log/disk/writer.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import {
  encodeSeal,
  KIND_CLAIMS,
  KIND_ROWS,
  KIND_SEAL,
  readSeal,
  type Seal,
} from './journal-codec.ts';

const PARTITION = 0;
const READ_BYTES = 8 * 1024 * 1024;
const SEGMENT_BYTES = 64 * 1024 * 1024;

/** Receives the parts of each sealed commit, oldest first. */
export interface CommitVisitor {
  claims(part: Buffer): void;
  rows(part: Buffer): void;
  seal(seal: Seal): void;
}

export class CounterJournal {
  readonly #dir: string;
  readonly #writer: DiskLogWriter;
  #nextOffset: number;

  private constructor(dir: string, writer: DiskLogWriter) {
    this.#dir = dir;
    this.#writer = writer;
    this.#nextOffset = writer.recovery.nextOffset;
  }

  /** Repairs and opens the journal in `dir`, replaying its commits into `visitor`. */
  static async open(dir: string, clock: Clock, visitor: CommitVisitor): Promise<CounterJournal> {
    const writer = new DiskLogWriter({
      logDir: dir,
      partition: PARTITION,
      segmentBytes: SEGMENT_BYTES,
      clock,
    });
    if (writer.recovery.lostRecords > 0) {
      await writer.close();
      throw new LedgerError('counter_state_lost', `${dir}: the disk lost committed state`, {
        hint: 'Run "clickledger rebuild": the log and the archive hold everything.',
      });
    }
    const journal = new CounterJournal(dir, writer);
    await journal.#replay(visitor);
    return journal;
  }

  static exists(dir: string): boolean {
    return existsSync(dir);
  }

  async #replay(visitor: CommitVisitor): Promise<void> {
    const reader = new DiskLogReader(this.#dir);
    const range = await reader.range(PARTITION);
    let next = range.firstOffset;
    let parts: Buffer[] = [];
    while (next < range.endOffset) {
      for (const batch of await reader.read(PARTITION, next, READ_BYTES)) {
        for (let i = 0; i < batch.count; i++) {
          const part = batch.bytes.subarray(batch.bounds[2 * i]!, batch.bounds[2 * i + 1]!);
          parts.push(part);
          if (part[0] === KIND_SEAL) {
            applyCommit(parts, visitor);
            parts = [];
          }
        }
        next = batch.firstOffset + batch.count;
      }
    }
    await reader.close();
  }

  /** The offset that the next part will get. */
  get nextOffset(): number {
    return this.#nextOffset;
  }

  /** Resolves when the whole commit is durable; rejects when it is not known to be. */
  async commit(parts: readonly Buffer[], seal: Seal): Promise<void> {
    for (const part of parts) await this.#appendWhenRoom(part);
    await this.#appendDurable(encodeSeal(seal));
  }

  /** Parts may come faster than the disk takes them: wait for room, the seal makes them count. */
  async #appendWhenRoom(part: Buffer): Promise<void> {
    try {
      this.#writer.append(part, part.length, () => {});
    } catch (error) {
      if (!(error instanceof LedgerError) || error.code !== 'log_full_queue') throw error;
      await new Promise((resolve) => setImmediate(resolve));
      return this.#appendWhenRoom(part);
    }
    this.#nextOffset++;
  }

  async #appendDurable(part: Buffer): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#writer.append(part, part.length, (error) => (error ? reject(error) : resolve()));
    });
    this.#nextOffset++;
  }

  /** Drops segments that lie wholly below `offset`. */
  trim(offset: number): void {
    removeOldSegments(this.#dir, PARTITION, {
      safeOffset: offset,
      olderThanMs: Number.POSITIVE_INFINITY,
    });
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }
}

function applyCommit(parts: readonly Buffer[], visitor: CommitVisitor): void {
  for (const part of parts) {
    if (part[0] === KIND_CLAIMS) visitor.claims(part);
    else if (part[0] === KIND_ROWS) visitor.rows(part);
    else if (part[0] === KIND_SEAL) visitor.seal(readSeal(part));
    else throw new LedgerError('counter_state_unreadable', `unknown journal part ${part[0]}`);
  }
}
