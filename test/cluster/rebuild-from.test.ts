/**
 * A machine's ledger moves to many machines, and from there to others: every final number, revision and
 * restatement is what it was, tokens and links still work, and new clicks are counted behind it.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataPaths } from '../../src/config/paths.ts';
import { DEMO_ADS } from '../../src/demo/ads.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { awaitCounted, setUpWorld, type World } from '../crash/world.ts';
import { completeAnswers, HOUR_MS, startOfHour } from '../support/answers.ts';
import { expectLiveExact, turnFinal } from '../support/final-machines.ts';
import { Load } from '../support/load.ts';
import { cleanUp, Product } from '../support/product.ts';
import { RoleCluster } from '../support/role-cluster.ts';
import { RoleServers, serversMissing } from '../support/role-servers.ts';
import { BUCKET } from '../support/s3-world.ts';
import { tempDir } from '../support/temp-dir.ts';

const missing = serversMissing();
if (missing !== null) process.stderr.write(`rebuild-from: skipped, ${missing}\n`);

const SEED = 30_11;
/** The machine lived some hours ago: what it has is final, and the present belongs to its heirs. */
const PAST_MS = -4 * HOUR_MS;
const [AD] = DEMO_ADS;

describe.skipIf(missing !== null)('a ledger that moves', () => {
  const files = tempDir('rebuild-from');
  const loads: Load[] = [];
  const clusters: RoleCluster[] = [];
  let servers: RoleServers;
  let world: World;
  let disputeId: string;
  /** End of the hours that the machine has made final. */
  let untilMs: number;
  let before: unknown[];

  beforeAll(async () => {
    servers = await RoleServers.start();
    world = await liveAlone();
  }, 300_000);
  afterAll(async () => {
    for (const cluster of clusters) await cluster.dispose();
    await cleanUp();
    await servers?.stop();
    files.remove();
  });

  function fileOf(name: string, rows: readonly object[]): string {
    const path = join(files.path, name);
    writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    return path;
  }

  /** One machine: clicks, a final hour, restatements for two reasons, a dispute. */
  async function liveAlone(): Promise<World> {
    const product = await Product.create({
      env: {
        CLICKLEDGER_CLICK_TRUSTED_PROXIES: '1',
        CLICKLEDGER_ARCHIVE_ROTATE_MS: '400',
        CLICKLEDGER_COUNTER_UPSERT_INTERVAL_MS: '100',
      },
    });
    const fromMs = startOfHour(systemClock() + PAST_MS);
    const alone = { ...(await setUpWorld(product)), fromMs };
    await product.start(`--clock-offset=${PAST_MS}`);
    const load = new Load(alone, SEED, { clicks: 500 });
    await load.end();
    expect(load.unexpected).toEqual([]);
    await awaitCounted(product);
    expect(await product.stop()).toBe(0);
    untilMs = startOfHour(systemClock() + PAST_MS) + HOUR_MS;
    await product.start(`--clock-offset=${PAST_MS + HOUR_MS + 6 * 60_000}`);
    const until = ['reconcile', '--until', new Date(untilMs).toISOString()];
    await product.do(...until);
    const [invalid] = load.acknowledged.keys();
    const verdict = { impression_id: invalid, valid: false, reason: 'data centre' };
    await product.do('verdicts', fileOf('verdicts.ndjson', [verdict]));
    await product.do(...until);
    const late = { impression_id: 'late', ad_id: AD!.adId, clicked_at: new Date(untilMs - 1_000) };
    await product.do('ingest', fileOf('late.ndjson', [late]));
    expect(await product.do(...until)).toContain('restated');
    disputeId = await openDispute(alone);
    expect(await product.do('verify')).toContain('0 differences, 0 archive problems');
    before = await completeAnswers(alone, untilMs);
    const body = JSON.stringify(before);
    expect(body).toContain('"revision":3');
    for (const cause of ['verdict', 'late_clicks']) expect(body).toContain(`"cause":"${cause}"`);
    expect(await product.stop()).toBe(0);
    return alone;
  }

  function asOwner({ tokens }: World): Record<string, string> {
    return {
      Authorization: `Bearer ${tokens.get(AD!.advertiserId)}`,
      'Content-Type': 'application/json',
    };
  }

  async function openDispute(alone: World): Promise<string> {
    const from = new Date(alone.fromMs).toISOString();
    const to = new Date(untilMs).toISOString();
    const response = await fetch(`${alone.apiUrl}/v1/disputes`, {
      method: 'POST',
      headers: asOwner(alone),
      body: JSON.stringify({ ad_id: AD!.adId, from, to, reason: 'too many clicks' }),
    });
    const dispute = (await response.json()) as { id: string };
    expect(response.status).toBe(201);
    return dispute.id;
  }

  /** Machines with nothing yet but the machine's keys and tokens. */
  async function heirs(env: Record<string, string> = {}): Promise<RoleCluster> {
    const more = { CLICKLEDGER_RECONCILE_DELAY_MS: String(24 * HOUR_MS), ...env };
    const cluster = await RoleCluster.create(servers, {
      partitions: 4,
      env: more,
      withoutKeys: true,
    });
    clusters.push(cluster);
    const { root, control, deadLetters } = dataPaths(world.product.dataDir);
    const imported = ['control', 'import', control, '--dead-letters', deadLetters];
    expect(await cluster.do(...imported)).toMatch(/tokens +3/);
    expect(await cluster.do(...imported)).toMatch(/tokens +0/);
    // Signing keys are in the old catalog.
    expect(await cluster.doOn(root, 'key', 'list')).toContain('k1');
    cluster.key = { ...world.key };
    cluster.tokens = new Map(world.tokens);
    await cluster.makeAdmin();
    return cluster;
  }

  async function startRoles(cluster: RoleCluster): Promise<void> {
    await cluster.startAll([['m1', 'catalog']]);
    await cluster.startAll([
      ['m1', 'click'],
      ['m1', 'counter'],
      ['m2', 'counter'],
      ['m1', 'archiver'],
      ['m1', 'reconciler'],
      ['a1', 'api'],
    ]);
  }

  async function expectSame(cluster: RoleCluster): Promise<void> {
    const view = { ...cluster.view(), fromMs: world.fromMs };
    expect(await completeAnswers(view, untilMs)).toEqual(before);
    const { status } = await fetch(`${view.apiUrl}/v1/disputes/${disputeId}`, {
      headers: asOwner(world),
    });
    expect(status).toBe(200);
    expect(await cluster.do('verify')).toContain('0 differences, 0 archive problems');
  }

  async function clicks(cluster: RoleCluster): Promise<Load> {
    const load = new Load(cluster, SEED + 1 + loads.length, { clicks: 300 });
    loads.push(load);
    await load.end();
    expect(load.unexpected).toEqual([]);
    await cluster.awaitCounted();
    return load;
  }

  test('from one machine to many: all that was final is the same, and new clicks are counted', async () => {
    const cluster = await heirs();
    const { archive } = dataPaths(world.product.dataDir);
    const said = await cluster.do('rebuild', '--from', archive);
    expect(said).toContain(new Date(untilMs).toISOString().replace('.000Z', 'Z'));
    await startRoles(cluster);
    await expectSame(cluster);
    const load = await clicks(cluster);
    await expectLiveExact(cluster, [load]);
    await expectSame(cluster);
    await cluster.stopAll();
  });

  test('from a bucket to another one, with a topic made anew: as well', async () => {
    const cluster = await heirs({ CLICKLEDGER_LOG_KAFKA_FIRST_PARTITION: '11000' });
    const [from] = clusters;
    await cluster.do('rebuild', '--from', `s3://${BUCKET}/${from!.name}`);
    await startRoles(cluster);
    await expectSame(cluster);
    await clicks(cluster);
    await expectSame(cluster);
    await turnFinal(cluster, loads);
    expect(clusters.flatMap((each) => each.endedByThemselves)).toEqual([]);
  });
});
