/** How this process shares the log's partitions with others, and sees how far others are. */
import type { Config } from '../config/schema.ts';
import type { GroupProgress, PartitionGroup } from '../log/group.ts';
import type { Logger } from '../platform/logger.ts';

export interface LogGroupOptions {
  readonly role: 'counter' | 'archiver';
  /** The same after a restart: its partitions are kept for it meanwhile. */
  readonly instance: string;
  /** Partitions that this machine knows something of. */
  readonly remembers?: () => readonly number[];
  readonly logger: Logger;
}

const COMMIT_TIMEOUT_MS = 30_000;

export async function openLogGroup(
  config: Pick<Config, 'log'>,
  { role, instance, remembers, logger }: LogGroupOptions,
): Promise<PartitionGroup> {
  const { KafkaPartitionGroup } = await import('../log/kafka/group.ts');
  const { sessionTimeoutMs } = config.log.kafka;
  return new KafkaPartitionGroup({
    ...(await groupOf(config, role)),
    instanceId: instance,
    sessionTimeoutMs,
    heartbeatMs: Math.min(1_000, Math.floor(sessionTimeoutMs / 5)),
    rebalanceTimeoutMs: Math.max(COMMIT_TIMEOUT_MS, sessionTimeoutMs),
    ...(remembers === undefined ? {} : { remembers }),
    onProblem: (error) => logger.warn({ err: error }, `the group of ${role}s`),
  });
}

export async function openCounterProgress(config: Pick<Config, 'log'>): Promise<GroupProgress> {
  const { KafkaGroupProgress } = await import('../log/kafka/group-progress.ts');
  return new KafkaGroupProgress(await groupOf(config, 'counter'));
}

async function groupOf({ log: { kafka } }: Pick<Config, 'log'>, role: LogGroupOptions['role']) {
  const { kafkaConnection } = await import('./kafka-connection.ts');
  return {
    connection: kafkaConnection(kafka, `clickledger-${role}`),
    groupId: `${kafka.group}-${role}`,
    topic: kafka.topic,
    firstPartition: kafka.firstPartition,
  };
}
