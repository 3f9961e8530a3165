/** What the parts of the Kafka log need to be told. Read from the configuration in `src/roles`. */
import type { ConnectionOptions } from 'node:tls';

export interface KafkaConnection {
  readonly clientId: string;
  /** `host:port` of one or more brokers; the others are learnt from them. */
  readonly brokers: readonly string[];
  readonly connectTimeoutMs: number;
  /** A request without an answer for so long closes its connection. */
  readonly requestTimeoutMs: number;
  readonly tls?: ConnectionOptions;
  readonly sasl?: KafkaSasl;
}

export interface KafkaSasl {
  readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512';
  readonly username: string;
  readonly password: string;
}

export const CONNECTION_DEFAULTS = { connectTimeoutMs: 2_000, requestTimeoutMs: 10_000 };
