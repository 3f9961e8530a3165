/**
 * One click worker on Kafka at steady rates: how long a redirect takes from when its request was due. The
 * load generator and the broker are on the same cores.
 *
 * `bun bench/cluster/click.ts [--partitions 32] [--seconds 8] [--rates 5000,10000,15000,20000,25000]`
 */
import { parseArgs } from 'node:util';
import { configSchema } from '../../src/config/schema.ts';
import { KafkaServers } from '../../test/support/kafka.ts';
import { prepareCatalog } from '../click-path.ts';
import { load } from '../load.ts';
import {
  BUN,
  cpuMsOf,
  freePort,
  heading,
  megabytes,
  memoryOf,
  ROOT,
  respondsTo,
  thousands,
  waitFor,
  withChild,
  withTempDir,
} from '../support.ts';
import { connectionOf, makeTopic, RETENTION_MS } from './topic.ts';

const { values } = parseArgs({
  options: {
    partitions: { type: 'string', default: '32' },
    seconds: { type: 'string', default: '8' },
    rates: { type: 'string', default: '5000,10000,15000,20000,25000' },
  },
});
const ADS = 100_000;
const CONNECTIONS = 128;
const TOPIC = 'clicks';

async function main(servers: KafkaServers, dataDir: string): Promise<void> {
  const partitions = Number(values.partitions);
  await makeTopic(connectionOf(servers), { topic: TOPIC, partitions });
  const key = await prepareCatalog(dataDir, ADS);
  const port = freePort();
  const kafka = { topic: TOPIC, partitions, replication: 1, topicRetentionMs: RETENTION_MS };
  const config = configSchema.parse({
    dataDir,
    logLevel: 'warn',
    log: { kind: 'kafka', kafka: { ...kafka, brokers: servers.addresses.join(',') } },
    click: { port, workers: 1 },
  });
  const worker = [BUN, `${ROOT}/src/main.ts`, 'run-role', 'click', '0', '--config-json'];
  await withChild([...worker, JSON.stringify(config)], async (pid) => {
    await waitFor('click worker', respondsTo(`http://127.0.0.1:${port}/readyz`, 200));
    const traffic = { secret: key.secret, kid: key.kid, ads: ADS, hotShare: 0.1, prepared: 0 };
    const at = (rate: number, seconds: number, seed: number) =>
      load({ port, connections: CONNECTIONS, seconds, rate, signed: { ...traffic, seed } });
    await at(2_000, 3, 1);
    for (const [index, rate] of values.rates.split(',').map(Number).entries()) {
      const beforeMs = await cpuMsOf(pid);
      const result = await at(rate, Number(values.seconds), index + 2);
      const cpuMs = (await cpuMsOf(pid)) - beforeMs;
      const clicks = result.perSecond * Number(values.seconds);
      console.log(
        `${thousands(rate).padStart(7)} /s: got ${thousands(result.perSecond)} /s, p50 ${result.p50Ms.toFixed(1)} ms, p99 ${result.p99Ms.toFixed(1)} ms, no redirect ${result.other + result.failed}, ${((cpuMs * 1_000) / clicks).toFixed(0)} µs of the worker’s processor each`,
      );
    }
    const { peakBytes } = await memoryOf(pid);
    console.log(`memory of the worker ${megabytes(peakBytes)} at most`);
  });
}

heading(`One click worker on Kafka, ${values.partitions} partitions`);
const servers = await KafkaServers.start();
try {
  await withTempDir((dataDir) => main(servers, dataDir));
} finally {
  await servers.stop();
}
process.exit(0);
