/** Compares what the archive's store holds with what the manifest says it holds. */

import type { Manifest } from './manifest.ts';
import {
  CLICKS_PREFIX,
  DEAD_PREFIX,
  hourPrefix,
  PLAN_PREFIX,
  planName,
  rangeOfName,
} from './names.ts';
import { openRanges } from './plan.ts';
import type { ArchiveObject, ObjectStore } from './port.ts';

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
 * `manifest` must be the one that the archiver updates, or be loaded while no archiver runs: the
 * order of the reads below makes sure that a step in progress is never reported.
 */
export async function checkArchive(
  store: ObjectStore,
  manifest: Manifest,
  hours?: readonly number[],
): Promise<ArchiveProblem[]> {
  const expected = expectedObjects(manifest, hours);
  const listed = new Map<string, number>();
  const prefixes = hours === undefined ? [CLICKS_PREFIX, DEAD_PREFIX] : hours.map(hourPrefix);
  for (const prefix of prefixes) {
    for await (const { name, sizeBytes } of store.list(prefix)) listed.set(name, sizeBytes);
  }
  const plans = new Set((await openRanges(store, PLAN_PREFIX)).map(planName));
  const problems: ArchiveProblem[] = manifest.problems.map(({ kind, message, partition }) => {
    return { kind, name: `manifest of partition ${partition}`, message };
  });
  for (const object of expected) {
    const sizeBytes = listed.get(object.name);
    if (sizeBytes !== object.sizeBytes) problems.push(missingOrOther(object, sizeBytes));
  }
  for (const name of listed.keys()) {
    if (manifest.object(name) !== undefined || isBeingWritten(name, plans)) continue;
    problems.push({ kind: 'orphan', name, message: `${name} is in no manifest entry` });
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
