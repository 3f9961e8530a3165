/** TLS and a password between us and the broker, from the settings as a user writes them. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { configSchema } from '../../src/config/schema.ts';
import { KafkaCluster } from '../../src/log/kafka/cluster.ts';
import { KafkaLogReader } from '../../src/log/kafka/reader.ts';
import { createTopic } from '../../src/log/kafka/topic.ts';
import { kafkaConnection, topicPlan } from '../../src/roles/kafka-connection.ts';
import { KAFKA_USER, KafkaServers } from '../support/kafka.ts';

let servers: KafkaServers;
beforeAll(async () => {
  servers = await KafkaServers.start({ secured: true });
});
afterAll(() => servers?.stop());

function settings(more: Record<string, unknown> = {}) {
  const { address, caFile } = servers.secured!;
  return configSchema.parse({
    log: {
      kafka: {
        brokers: address,
        ...{ partitions: 1, replication: 1, tls: true, tlsCaFile: caFile },
        ...{ saslMechanism: 'PLAIN', saslUsername: KAFKA_USER.username },
        ...{ saslPassword: KAFKA_USER.password, requestTimeoutMs: 2_000, ...more },
      },
    },
  }).log.kafka;
}

test('with certificate and password the topic is made, and read', async () => {
  const kafka = settings();
  const connection = kafkaConnection(kafka, 'secured');
  expect(await createTopic(connection, topicPlan(kafka))).toBe(true);
  const reader = new KafkaLogReader({
    ...{ connection, topic: kafka.topic, firstPartition: kafka.firstPartition },
  });
  expect(await reader.partitions()).toEqual([10_000]);
  expect(await reader.range(10_000)).toEqual({ partition: 10_000, firstOffset: 0, endOffset: 0 });
  await reader.close();
});

for (const [what, more] of [
  ['a wrong password', { saslPassword: 'another' }],
  ['no authority that signed for the broker', { tlsCaFile: '' }],
  ['no TLS', { tls: false }],
] as const) {
  test(`with ${what} nothing is said to the broker but that it cannot be had`, async () => {
    const kafka = settings(more);
    const cluster = new KafkaCluster(kafkaConnection(kafka, 'secured'), kafka.topic);
    await expect(cluster.refresh()).rejects.toMatchObject({ code: 'log_unavailable' });
    await cluster.close();
  });
}
