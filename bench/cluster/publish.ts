/**
 * Which share of the clicks goes to the spool because Kafka was not in time: a worker's writer at steady
 * rates, with the deadline of 50 ms that it has by default.
 *
 * `bun bench/cluster/publish.ts [--partitions 32] [--seconds 10] [--rounds 3]`
 */
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/platform/clock.ts';
import { KafkaServers } from '../../test/support/kafka.ts';
import { MadeClicks } from '../made-clicks.ts';
import { heading } from '../support.ts';
import { connectionOf, makeTopic } from './topic.ts';
import { paced, withWriter } from './writer.ts';

const { values } = parseArgs({
  options: {
    partitions: { type: 'string', default: '32' },
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '3' },
  },
});
const RATES_PER_MS = [5, 10, 20];
const CLICKS = 50_000;

heading(`Publishing at a steady rate, ${values.partitions} partitions`);
const made = new MadeClicks({ ads: 20_000, perMs: 10, firstMs: systemClock() });
const clicks = Array.from({ length: CLICKS }, () => made.nextRecord().bytes);
const servers = await KafkaServers.start();
const connection = connectionOf(servers);
try {
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const perMs of RATES_PER_MS) {
      const topic = `paced-${perMs}-${round}`;
      await makeTopic(connection, { topic, partitions: Number(values.partitions) });
      await withWriter({ connection, topic }, { compression: 'lz4' }, (writer) =>
        paced(writer, clicks, { perMs, forMs: Number(values.seconds) * 1_000 }),
      );
    }
  }
} finally {
  await servers.stop();
}
process.exit(0);
