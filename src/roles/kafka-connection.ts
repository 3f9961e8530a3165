/** What the settings say about the brokers and the topic. */
import { readFileSync } from 'node:fs';
import type { Config } from '../config/schema.ts';
import { CONNECTION_DEFAULTS, type KafkaConnection } from '../log/kafka/options.ts';
import type { TopicPlan } from '../log/kafka/topic.ts';
import { LedgerError } from '../platform/errors.ts';

type KafkaConfig = Config['log']['kafka'];

export function kafkaConnection(kafka: KafkaConfig, clientId: string): KafkaConnection {
  return {
    clientId,
    brokers: kafka.brokers.split(','),
    connectTimeoutMs: CONNECTION_DEFAULTS.connectTimeoutMs,
    requestTimeoutMs: kafka.requestTimeoutMs,
    ...(kafka.tls && { tls: tlsOf(kafka) }),
    ...(kafka.saslMechanism !== 'none' && {
      sasl: {
        mechanism: kafka.saslMechanism,
        username: kafka.saslUsername,
        password: kafka.saslPassword,
      },
    }),
  };
}

function tlsOf(kafka: KafkaConfig): NonNullable<KafkaConnection['tls']> {
  return {
    ...(kafka.tlsCaFile !== '' && { ca: pem(kafka.tlsCaFile) }),
    ...(kafka.tlsCertFile !== '' && { cert: pem(kafka.tlsCertFile) }),
    ...(kafka.tlsKeyFile !== '' && { key: pem(kafka.tlsKeyFile) }),
  };
}

function pem(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new LedgerError('config_invalid', `${path} cannot be read`, { cause: error });
  }
}

export function topicPlan({
  topic,
  partitions,
  replication,
  topicRetentionMs,
}: KafkaConfig): TopicPlan {
  return { topic, partitions, replication, retentionMs: topicRetentionMs };
}
