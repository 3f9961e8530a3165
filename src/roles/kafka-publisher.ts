/** Publishing to the topic: a connection, and a look at the topic before anything is sent. */
import type { Config } from '../config/schema.ts';
import { KafkaCluster } from '../log/kafka/cluster.ts';
import { unreachable } from '../log/kafka/connections.ts';
import { Publisher } from '../log/kafka/publisher.ts';
import { checkTopic } from '../log/kafka/topic.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { kafkaConnection, topicPlan } from './kafka-connection.ts';

const CHECK_INTERVAL_MS = 10_000;
const FIRST_CHECK_MS = 3_000;
const LATE = 'late';

export interface OpenPublisher {
  readonly publisher: Publisher;
  close(): Promise<void>;
}

export interface PublisherOptions {
  readonly kafka: Config['log']['kafka'];
  readonly clientId: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether a topic that is missing or unsafe ends the process; otherwise it is looked at again. */
  readonly refusesTopic: boolean;
}

/** A Kafka that cannot be reached is no reason not to start. */
export async function openPublisher(options: PublisherOptions): Promise<OpenPublisher> {
  const { kafka, clientId, clock } = options;
  const cluster = new KafkaCluster(kafkaConnection(kafka, clientId), kafka.topic);
  const publisher = new Publisher({
    cluster,
    topic: kafka.topic,
    compression: kafka.compression,
    timeoutMs: kafka.requestTimeoutMs,
    clock,
  });
  const stopChecking = await holdUntilChecked(options, publisher, cluster);
  return {
    publisher,
    close: async () => {
      stopChecking();
      await cluster.close();
    },
  };
}

/** Nothing is published before the topic was looked at. Waits for the first look, but not for a broker that hangs. */
async function holdUntilChecked(
  { kafka, clientId, logger, refusesTopic }: PublisherOptions,
  publisher: Publisher,
  cluster: KafkaCluster,
): Promise<() => void> {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let stopped = false;
  /** Why nothing can be published; null when it can. */
  const check = async (): Promise<Error | null> => {
    try {
      await checkTopic(kafkaConnection(kafka, clientId), topicPlan(kafka));
      await cluster.refresh();
      return null;
    } catch (error) {
      return error as Error;
    }
  };
  const settle = (problem: Error | null): void => {
    publisher.hold(problem);
    if (problem === null) logger.info({ topic: kafka.topic }, 'Kafka takes clicks now');
    else logger.warn({ err: problem }, 'the topic cannot be checked; nothing is published');
    if (problem !== null && !stopped) timer = setTimeout(again, CHECK_INTERVAL_MS);
  };
  const again = (): void => void check().then(settle);
  publisher.hold(unreachable('the topic was not looked at yet'));
  const first = check();
  const outcome = await Promise.race([
    first,
    Bun.sleep(FIRST_CHECK_MS).then((): typeof LATE => LATE),
  ]);
  if (outcome === LATE) {
    logger.warn('the brokers do not answer; nothing is published');
    void first.then(settle);
  } else {
    const isAway = outcome instanceof LedgerError && outcome.code === 'log_unavailable';
    if (outcome !== null && refusesTopic && !isAway) {
      await cluster.close();
      throw outcome;
    }
    settle(outcome);
  }
  return () => {
    stopped = true;
    if (timer !== null) clearTimeout(timer);
  };
}
