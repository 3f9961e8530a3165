/** Compares what the archive's store holds with what the manifest says it holds. */

import { entryNames } from './entry.ts';
import type { Manifest } from './manifest.ts';
import {
  CLICKS_PREFIX,
  DEAD_PREFIX,
  entryOfName,
  hourPrefix,
  PLAN_PREFIX,
  planName,
  rangeOfName,
} from './names.ts';
import { openPlans } from './plan.ts';
import type { ArchiveObject, ObjectSource } from './port.ts';

export interface ArchiveProblem {
  readonly kind: 'hole' | 'overlap' | 'unreadable' | 'orphan' | 'missing' | 'size_differs';
  /** The object's name; for the manifest's own problems, its message says where. */
  readonly name: string;
  readonly message: string;
}

/**
 * Problems of the whole archive or, with `hours`, of the objects of these hours. The manifest's own
 * problems are always among them. Objects of a range that is being written are no orphans.
 *
 * Archivers may be at work, here or in other processes: a step in progress is never reported. An
 * object lies there after its plan and before its entry or, when another range was committed instead,
 * before the removal of its plan. So the objects are listed first, the plans after them, and what
 * neither the manifest nor a plan names is looked up in the manifest as it is after that.
 */
export async function checkArchive(
  store: ObjectSource,
  manifest: Manifest,
  hours?: readonly number[],
): Promise<ArchiveProblem[]> {
  const expected = expectedObjects(manifest, hours);
  const listed = new Map<string, number>();
  const prefixes = hours === undefined ? [CLICKS_PREFIX, DEAD_PREFIX] : hours.map(hourPrefix);
  for (const prefix of prefixes) {
    for await (const { name, sizeBytes } of store.list(prefix)) listed.set(name, sizeBytes);
  }
  const unknown = [...listed.keys()].filter((name) => manifest.object(name) === undefined);
  const orphans = unknown.length === 0 ? [] : await orphansAmong(store, manifest, unknown);
  const problems: ArchiveProblem[] = manifest.problems.map(({ kind, message, partition }) => {
    return { kind, name: `manifest of partition ${partition}`, message };
  });
  for (const object of expected) {
    const sizeBytes = listed.get(object.name);
    if (sizeBytes !== object.sizeBytes) problems.push(missingOrOther(object, sizeBytes));
  }
  if (hours === undefined) problems.push(...(await lostEntries(store, manifest)));
  for (const name of orphans) {
    problems.push({ kind: 'orphan', name, message: `${name} is in no manifest entry` });
  }
  return problems;
}

async function orphansAmong(
  store: ObjectSource,
  manifest: Manifest,
  names: readonly string[],
): Promise<string[]> {
  const plans = new Set((await openPlans(store, PLAN_PREFIX)).map((plan) => planName(plan)));
  const unplanned = names.filter((name) => !isBeingWritten(name, plans));
  await manifest.refresh(store, partitionsOf(unplanned));
  return unplanned.filter((name) => manifest.object(name) === undefined);
}

function partitionsOf(names: readonly string[]): Set<number> {
  const partitions = new Set<number>();
  for (const name of names) {
    const range = rangeOfName(name);
    if (range !== null) partitions.add(range.partition);
  }
  return partitions;
}

/** Entries that a checkpoint still knows and the store has no more: nobody else would notice. */
async function lostEntries(store: ObjectSource, manifest: Manifest): Promise<ArchiveProblem[]> {
  const problems: ArchiveProblem[] = [];
  for (const partition of manifest.partitions()) {
    if (manifest.problemOf(partition) !== null) continue;
    const known = manifest.entryCount(partition);
    const { nextOffset } = manifest.archivedUpTo(partition);
    let found = 0;
    for await (const name of entryNames(store, partition, 0)) {
      if (entryOfName(name)!.firstOffset < nextOffset) found++;
    }
    if (found >= known) continue;
    const name = `manifest of partition ${partition}`;
    const message = `${name}: the store has ${found} of ${known} entries`;
    problems.push({ kind: 'missing', name, message });
  }
  return problems;
}

function expectedObjects(
  manifest: Manifest,
  hours: readonly number[] | undefined,
): readonly ArchiveObject[] {
  if (hours === undefined) return [...manifest.objects()];
  return hours.flatMap((hourMs) => manifest.objectsOfHour(hourMs));
}

function missingOrOther(object: ArchiveObject, sizeBytes: number | undefined): ArchiveProblem {
  const { name } = object;
  if (sizeBytes === undefined) return { kind: 'missing', name, message: `${name} is missing` };
  const message = `${name} has ${sizeBytes} bytes, not ${object.sizeBytes}`;
  return { kind: 'size_differs', name, message };
}

function isBeingWritten(name: string, plans: ReadonlySet<string>): boolean {
  const range = rangeOfName(name);
  return range !== null && plans.has(planName(range));
}
