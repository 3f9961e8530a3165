/**
 * The click log of a click worker on Kafka: the writer with its spool, and the shippers.
 *
 * A worker ships its own spool, and those of workers that are no longer there: the one with the
 * number that is left when the spool's is divided by the count of workers.
 */
import { readFileSync } from 'node:fs';
import type { DataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { DiskLogReader } from '../log/disk/reader.ts';
import { removeOldSegments } from '../log/disk/retention.ts';
import { DiskLogWriter } from '../log/disk/writer.ts';
import { KafkaCluster } from '../log/kafka/cluster.ts';
import { CONNECTION_DEFAULTS, type KafkaConnection } from '../log/kafka/options.ts';
import { Publisher } from '../log/kafka/publisher.ts';
import { SpoolShipper } from '../log/kafka/shipper.ts';
import { checkTopic, type TopicPlan } from '../log/kafka/topic.ts';
import { KafkaLogWriter, WRITER_DEFAULTS } from '../log/kafka/writer.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';

const CHECK_INTERVAL_MS = 10_000;

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

export interface KafkaClickLog {
  readonly writer: KafkaLogWriter;
  readonly spool: DiskLogWriter;
  readonly shippers: readonly SpoolShipper[];
  close(): Promise<void>;
}

export interface KafkaClickLogOptions {
  readonly config: Config;
  readonly paths: DataPaths;
  readonly index: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly spoolHooks: Pick<
    ConstructorParameters<typeof DiskLogWriter>[0],
    'onCommit' | 'onHealth'
  >;
  readonly onSettled: (by: 'kafka' | 'spool', records: number, waitedMs: number) => void;
}

/** Throws when the topic is missing or unsafe; a Kafka that cannot be reached is no reason not to start. */
export async function openKafkaClickLog(options: KafkaClickLogOptions): Promise<KafkaClickLog> {
  const { config, paths, index, clock, logger } = options;
  const { kafka, segmentBytes } = config.log;
  const connection = kafkaConnection(kafka, `clickledger-click-${index}`);
  const cluster = new KafkaCluster(connection, kafka.topic);
  const publisher = new Publisher({
    cluster,
    topic: kafka.topic,
    compression: kafka.compression,
    timeoutMs: kafka.requestTimeoutMs,
    clock,
  });
  const stopChecking = await holdUntilChecked({ publisher, cluster, connection, kafka, logger });
  const spool = new DiskLogWriter({
    logDir: paths.spool,
    partition: index,
    segmentBytes,
    clock,
    ...options.spoolHooks,
  });
  const writer = new KafkaLogWriter({
    ...WRITER_DEFAULTS,
    publisher,
    spool,
    publishDeadlineMs: kafka.publishDeadlineMs,
    lingerMs: kafka.lingerMs,
    breakerOpenMs: kafka.breakerOpenMs,
    onSettled: options.onSettled,
  });
  const shippers = await startShippers(options, publisher);
  return {
    writer,
    spool,
    shippers,
    close: async () => {
      stopChecking();
      for (const shipper of shippers) await shipper.close();
      await writer.close();
      await cluster.close();
    },
  };
}

async function startShippers(
  { config, paths, index, logger }: KafkaClickLogOptions,
  publisher: Publisher,
): Promise<SpoolShipper[]> {
  const partitions = await new DiskLogReader(paths.spool).partitions();
  const own = partitions.filter((each) => each % config.click.workers === index);
  const shippers = own.map(
    (partition) =>
      new SpoolShipper({
        publisher,
        partition,
        spool: new DiskLogReader(paths.spool),
        positionDir: paths.spool,
        shipRecordsPerSecond: config.log.kafka.shipRecordsPerSecond,
        removeShipped: (safeOffset) => {
          const olderThanMs = Number.POSITIVE_INFINITY;
          removeOldSegments(paths.spool, partition, { safeOffset, olderThanMs });
        },
        onHealth: (error) =>
          logger[error === null ? 'info' : 'warn']({ err: error, partition }, 'shipping the spool'),
      }),
  );
  for (const shipper of shippers) await shipper.start();
  return shippers;
}

/** Nothing is published before the topic was looked at; until then clicks go to the spool. */
async function holdUntilChecked(parts: {
  publisher: Publisher;
  cluster: KafkaCluster;
  connection: KafkaConnection;
  kafka: KafkaConfig;
  logger: Logger;
}): Promise<() => void> {
  const { publisher, cluster, connection, kafka, logger } = parts;
  let timer: ReturnType<typeof setTimeout> | null = null;
  let stopped = false;
  const check = async (): Promise<void> => {
    await checkTopic(connection, topicPlan(kafka));
    await cluster.refresh();
    publisher.hold(null);
  };
  const again = async (): Promise<void> => {
    try {
      await check();
      logger.info({ topic: kafka.topic }, 'Kafka takes clicks now');
    } catch (error) {
      publisher.hold(error as Error);
      logger.warn({ err: error }, 'the topic cannot be checked; clicks go to the spool');
      if (!stopped) timer = setTimeout(() => void again(), CHECK_INTERVAL_MS);
    }
  };
  try {
    await check();
  } catch (error) {
    const away = error instanceof LedgerError && error.code === 'log_unavailable';
    if (!away) {
      await cluster.close();
      throw error;
    }
    publisher.hold(error);
    logger.warn({ err: error }, 'Kafka cannot be reached; clicks go to the spool');
    timer = setTimeout(() => void again(), CHECK_INTERVAL_MS);
  }
  return () => {
    stopped = true;
    if (timer !== null) clearTimeout(timer);
  };
}
