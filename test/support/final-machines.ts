/** How a test of many machines ends: its hour turns final, and everybody's numbers are compared. */
import { expect } from 'bun:test';
import { systemClock } from '../../src/platform/clock.ts';
import { type AnswerRow, allMinuteRows, HOUR_MS, startOfHour } from './answers.ts';
import { EXACT, judgeLoads } from './judgement.ts';
import type { Load } from './load.ts';
import { eventually } from './product.ts';
import type { RoleCluster } from './role-cluster.ts';

const FINAL_MS = 120_000;

/** End of the hour that it is, in which all clicks of a test lie that has begun in it. */
export function endOfHour(): number {
  return startOfHour(systemClock()) + HOUR_MS;
}

/** Rows as every API gives them: they must be the same. */
export async function rowsOfAll(cluster: RoleCluster): Promise<AnswerRow[]> {
  const toMs = endOfHour();
  const [first, ...others] = await Promise.all(
    cluster.roles('api').map((api) => allMinuteRows(cluster.view(api), toMs)),
  );
  for (const other of others) expect(other).toEqual(first!);
  return first!;
}

/** Live numbers have each acknowledged click once, and none more; while all of them were on time. */
export async function expectLiveExact(
  cluster: RoleCluster,
  loads: readonly Load[],
): Promise<AnswerRow[]> {
  const live = await rowsOfAll(cluster);
  const numbers = { live, final: live };
  expect(await judgeLoads(await cluster.openArchive(), loads, numbers)).toEqual(EXACT);
  return live;
}

/** Starts all behind the end of the hour and turns it final; returns live and final rows. */
export async function turnFinal(cluster: RoleCluster, loads: readonly Load[]) {
  await cluster.awaitCounted();
  const untilMs = endOfHour();
  await cluster.moveBehind(untilMs);
  await cluster.awaitCounted();
  const live = await allMinuteRows(cluster.view(), untilMs);
  await cluster.do('reconcile', '--until', new Date(untilMs).toISOString());
  return { live, final: await expectFinal(cluster, loads, untilMs) };
}

/** Final numbers have every acknowledged click once, and a recount of the archive agrees. */
export async function expectFinal(
  cluster: RoleCluster,
  loads: readonly Load[],
  untilMs: number,
): Promise<AnswerRow[]> {
  for (const load of loads) expect(load.unexpected).toEqual([]);
  // Who has not done it himself knows of it a moment later.
  await eventually(
    'the hour is final',
    async () => (await cluster.status()).finalUntilMs >= untilMs,
    FINAL_MS,
  );
  const final = await allMinuteRows(cluster.view(), untilMs);
  const numbers = { live: final, final };
  expect(await judgeLoads(await cluster.openArchive(), loads, numbers)).toEqual(EXACT);
  const { code, stdout, stderr } = await cluster.run('verify');
  expect({ code, stdout, stderr }).toMatchObject({ code: 0 });
  expect(stdout).toContain('0 differences, 0 archive problems');
  return final;
}
