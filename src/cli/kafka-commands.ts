/** Commands about the Kafka topic that holds the clicks. */
import type { Command } from 'commander';
import type { Config } from '../config/schema.ts';
import { LedgerError } from '../platform/errors.ts';
import { type CommonFlags, configOf, print, withCommonFlags } from './context.ts';

export function addKafkaCommands(program: Command): void {
  const kafka = program.command('kafka').description('the topic that holds the clicks');
  withCommonFlags(
    kafka
      .command('create-topic')
      .description('make it as the configuration says; check one that exists'),
  ).action(async (flags: CommonFlags) => {
    const { connection, plan, createTopic } = await kafkaOf(configOf(flags));
    const made = await createTopic(connection, plan);
    print(
      made
        ? `made the topic ${plan.topic}`
        : `the topic ${plan.topic} exists and holds clicks safely`,
    );
  });
  withCommonFlags(
    kafka.command('check').description('look whether it would lose or misdate clicks'),
  ).action(async (flags: CommonFlags) => {
    const { connection, plan, checkTopic } = await kafkaOf(configOf(flags));
    await checkTopic(connection, plan);
    print(`the topic ${plan.topic} holds clicks safely`);
  });
}

/** The client is loaded for these commands only. */
async function kafkaOf({ log: { kafka } }: Config) {
  if (kafka.brokers === '') {
    throw new LedgerError('config_invalid', 'log.kafka.brokers is not set', {
      hint: 'See docs/operating/kafka.md.',
    });
  }
  const { kafkaConnection, topicPlan } = await import('../roles/kafka-connection.ts');
  const topic = await import('../log/kafka/topic.ts');
  return {
    ...topic,
    connection: kafkaConnection(kafka, 'clickledger-cli'),
    plan: topicPlan(kafka),
  };
}
