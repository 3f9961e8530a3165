/**
 * The plan of a step: which range is being written, and the names of its objects. It lies in the
 * archive itself, so that whoever goes on after a crash finds it, on whichever machine.
 */
import { z } from 'zod';
import { type OffsetRange, planName, rangeOfName, type Variant } from './names.ts';
import type { ObjectSource } from './port.ts';

export interface Plan extends OffsetRange {
  readonly name: string;
  readonly objects: readonly string[];
}

const planSchema = z.strictObject({ version: z.literal(1), objects: z.array(z.string()).min(1) });

export function planOf(
  range: OffsetRange,
  objects: readonly string[],
  variant: Variant = '',
): Plan {
  const { partition, firstOffset, lastOffset } = range;
  return { name: planName(range, variant), partition, firstOffset, lastOffset, objects };
}

export function encodePlan(plan: Plan): Uint8Array {
  return Buffer.from(`${JSON.stringify({ version: 1, objects: plan.objects })}\n`);
}

/** What the name of a plan says. */
export type OpenPlan = Omit<Plan, 'objects'>;

/** Plans that lie in the store below the prefix: of one partition, or of all. */
export async function openPlans(store: ObjectSource, prefix: string): Promise<OpenPlan[]> {
  const plans: OpenPlan[] = [];
  for await (const { name } of store.list(prefix)) {
    const range = rangeOfName(name);
    if (range !== null) plans.push({ name, ...range });
  }
  return plans;
}

/**
 * The plan's objects: what its step may have left. Of one that is gone, or cannot be read, none is
 * known; what it has left then is reported by the audit. Names of another range are not taken from it.
 */
export async function readPlan(store: ObjectSource, plan: OpenPlan): Promise<Plan> {
  const bytes = await store.get(plan.name);
  if (bytes === null) return { ...plan, objects: [] };
  return { ...plan, objects: objectsIn(bytes).filter((name) => isOf(plan, name)) };
}

function objectsIn(bytes: Uint8Array): readonly string[] {
  try {
    return planSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8'))).objects;
  } catch {
    return [];
  }
}

function isOf(plan: OpenPlan, name: string): boolean {
  const range = rangeOfName(name);
  return range !== null && planName(range) === planName(plan) && name.endsWith('.parquet');
}
