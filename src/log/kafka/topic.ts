/**
 * Makes the topic of the click log, and looks whether one that exists may be trusted with clicks.
 *
 * What is checked is what would lose, misdate or refuse clicks without an error on our side.
 */
import { Admin, ConfigResourceTypes } from '@platformatic/kafka';
import { LedgerError } from '../../platform/errors.ts';
import { noTopic } from './cluster.ts';
import { unreachable } from './connections.ts';
import type { KafkaConnection } from './options.ts';
import { MAX_BATCH_BYTES } from './publisher.ts';

export interface TopicPlan {
  readonly topic: string;
  readonly partitions: number;
  readonly replication: number;
  readonly retentionMs: number;
}

/** A broker's limit counts a few bytes more than the batch. */
const MAX_MESSAGE_BYTES = 2 * MAX_BATCH_BYTES;

interface Rule {
  readonly key: string;
  readonly holds: (value: string, plan: TopicPlan) => boolean;
  readonly wanted: (plan: TopicPlan) => string;
  readonly because: string;
}

/** With one replica there is nothing to wait for. */
const minInsync = ({ replication }: TopicPlan): number => Math.min(2, replication);

const RULES: readonly Rule[] = [
  {
    key: 'message.timestamp.type',
    holds: (value) => value === 'LogAppendTime',
    wanted: () => 'LogAppendTime',
    because: 'a click server whose clock is wrong would date clicks wrongly',
  },
  {
    key: 'cleanup.policy',
    holds: (value) => value === 'delete',
    wanted: () => 'delete',
    because: 'compaction keeps one record of each key and drops clicks',
  },
  {
    key: 'min.insync.replicas',
    holds: (value, plan) => Number(value) >= minInsync(plan),
    wanted: (plan) => `${minInsync(plan)}`,
    because: 'a click would be acknowledged that one broker alone has',
  },
  {
    key: 'unclean.leader.election.enable',
    holds: (value) => value === 'false',
    wanted: () => 'false',
    because: 'a broker that lacks acknowledged clicks could become the leader',
  },
  {
    key: 'max.message.bytes',
    holds: (value) => Number(value) > MAX_BATCH_BYTES,
    wanted: () => `${MAX_MESSAGE_BYTES}`,
    because: 'a full batch of clicks would be refused for ever',
  },
  {
    key: 'retention.ms',
    holds: (value, plan) => value === '-1' || Number(value) >= plan.retentionMs,
    wanted: (plan) => `${plan.retentionMs}`,
    because: 'clicks could be dropped before they are counted and archived',
  },
  {
    key: 'retention.bytes',
    holds: (value) => value === '-1',
    wanted: () => '-1',
    because: 'a busy day would drop clicks before they are counted and archived',
  },
];

/** Makes the topic; one that exists is checked instead. True when it was made. */
export async function createTopic(connection: KafkaConnection, plan: TopicPlan): Promise<boolean> {
  const configs = RULES.map((rule) => ({ name: rule.key, value: rule.wanted(plan) }));
  const { topic, partitions, replication: replicas } = plan;
  const made = await withAdmin(connection, topic, async (admin) => {
    try {
      await admin.createTopics({ topics: [topic], partitions, replicas, configs });
      return true;
    } catch (error) {
      if (hasApiId(error, 'TOPIC_ALREADY_EXISTS')) return false;
      throw error;
    }
  });
  if (!made) await checkTopic(connection, plan);
  return made;
}

/** Throws LedgerError `topic_unsafe` that names every setting that would harm, and why. */
export async function checkTopic(connection: KafkaConnection, plan: TopicPlan): Promise<void> {
  const { values, replicas } = await withAdmin(connection, plan.topic, (admin) =>
    describe(admin, plan.topic),
  );
  const problems = RULES.filter(({ key, holds }) => !holds(values.get(key) ?? '', plan)).map(
    ({ key, wanted, because }) =>
      `\n  ${key} is ${values.get(key) ?? 'unknown'}, must be ${wanted(plan)}: otherwise ${because}`,
  );
  if (replicas < plan.replication) {
    problems.push(
      `\n  a partition has ${replicas} replicas, must be ${plan.replication}: otherwise fewer lost disks lose clicks`,
    );
  }
  if (problems.length === 0) return;
  throw new LedgerError(
    'topic_unsafe',
    `the topic ${plan.topic} cannot hold clicks:${problems.join('')}`,
    { hint: 'Change its settings with kafka-configs.sh, then start again.' },
  );
}

async function describe(admin: Admin, topic: string) {
  const resource = {
    resourceType: ConfigResourceTypes.TOPIC,
    resourceName: topic,
    configurationKeys: RULES.map(({ key }) => key),
  };
  const [found] = await admin.describeConfigs({ resources: [resource] });
  const { topics } = await admin.metadata({ topics: [topic] });
  const partitions = topics.get(topic)?.partitions ?? [];
  return {
    values: new Map(found?.configs.map(({ name, value }) => [name, value ?? ''])),
    replicas: Math.min(...partitions.map((each) => each.replicas.length)),
  };
}

async function withAdmin<T>(
  connection: KafkaConnection,
  topic: string,
  use: (admin: Admin) => Promise<T>,
): Promise<T> {
  const { clientId, brokers, connectTimeoutMs, requestTimeoutMs, tls, sasl } = connection;
  const admin = new Admin({
    clientId,
    bootstrapBrokers: [...brokers],
    connectTimeout: connectTimeoutMs,
    requestTimeout: requestTimeoutMs,
    retries: 2,
    retryDelay: 300,
    ...(tls !== undefined && { tls }),
    ...(sasl !== undefined && { sasl }),
  });
  try {
    return await use(admin);
  } catch (error) {
    if (hasApiId(error, 'UNKNOWN_TOPIC_OR_PARTITION')) throw noTopic(topic);
    throw unreachable('the topic cannot be looked at', error);
  } finally {
    await admin.close().catch(() => {});
  }
}

/** The client nests what the broker said under what it did. */
function hasApiId(error: unknown, apiId: string): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const {
    apiId: own,
    errors,
    cause,
  } = error as {
    apiId?: unknown;
    errors?: unknown[];
    cause?: unknown;
  };
  return own === apiId || hasApiId(cause, apiId) || (errors ?? []).some((e) => hasApiId(e, apiId));
}
