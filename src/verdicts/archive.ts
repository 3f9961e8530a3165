/**
 * The verdicts of an archive: all of its verdict objects, and the table of what is in force.
 *
 * V1 An object in the store is the commit of its verdicts. The table holds exactly those of objects 1
 *    to `sequence`, in that order.
 * V2 An object that is missing or damaged is not stepped over: `problem` says so, nothing is added any
 *    more, and no hour is counted (`requireWhole`): it would bill what was found to be fraud.
 * V3 Only verdicts that differ from the one in force are stored: the same file again is no new object.
 */
import { yieldToEventLoop } from '../archive/parquet.ts';
import type { ObjectStore } from '../archive/port.ts';
import { LedgerError } from '../platform/errors.ts';
import {
  decodeVerdicts,
  encodeVerdicts,
  sequenceOf,
  VERDICTS_PREFIX,
  type VerdictObject,
  verdictsName,
} from './object.ts';
import type { NewVerdict, Verdict, VerdictLookup } from './port.ts';
import { type VerdictPlace, VerdictTable } from './table.ts';

/** Objects are read as a whole, also for one reason out of them. */
const MAX_ROWS_PER_OBJECT = 20_000;
/** Rows between two turns of the event loop, which counts clicks meanwhile. */
const ROWS_PER_TURN = 5_000;
/** Objects kept decoded: a page of evidence mostly rests on a few. */
const KEPT_OBJECTS = 8;
const HINT =
  'Put the object back from a copy. Hours stay as they are until the verdicts are whole.';

export class VerdictArchive implements VerdictLookup {
  readonly table = new VerdictTable();
  readonly #store: ObjectStore;
  readonly #kept = new Map<number, VerdictObject>();
  #sequence = 0;
  #appliesFromMs = 0;
  problem: LedgerError | null = null;
  /** Objects are added one after the other (V1), whoever asks. */
  #adding: Promise<unknown> = Promise.resolve();

  private constructor(store: ObjectStore) {
    this.#store = store;
  }

  /** Reads all verdicts; what is wrong with them is in `problem`. */
  static async open(store: ObjectStore): Promise<VerdictArchive> {
    const archive = new VerdictArchive(store);
    let last = 0;
    for await (const { name } of store.list(VERDICTS_PREFIX)) {
      last = Math.max(last, sequenceOf(name) ?? 0);
    }
    for (let sequence = 1; sequence <= last && archive.problem === null; sequence++) {
      await archive.#load(sequence);
    }
    return archive;
  }

  /** Number of the newest object in the table. */
  get sequence(): number {
    return this.#sequence;
  }

  requireWhole(): void {
    if (this.problem !== null) throw this.problem;
  }

  /** Verdicts up to this object are known to have been there. */
  expect(sequence: number): void {
    if (sequence > this.#sequence) this.problem ??= missing(this.#sequence + 1);
  }

  forEachInvalid(
    hourMs: number,
    visit: (hash0: number, hash1: number, hash2: number) => void,
  ): Promise<void> {
    return this.table.forEachInvalid(hourMs, visit);
  }

  /**
   * Takes in objects that are in the store and not in the table: those of another process, and those
   * of an `append` whose answer was lost. Without it the next one would want their name for other bytes.
   */
  catchUp(): Promise<void> {
    return this.#inTurn(() => this.#catchUp());
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#adding.then(work);
    this.#adding = result.catch(() => {});
    return result;
  }

  async #catchUp(): Promise<void> {
    this.requireWhole();
    while ((await this.#store.get(verdictsName(this.#sequence + 1))) !== null) {
      await this.#load(this.#sequence + 1);
      this.requireWhole();
    }
  }

  /** The last verdict on each impression, where it says something else than the one in force. */
  async changes(rows: readonly NewVerdict[]): Promise<NewVerdict[]> {
    const last = new Map<string, NewVerdict>();
    const changes: NewVerdict[] = [];
    let done = 0;
    for (const row of rows) {
      last.set(row.impressionId, row);
      if (++done % ROWS_PER_TURN === 0) await yieldToEventLoop();
    }
    for (const row of last.values()) {
      if (!this.table.says(row)) changes.push(row);
      if (++done % ROWS_PER_TURN === 0) await yieldToEventLoop();
    }
    return changes;
  }

  /**
   * Stores verdicts, in objects that each are a commit; `appliesFromMs` may only rise. Throws
   * `object_differs` when another process has stored verdicts since the last `catchUp`.
   */
  append(
    rows: readonly NewVerdict[],
    at: { readonly atMs: number; readonly appliesFromMs: number },
  ): Promise<void> {
    return this.#inTurn(() => this.#append(rows, at));
  }

  async #append(
    rows: readonly NewVerdict[],
    at: { readonly atMs: number; readonly appliesFromMs: number },
  ): Promise<void> {
    for (let from = 0; from < rows.length; from += MAX_ROWS_PER_OBJECT) {
      const object: VerdictObject = {
        sequence: this.#sequence + 1,
        atMs: at.atMs,
        appliesFromMs: Math.max(at.appliesFromMs, this.#appliesFromMs),
        rows: rows.slice(from, from + MAX_ROWS_PER_OBJECT),
      };
      await this.#store.putIfAbsent(verdictsName(object.sequence), encodeVerdicts(object));
      this.#add(object);
    }
  }

  /** Verdicts in force for an hour's clicks on these impressions; those without one are left out. */
  async inForce(
    impressionIds: readonly string[],
    hourMs: number,
  ): Promise<ReadonlyMap<string, Verdict>> {
    const places = new Map<string, VerdictPlace>();
    for (const impressionId of impressionIds) {
      const place = this.table.find(impressionId, hourMs);
      if (place !== null) places.set(impressionId, place);
    }
    const found = new Map<string, Verdict>();
    for (const [impressionId, { sequence, row, valid }] of places) {
      const object = await this.#object(sequence);
      found.set(impressionId, { valid, reason: object.rows[row]!.reason, atMs: object.atMs });
    }
    return found;
  }

  async #object(sequence: number): Promise<VerdictObject> {
    const object = this.#kept.get(sequence) ?? (await this.#read(sequence));
    this.#kept.delete(sequence);
    this.#kept.set(sequence, object);
    if (this.#kept.size > KEPT_OBJECTS) this.#kept.delete(this.#kept.keys().next().value!);
    return object;
  }

  async #load(sequence: number): Promise<void> {
    try {
      this.#add(await this.#read(sequence));
    } catch (error) {
      if (!(error instanceof LedgerError) || error.kind === 'retry') throw error;
      this.problem = error;
    }
  }

  async #read(sequence: number): Promise<VerdictObject> {
    const name = verdictsName(sequence);
    const bytes = await this.#store.get(name);
    if (bytes === null) throw missing(sequence);
    try {
      return decodeVerdicts(name, bytes);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new LedgerError('verdicts_damaged', `verdicts ${name} cannot be read: ${why}`, {
        hint: HINT,
        cause,
      });
    }
  }

  #add(object: VerdictObject): void {
    this.table.add(object, object.rows);
    this.#sequence = object.sequence;
    this.#appliesFromMs = object.appliesFromMs;
  }
}

function missing(sequence: number): LedgerError {
  const message = `verdicts ${verdictsName(sequence)} are missing`;
  return new LedgerError('verdicts_missing', message, { hint: HINT });
}
