// Proves INV-1 of SPEC.md.
/** Three brokers of which one dies or hangs under load: nothing acknowledged is lost. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { KafkaLogReader } from '../../src/log/kafka/reader.ts';
import type { KafkaBroker } from '../support/kafka.ts';
import { countLog, Load, until } from '../support/kafka-clicks.ts';
import { FIRST, KafkaWorld, type WriterParts } from '../support/kafka-world.ts';

let world: KafkaWorld;
beforeAll(async () => {
  world = await KafkaWorld.start({ brokers: 3 });
});
afterAll(() => world?.stop());

function leaderOf({ cluster }: WriterParts, partition: number): KafkaBroker {
  const nodeId = cluster.layout!.leaders[partition];
  return world.servers.brokers.find((broker) => broker.nodeId === nodeId)!;
}

/** Reads on and on while brokers come and go; ends when told to, with what it saw. */
class Tail {
  readonly records: number[] = [];
  #stopped = false;
  readonly #running: Promise<void>;

  constructor(reader: KafkaLogReader, partitions: number) {
    this.records = new Array<number>(partitions).fill(0);
    this.#running = this.#run(reader);
  }

  async #run(reader: KafkaLogReader): Promise<void> {
    while (!this.#stopped) {
      for (let partition = 0; partition < this.records.length; partition++) {
        const from = this.records[partition]!;
        for (const { firstOffset, count } of await reader.read(FIRST + partition, from, 65_536)) {
          expect(firstOffset).toBeLessThanOrEqual(this.records[partition]!);
          this.records[partition] = firstOffset + count;
        }
      }
      await Bun.sleep(5);
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }
}

async function allIsThere(topic: string, parts: WriterParts, load: Load): Promise<void> {
  expect(load.failures).toEqual([]);
  const shipper = world.shipper(parts.spoolDir, parts.publisher);
  await shipper.start();
  await until('the spool is shipped', async () => (await shipper.backlogRecords()) === 0);
  const log = await countLog(world.reader(topic, { patienceMs: 60_000 }));
  expect(log.impressions).toEqual(load.acknowledged);
  expect(log.counted).toBe(load.acknowledged.size);
}

describe('under load', () => {
  for (const [what, strike, repair] of [
    [
      'dies',
      (broker: KafkaBroker) => broker.kill(),
      async (broker: KafkaBroker) => {
        broker.start();
        await world.servers.ready(broker);
      },
    ],
    ['hangs', (broker: KafkaBroker) => broker.freeze(), (broker: KafkaBroker) => broker.thaw()],
  ] as const) {
    test(`a leader ${what}: every click is acknowledged and none is lost; a reader goes on at the new leader`, async () => {
      const topic = await world.topic({ partitions: 6 });
      const parts = await world.writer(topic);
      const tail = new Tail(world.reader(topic, { patienceMs: 60_000 }), 6);
      const load = new Load(parts.writer, 1);
      await until('clicks are published', () => parts.writer.counts.published > 500);
      const broker = leaderOf(parts, 0);
      await strike(broker);
      await until('another broker leads', async () => {
        await parts.cluster.refresh().catch(() => {});
        const { leaders } = parts.cluster.layout!;
        return leaders.every((nodeId) => nodeId !== broker.nodeId && nodeId !== -1);
      });
      const { published } = parts.writer.counts;
      await until(
        'clicks are published again',
        () => parts.writer.counts.published > published + 500,
      );
      const read = tail.records[0]!;
      await until('the reader goes on', () => tail.records[0]! > read);
      await repair(broker);
      await load.stop();
      await parts.writer.close();
      await allIsThere(topic, parts, load);
      await tail.stop();
    });
  }

  test('with one replica in sync left nothing is acknowledged by Kafka; clicks go to the spool', async () => {
    const topic = await world.topic({ partitions: 1 });
    const parts = await world.writer(topic);
    const load = new Load(parts.writer, 1);
    await until('clicks are published', () => parts.writer.counts.published > 200);
    const leader = leaderOf(parts, 0);
    const followers = world.servers.brokers.filter((broker) => broker !== leader);
    for (const broker of followers) broker.freeze();
    const { spooled } = parts.writer.counts;
    await until('clicks are spooled', () => parts.writer.counts.spooled > spooled + 500);
    for (const broker of followers) broker.thaw();
    const { published } = parts.writer.counts;
    await until(
      'clicks are published again',
      () => parts.writer.counts.published > published + 200,
    );
    await load.stop();
    await parts.writer.close();
    await allIsThere(topic, parts, load);
  });
});
