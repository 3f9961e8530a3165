/**
 * Writes ranges of the log into the archive, so that each record is committed exactly once, also when
 * several processes write one partition: one was stopped, another took over, the first wakes up.
 *
 * Owns objects, plans and commits of ranges. Does not own which range is written, and when
 * (`archiver.ts`). The store decides: it takes one object of a name.
 *
 *  R1 The entries of a partition are one chain. A commit's name has the partition and the first offset
 *     alone, so there is one from 0, one from where that ends, and so on: whoever commits at an offset
 *     has the entries that lead to it in its manifest. No record is covered twice or left out.
 *  R2 An object is removed only when the entry at its first offset is there and does not name it: no
 *     entry ever will. So what an entry names is never removed, and objects of a range that is not
 *     decided yet are nobody's to remove.
 *  R3 Under the names of a range lies one content. Whoever encodes the range to other bytes (another
 *     version, another `maxSkewMs`) leaves them and writes a variant: the entry says whose counts.
 *
 * One step writes one range. Its effects, and what holds if the process dies right after each, or is
 * stopped there and goes on later (E2 also between two objects):
 *
 *   E1 the plan         Nothing is archived. Whoever comes next takes the planned range, even if the log
 *                       has grown, and makes the same objects. One who has planned another range from
 *                       the same offset before goes on: both come to E3, and one of them loses.
 *   E2 the objects      Nothing is archived. Who takes the range over finds the same bytes there. If
 *                       another range was committed instead, whoever sees the plan removes plan and
 *                       objects (R2); a process that goes on here puts the rest, loses at E3, and
 *                       removes what it has put by its own list.
 *   E3 the entry        The range is archived. The same entry there already: it is archived too, by
 *                       somebody who took over. Another one: lost. Its range is taken into the
 *                       manifest, the step undone, and the work goes on behind it. A put whose answer was
 *                       lost may have committed: the next look at the store tells.
 *   E4 objects of the plan that the entry does not name, then the plan
 *                       The step is done. A plan that stays is met by the next look.
 *
 * What this leaves: a process that dies between E2 and E3 after another has removed its plan leaves
 * objects that nothing names. They cost space and nothing else; the audit names them as orphans.
 */
import type { ClickLogReader } from '../log/port.ts';
import { LedgerError } from '../platform/errors.ts';
import { sha256Hex } from './checksum.ts';
import { encodeEntry } from './entry.ts';
import type { Manifest } from './manifest.ts';
import { entryName, type OffsetRange, objectName, planPrefix, type Variant } from './names.ts';
import { encodePlan, openPlans, type Plan, planOf, readPlan } from './plan.ts';
import type { ManifestEntry, ObjectStore } from './port.ts';
import { type EncodedObject, type EncodedRange, encodeRange } from './range-encoder.ts';

export interface RangeWriterOptions {
  readonly reader: ClickLogReader;
  readonly store: ObjectStore;
  /** Kept up to date; everyone in the process shares it. */
  readonly manifest: Manifest;
  readonly maxSkewMs: number;
  /** After a range was archived. */
  readonly onEntry?: (entry: ManifestEntry) => void;
}

export class RangeWriter {
  readonly #options: RangeWriterOptions;

  constructor(options: RangeWriterOptions) {
    this.#options = options;
  }

  /**
   * Looks at the store: takes into the manifest what others have archived, and removes what steps left
   * whose offset is decided. Returns the range of a step that is not: it is to be written next.
   */
  async look(partition: number): Promise<OffsetRange | null> {
    const { store, manifest } = this.#options;
    // Plans first: whoever has planned at an offset had seen the entries that lead there.
    const plans = await openPlans(store, planPrefix(partition));
    await manifest.refresh(store, [partition]);
    const { nextOffset } = manifest.archivedUpTo(partition);
    // What the chain is cannot be told then; `archivedUpTo` does not go on.
    if (manifest.problemOf(partition) !== null) return null;
    let undecided: OffsetRange | null = null;
    for (const plan of plans) {
      if (plan.firstOffset > nextOffset) throw misplaced(plan.name, nextOffset);
      if (plan.firstOffset < nextOffset) await this.#discard(await readPlan(store, plan));
      else undecided ??= plan;
    }
    return undecided;
  }

  /**
   * Writes a range that begins where the manifest ends. When it returns, the manifest goes on behind
   * that offset: with this range, or with the one that somebody else has committed there. False when
   * plans may be left that the next `look` removes.
   */
  async write(range: OffsetRange): Promise<boolean> {
    const { reader, maxSkewMs } = this.#options;
    const encoded = await encodeRange(reader, range, maxSkewMs);
    const plain = stepOf(range, encoded, '');
    if (await this.#prepare(plain)) return this.#commit(plain);
    const variant = stepOf(range, encoded, await digestOf(encoded));
    if (!(await this.#prepare(variant))) throw damagedVariant(variant.plan.name);
    await this.#commit(variant);
    return false;
  }

  /** E1 and E2. False when another content lies under a name of the step: R3. */
  async #prepare({ plan, objects }: Step): Promise<boolean> {
    const { store } = this.#options;
    if (!(await putSame(store, plan.name, encodePlan(plan)))) return false; // E1
    for (const { object, bytes } of objects) {
      if (!(await putSame(store, object.name, bytes))) return false; // E2
    }
    return true;
  }

  async #commit({ plan, entry }: Step): Promise<boolean> {
    const { store, manifest, onEntry } = this.#options;
    const isOurs = await putSame(store, entryName(entry), encodeEntry(entry)); // E3
    if (isOurs) {
      // Before E4: the audit takes an object for an orphan that neither plan nor manifest names.
      manifest.add(entry);
      onEntry?.(entry);
    } else {
      await this.#takeWinner(plan);
    }
    await this.#discard(plan); // E4
    return isOurs;
  }

  /** After a lost commit: the entry that is there instead, and what follows it. */
  async #takeWinner({ partition, firstOffset }: Plan): Promise<void> {
    const { store, manifest } = this.#options;
    await manifest.refresh(store, [partition]);
    if (manifest.archivedUpTo(partition).nextOffset > firstOffset) return;
    const why = manifest.problemOf(partition)?.message ?? 'it is not in the listing';
    const name = entryName({ partition, firstOffset });
    throw new LedgerError('manifest_broken', `${name} is there and cannot be used: ${why}`, {
      hint: 'Restore the manifest entry from a copy. Nothing of this partition is archived before.',
    });
  }

  /** Removes what the step of a plan has left, the plan last. Its first offset is decided: R2. */
  async #discard(plan: Plan): Promise<void> {
    const { store, manifest } = this.#options;
    for (const name of plan.objects) {
      if (manifest.object(name) === undefined) await store.remove(name);
    }
    await store.remove(plan.name);
  }
}

/** One range on its way into the archive. */
interface Step {
  readonly plan: Plan;
  readonly entry: ManifestEntry;
  readonly objects: readonly EncodedObject[];
}

function stepOf(range: OffsetRange, encoded: EncodedRange, variant: Variant): Step {
  const objects = encoded.objects.map(({ object, bytes }) => {
    return { object: { ...object, name: objectName(object.hourMs, range, variant) }, bytes };
  });
  const { partition, firstOffset, lastOffset } = range;
  const { lastAppendedAtMs } = encoded;
  const listed = objects.map(({ object }) => object);
  return {
    plan: planOf(
      range,
      listed.map(({ name }) => name),
      variant,
    ),
    entry: { partition, firstOffset, lastOffset, objects: listed, lastAppendedAtMs },
    objects,
  };
}

async function digestOf({ objects }: EncodedRange): Promise<Variant> {
  const contents = objects.map(({ object: { hourMs, sha256 } }) => [hourMs, sha256]);
  return (await sha256Hex(Buffer.from(JSON.stringify(contents)))).slice(0, 16);
}

/** False when the name is taken by other bytes. */
async function putSame(store: ObjectStore, name: string, bytes: Uint8Array): Promise<boolean> {
  try {
    await store.putIfAbsent(name, bytes);
    return true;
  } catch (error) {
    if (error instanceof LedgerError && error.code === 'object_differs') return false;
    throw error;
  }
}

function misplaced(name: string, nextOffset: number): LedgerError {
  return new LedgerError(
    'plan_misplaced',
    `archive plan ${name} begins behind offset ${nextOffset}, where the manifest ends`,
    { hint: 'A manifest entry is missing. Restore it from a copy.' },
  );
}

function damagedVariant(name: string): LedgerError {
  return new LedgerError(
    'object_damaged',
    `what lies under the names of ${name} is not its content`,
    {
      hint: 'An object that no manifest entry names yet was changed. Remove it and the plan.',
    },
  );
}
