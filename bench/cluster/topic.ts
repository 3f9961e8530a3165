/** A topic full of made clicks, in batches as click workers make them. */
import { readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { KafkaCluster } from '../../src/log/kafka/cluster.ts';
import { CONNECTION_DEFAULTS, type KafkaConnection } from '../../src/log/kafka/options.ts';
import { Publisher } from '../../src/log/kafka/publisher.ts';
import { KafkaLogReader } from '../../src/log/kafka/reader.ts';
import { createTopic } from '../../src/log/kafka/topic.ts';
import { systemClock } from '../../src/platform/clock.ts';
import type { KafkaServers } from '../../test/support/kafka.ts';
import type { MadeClicks } from '../made-clicks.ts';

export const FIRST_PARTITION = 10_000;
const IN_FLIGHT = 16;
export const RETENTION_MS = 24 * 3_600_000;

export function connectionOf(servers: KafkaServers): KafkaConnection {
  return { ...CONNECTION_DEFAULTS, clientId: 'bench', brokers: servers.addresses };
}

export function openReader(connection: KafkaConnection, topic: string): KafkaLogReader {
  return new KafkaLogReader({ connection, topic, firstPartition: FIRST_PARTITION });
}

/** Made, and led: leaders take office a moment after the topic is there. */
export async function makeTopic(
  connection: KafkaConnection,
  plan: { topic: string; partitions: number },
): Promise<void> {
  await createTopic(connection, { ...plan, replication: 1, retentionMs: RETENTION_MS });
  const reader = openReader(connection, plan.topic);
  for (const partition of await reader.partitions()) await reader.range(partition);
  await reader.close();
}

export interface Filling {
  readonly topic: string;
  readonly partitions: number;
  readonly records: number;
  /** Clicks in a batch, on average: they fall into partitions by their impression. */
  readonly perBatch: number;
}

/** Acknowledged, all of it, when it returns. */
export async function fillTopic(
  connection: KafkaConnection,
  { topic, partitions, records, perBatch }: Filling,
  clicks: MadeClicks,
): Promise<void> {
  const cluster = new KafkaCluster(connection, topic);
  await cluster.refresh();
  const publisher = new Publisher({
    ...{ cluster, topic, compression: 'lz4', timeoutMs: 10_000, clock: systemClock },
  });
  let left = records;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      const count = Math.min(left, partitions * perBatch);
      left -= count;
      await publish(publisher, clicks, count);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  await cluster.close();
}

function publish(publisher: Publisher, clicks: MadeClicks, count: number): Promise<void> {
  const records = Array.from({ length: count }, () => clicks.nextRecord());
  return new Promise((resolve, reject) => {
    let waiting = count;
    publisher.publish(records, (settled, error) => {
      waiting -= settled.length;
      if (error !== null) reject(error);
      else if (waiting === 0) resolve();
    });
  });
}

/** So many clicks a millisecond from now on, until it is told to stop; returns how many there were. */
export function keepPublishing(
  connection: KafkaConnection,
  { topic, perMs }: { topic: string; perMs: number },
  clicks: MadeClicks,
): { stop(): Promise<{ published: number; perSecond: number }> } {
  let isStopped = false;
  const running = (async () => {
    const cluster = new KafkaCluster(connection, topic);
    await cluster.refresh();
    const publisher = new Publisher({
      ...{ cluster, topic, compression: 'lz4', timeoutMs: 10_000, clock: systemClock },
    });
    const startedMs = performance.now();
    const sends: Promise<void>[] = [];
    let published = 0;
    while (!isStopped) {
      const due = Math.floor((performance.now() - startedMs) * perMs) - published;
      if (due > 0) sends.push(publish(publisher, clicks, due));
      published += Math.max(0, due);
      // The linger of a click worker.
      await Bun.sleep(2);
    }
    await Promise.all(sends);
    const perSecond = published / ((performance.now() - startedMs) / 1_000);
    await cluster.close();
    return { published, perSecond };
  })();
  return {
    stop: () => {
      isStopped = true;
      return running;
    },
  };
}

/** What the broker keeps of the topic: its segments, without their indexes. */
export function topicBytes(servers: KafkaServers, topic: string): number {
  const data = join(dirname(servers.brokers[0]!.output), 'data');
  let bytes = 0;
  for (const name of readdirSync(data)) {
    if (!name.startsWith(`${topic}-`) || !/^\d+$/.test(name.slice(topic.length + 1))) continue;
    for (const file of readdirSync(join(data, name))) {
      if (file.endsWith('.log')) bytes += statSync(join(data, name, file)).size;
    }
  }
  return bytes;
}
