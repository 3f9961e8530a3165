/**
 * How long a partition's new owner takes until it counts: with its journal, and without it, when it has to
 * read the dedup window out of the topic again. From the start of the worker, joining the group included.
 *
 * `bun bench/cluster/takeover.ts [--records 1000000] [--batch 4] [--rounds 3]`: clicks of one dedup window.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { KafkaConnection } from '../../src/log/kafka/options.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { KafkaServers } from '../../test/support/kafka.ts';
import { MadeClicks } from '../made-clicks.ts';
import {
  heading,
  median,
  megabytes,
  memoryOf,
  thousands,
  waitFor,
  withTempDir,
} from '../support.ts';
import { connectionOf, fillTopic, makeTopic } from './topic.ts';
import { countedUntil, type RunningWorker, SINK, startWorker } from './worker.ts';

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '1000000' },
    batch: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
  },
});
const RECORDS = Number(values.records);
const ROUNDS = Number(values.rounds);
const PER_BATCH = Number(values.batch);
/** Just less than the dedup window: all of it is needed. */
const WINDOW_MS = 23 * 3_600_000;
const TOPIC = 'clicks';

async function start(connection: KafkaConnection, dir: string): Promise<RunningWorker> {
  return startWorker({ connection, topic: TOPIC, groupId: 'counters', dir, warehouse: SINK });
}

/** Until the partition is counted on from where it was committed. */
async function takenOver(connection: KafkaConnection, dir: string): Promise<number> {
  const startedMs = performance.now();
  const running = await start(connection, dir);
  const isCounting = async (): Promise<boolean> =>
    running.worker.partitions().some(({ state }) => state === 'counting');
  await waitFor('the partition', isCounting, { withinMs: 600_000, everyMs: 20 });
  const seconds = (performance.now() - startedMs) / 1_000;
  const { claims } = running.worker.memory();
  if (claims !== RECORDS) throw new Error(`${claims} impressions are remembered`);
  await running.close();
  return seconds;
}

function line(what: string, seconds: number): void {
  const perMillion = (seconds / RECORDS) * 1e6;
  const rate = thousands(RECORDS / seconds).padStart(9);
  console.log(
    `${what.padEnd(30)} ${seconds.toFixed(2)} s, ${perMillion.toFixed(2)} s a million, ${rate} /s`,
  );
}

async function main(servers: KafkaServers, dir: string): Promise<void> {
  const connection = connectionOf(servers);
  await makeTopic(connection, { topic: TOPIC, partitions: 1 });
  const clicks = new MadeClicks({
    ...{ ads: 20_000, perMs: RECORDS / WINDOW_MS, firstMs: systemClock() - WINDOW_MS },
  });
  const filling = { topic: TOPIC, partitions: 1, records: RECORDS, perBatch: PER_BATCH };
  await fillTopic(connection, filling, clicks);
  const filledMs = systemClock();
  const first = await start(connection, join(dir, 'first'));
  await countedUntil(first.worker, filledMs);
  await first.close();
  const kept: number[] = [];
  const lost: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    kept.push(await takenOver(connection, join(dir, 'first')));
    lost.push(await takenOver(connection, join(dir, `lost-${round}`)));
  }
  line('with its journal', median(kept));
  line('without, from the topic', median(lost));
  const { peakBytes } = await memoryOf(process.pid);
  console.log(`memory of the process          ${megabytes(peakBytes)} at most`);
}

heading(`Taking a partition over: ${thousands(RECORDS)} clicks in the dedup window`);
const servers = await KafkaServers.start();
try {
  await withTempDir((dir) => main(servers, dir));
} finally {
  await servers.stop();
}
process.exit(0);
