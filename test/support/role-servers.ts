/**
 * The servers that roles on many machines share: Kafka, an S3 server, PostgreSQL, and ClickHouse (its
 * test server: what that one is not, the head of `clickhouse-http.ts` says).
 */
import { Admin } from '@platformatic/kafka';
import { PASSWORD, TestClickHouse, USER } from './clickhouse-server.ts';
import { type KafkaOptions, KafkaServers } from './kafka.ts';
import { postgresMissing, TestPostgres } from './postgres.ts';
import { BUCKET, S3World } from './s3-world.ts';

/** Why there are none here, or null when there are. */
export const serversMissing = postgresMissing;

export class RoleServers {
  readonly kafka: KafkaServers;
  readonly s3: S3World;
  readonly clickhouse: TestClickHouse;
  readonly postgres: TestPostgres;

  private constructor(parts: Pick<RoleServers, 'kafka' | 's3' | 'clickhouse' | 'postgres'>) {
    this.kafka = parts.kafka;
    this.s3 = parts.s3;
    this.clickhouse = parts.clickhouse;
    this.postgres = parts.postgres;
  }

  static async start(options: KafkaOptions = {}): Promise<RoleServers> {
    const [kafka, s3, clickhouse, postgres] = await Promise.all([
      KafkaServers.start(options),
      S3World.start(),
      TestClickHouse.start(),
      TestPostgres.create(),
    ]);
    return new RoleServers({ kafka, s3, clickhouse, postgres });
  }

  /** Databases of this name, a prefix and a topic: settings of one cluster among others here. */
  async settingsOf(name: string, partitions: number): Promise<Record<string, string>> {
    await this.#statement(`CREATE DATABASE IF NOT EXISTS ${name}`);
    const { kafka, s3 } = this;
    return {
      CLICKLEDGER_LOG_KIND: 'kafka',
      CLICKLEDGER_LOG_KAFKA_BROKERS: kafka.addresses.join(','),
      CLICKLEDGER_LOG_KAFKA_TOPIC: name,
      CLICKLEDGER_LOG_KAFKA_GROUP: name,
      CLICKLEDGER_LOG_KAFKA_PARTITIONS: String(partitions),
      CLICKLEDGER_LOG_KAFKA_REPLICATION: String(kafka.brokers.length),
      CLICKLEDGER_LOG_KAFKA_REQUEST_TIMEOUT_MS: '4000',
      CLICKLEDGER_ARCHIVE_KIND: 's3',
      CLICKLEDGER_ARCHIVE_S3_BUCKET: BUCKET,
      CLICKLEDGER_ARCHIVE_S3_PREFIX: name,
      CLICKLEDGER_ARCHIVE_S3_ENDPOINT: s3.server.endpoint,
      CLICKLEDGER_ARCHIVE_S3_REGION: 'us-east-1',
      CLICKLEDGER_ARCHIVE_S3_FORCE_PATH_STYLE: 'true',
      CLICKLEDGER_WAREHOUSE_KIND: 'clickhouse',
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_URL: this.clickhouse.url,
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_DATABASE: name,
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_USERNAME: USER,
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_REQUEST_TIMEOUT_MS: '10000',
      CLICKHOUSE_PASSWORD: PASSWORD,
      CLICKLEDGER_CONTROL_KIND: 'postgres',
      CLICKLEDGER_CONTROL_POSTGRES_URL: await this.postgres.database(`${name}_control`),
      CLICKLEDGER_CONTROL_POSTGRES_TIMEOUT_MS: '3000',
      CLICKLEDGER_CONTROL_POSTGRES_MAX_CONNECTIONS: '2',
      CLICKLEDGER_CATALOG_KIND: 'postgres',
      CLICKLEDGER_CATALOG_POSTGRES_URL: await this.postgres.database(`${name}_ads`),
      CLICKLEDGER_CATALOG_POSTGRES_POLL_MS: '500',
      CLICKLEDGER_CATALOG_POSTGRES_COLUMNS_PASS_QUERY: 'pass_query',
    };
  }

  async #statement(text: string): Promise<void> {
    const credentials = Buffer.from(`${USER}:${PASSWORD}`).toString('base64');
    const response = await fetch(this.clickhouse.url, {
      method: 'POST',
      body: text,
      headers: { Authorization: `Basic ${credentials}` },
    });
    if (!response.ok) throw new Error(`${text}: ${await response.text()}`);
  }

  /** Drops what a topic's partition holds before the offset, as its retention does in time. */
  async dropRecords(topic: string, partition: number, beforeOffset: number): Promise<void> {
    const admin = new Admin({
      clientId: 'clickledger-test',
      bootstrapBrokers: this.kafka.addresses,
    });
    try {
      const offset = BigInt(beforeOffset);
      await admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition, offset }] }] });
    } finally {
      await admin.close();
    }
  }

  thawAll(): void {
    for (const broker of this.kafka.brokers) broker.thaw();
    this.s3.server.thaw();
    this.clickhouse.thaw();
  }

  async stop(): Promise<void> {
    this.thawAll();
    await this.kafka.stop();
    await this.s3.stop();
    await this.clickhouse.dispose();
    await this.postgres.dispose();
  }
}
