/** How a test of many machines ends: its hour turns final, and everybody's numbers are compared. */
import { expect } from 'bun:test';
import { systemClock } from '../../src/platform/clock.ts';
import { type AnswerRow, allMinuteRows, HOUR_MS, startOfHour } from './answers.ts';
import { EXACT, judgeLoads } from './judgement.ts';
import type { Load } from './load.ts';
import { eventually } from './product.ts';
import type { RoleCluster } from './role-cluster.ts';

/** Live numbers as every API gives them: they must be the same. */
export async function liveRows(cluster: RoleCluster): Promise<AnswerRow[]> {
  const toMs = startOfHour(systemClock()) + HOUR_MS;
  const [first, ...others] = await Promise.all(
    cluster.roles('api').map((api) => allMinuteRows(cluster.view(api), toMs)),
  );
  for (const other of others) expect(other).toEqual(first!);
  return first!;
}

/** Each acknowledged click once, none more: in live numbers, while all of them were on time. */
export async function expectLiveExact(cluster: RoleCluster, loads: readonly Load[]): Promise<void> {
  const live = await liveRows(cluster);
  const numbers = { live, final: live };
  expect(await judgeLoads(await cluster.openArchive(), loads, numbers)).toEqual(EXACT);
}

/**
 * Ends the hour: its final numbers have every acknowledged click once, and a recount of the archive
 * agrees. Returns live and final rows.
 */
export async function turnFinal(cluster: RoleCluster, loads: readonly Load[]) {
  for (const load of loads) expect(load.unexpected).toEqual([]);
  await cluster.awaitCounted();
  const untilMs = startOfHour(systemClock()) + HOUR_MS;
  await cluster.moveBehind(untilMs);
  await cluster.awaitCounted();
  const live = await allMinuteRows(cluster.view(), untilMs);
  await cluster.do('reconcile', '--until', new Date(untilMs).toISOString());
  // Others know of it a moment later.
  await eventually('the API knows that it is final', async () => {
    return (await cluster.status()).finalUntilMs >= untilMs;
  });
  const final = await allMinuteRows(cluster.view(), untilMs);
  const numbers = { live, final };
  expect(await judgeLoads(await cluster.openArchive(), loads, numbers)).toEqual(EXACT);
  const { code, stdout, stderr } = await cluster.run('verify');
  expect({ code, stdout, stderr }).toMatchObject({ code: 0 });
  expect(stdout).toContain('0 differences, 0 archive problems');
  return numbers;
}
