/**
 * The plan of a step: which range is being written, and the names of its objects. It lies in the
 * archive itself, so that whoever goes on after a crash finds it, on whichever machine.
 */
import { z } from 'zod';
import { LedgerError } from '../platform/errors.ts';
import { type OffsetRange, planName, planPrefix, rangeOfName } from './names.ts';
import type { ObjectStore } from './port.ts';

export interface Plan extends OffsetRange {
  readonly objects: readonly string[];
}

const planSchema = z.strictObject({ version: z.literal(1), objects: z.array(z.string()).min(1) });

export function encodePlan(plan: Plan): Uint8Array {
  return Buffer.from(`${JSON.stringify({ version: 1, objects: plan.objects })}\n`);
}

/** Ranges that are being written, of one partition or, without it, of all. */
export async function openRanges(store: ObjectStore, prefix: string): Promise<OffsetRange[]> {
  const ranges: OffsetRange[] = [];
  for await (const { name } of store.list(prefix)) {
    const range = rangeOfName(name);
    if (range !== null) ranges.push(range);
  }
  return ranges;
}

export async function readPlan(store: ObjectStore, range: OffsetRange): Promise<Plan> {
  const name = planName(range);
  const bytes = await store.get(name);
  try {
    const { objects } = planSchema.parse(JSON.parse(Buffer.from(bytes ?? []).toString('utf8')));
    return { ...range, objects };
  } catch (cause) {
    throw new LedgerError('plan_unreadable', `archive plan ${name} cannot be read`, {
      hint: 'Restore the file from a copy. Objects of its range may exist that nothing names.',
      cause,
    });
  }
}

/**
 * The partition's unfinished plan, or null. Removes plans whose range the manifest has (`nextOffset`
 * is past them): their step died between its commit and its last effect.
 */
export async function findOpenPlan(
  store: ObjectStore,
  partition: number,
  nextOffset: number,
): Promise<Plan | null> {
  let open: Plan | null = null;
  for (const range of await openRanges(store, planPrefix(partition))) {
    if (range.lastOffset < nextOffset) {
      await store.remove(planName(range));
    } else if (range.firstOffset === nextOffset && open === null) {
      open = await readPlan(store, range);
    } else {
      throw new LedgerError(
        'plan_misplaced',
        `archive plan ${planName(range)} does not begin at offset ${nextOffset}, where the manifest ends`,
        { hint: 'A manifest entry is missing, or two archivers write the same partition.' },
      );
    }
  }
  return open;
}
