/**
 * Kafka drops clicks that are archived but not counted yet: their partition stops and says so, goes on
 * by permission, and the final numbers have all of them.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { PartitionStatus } from '../../src/api/admin-port.ts';
import { clicksPerAd, HOUR_MS } from '../support/answers.ts';
import { rowsOfAll, turnFinal } from '../support/final-machines.ts';
import { Load } from '../support/load.ts';
import { eventually } from '../support/product.ts';
import { RoleCluster } from '../support/role-cluster.ts';
import { RoleServers, serversMissing } from '../support/role-servers.ts';

const missing = serversMissing();
if (missing !== null) process.stderr.write(`expired-offset: skipped, ${missing}\n`);

const FIRST_PARTITION = 10_000;
const SEED = 815;

describe.skipIf(missing !== null)('clicks that Kafka has dropped before they were counted', () => {
  let servers: RoleServers;
  let cluster: RoleCluster;
  const loads: Load[] = [];
  /** The one that Kafka drops clicks of. */
  let dropped: PartitionStatus;

  beforeAll(async () => {
    servers = await RoleServers.start();
    cluster = await RoleCluster.create(servers, { partitions: 4 });
    await cluster.startAll([['m1', 'catalog']]);
    await cluster.startAll([
      ['m1', 'click'],
      ['m1', 'counter'],
      ['m1', 'archiver'],
      ['m1', 'reconciler'],
      ['a1', 'api'],
    ]);
  }, 180_000);
  afterAll(async () => {
    await cluster?.dispose();
    await servers?.stop();
  });

  async function clicks(count: number): Promise<void> {
    const load = new Load(cluster, SEED + loads.length, { clicks: count });
    loads.push(load);
    await load.end();
  }
  const partitions = async (): Promise<readonly PartitionStatus[]> =>
    (await cluster.status()).partitions;
  const stopped = (): Promise<number> =>
    cluster
      .role('m1', 'counter')!
      .metric('counter_stopped_partitions', { code: 'offset_out_of_retention' });
  const isCounted = (each: PartitionStatus): boolean => each.countedOffset === each.logEndOffset;

  async function hourIsIncomplete(): Promise<boolean> {
    const from = new Date(cluster.fromMs).toISOString();
    const to = new Date(cluster.fromMs + 2 * HOUR_MS).toISOString();
    const answer = await fetch(`${cluster.view().apiUrl}/v1/hours?from=${from}&to=${to}`, {
      headers: { Authorization: `Bearer ${[...cluster.tokens.values()][0]}` },
    });
    const { hours } = (await answer.json()) as { hours: { live_incomplete?: boolean }[] };
    return hours.some((hour) => hour.live_incomplete === true);
  }

  test('their partition stops with an alarm, and the others are counted', async () => {
    await clicks(400);
    await cluster.awaitCounted();
    expect(await hourIsIncomplete()).toBe(false);
    await cluster.role('m1', 'counter')!.stop();
    await clicks(400);
    await eventually('they are archived', async () =>
      (await partitions()).every((each) => each.archivedOffset === each.logEndOffset),
    );
    dropped = (await partitions())[0]!;
    const index = dropped.partition - FIRST_PARTITION;
    await servers.dropRecords(cluster.name, index, dropped.logEndOffset);
    await clicks(300);
    cluster.start('m1', 'counter');
    await eventually('its partition has stopped', async () => (await stopped()) === 1);
    await eventually('the others are counted', async () =>
      (await partitions()).every(
        (each) => isCounted(each) === (each.partition !== dropped.partition),
      ),
    );
    expect((await cluster.status()).problems.join()).toContain(String(dropped.partition));
    expect(await hourIsIncomplete()).toBe(true);
  });

  test('by permission it goes on behind them, and the hour says that its live numbers lack some', async () => {
    const { partition } = dropped;
    await cluster.do('counter', 'accept-gap', '--partition', String(partition));
    await eventually('it is counted', async () => (await partitions()).every(isCounted));
    expect(await stopped()).toBe(0);
    await clicks(300);
    await cluster.awaitCounted();
    expect(await hourIsIncomplete()).toBe(true);
    const acknowledged = loads.reduce((sum, load) => sum + load.acknowledged.size, 0);
    const live = [...clicksPerAd(await rowsOfAll(cluster)).values()];
    const counted = live.reduce((sum, each) => sum + each, 0);
    expect(counted).toBeLessThan(acknowledged);
    // Minutes that it saw only in part are not shown either: none of its later clicks is in a row then.
    const now = (await partitions()).find((each) => each.partition === partition)!;
    expect(acknowledged - counted).toBeLessThanOrEqual(now.logEndOffset - dropped.countedOffset);
  });

  test('the final numbers have every click, from the archive', async () => {
    await turnFinal(cluster, loads);
    expect(cluster.endedByThemselves).toEqual([]);
  });
});
