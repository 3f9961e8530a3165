/**
 * Refuses a topic that was made anew and has the partition numbers of the one before.
 *
 * Its offsets begin at 0 again, and the archive has other clicks under them: as soon as it is longer than what
 * is archived, it would look like the old one, and its first clicks would never be archived. Kafka forgets the
 * group's offsets with the topic, so they do not show it either.
 */
import type { Config } from '../config/schema.ts';
import { LedgerError } from '../platform/errors.ts';
import type { TopicReader } from './log-reader.ts';
import type { SharedFacts } from './shared-facts.ts';

/** Throws LedgerError `log_replaced`: whoever waits goes on when the old topic is there again. */
export async function requireKnownLog(
  { log: { kafka } }: Pick<Config, 'log'>,
  { reader, facts }: { reader: Pick<TopicReader, 'logId'>; facts: Pick<SharedFacts, 'logOf'> },
): Promise<void> {
  const seen = await reader.logId();
  if ((await facts.logOf(kafka.firstPartition, seen)) === seen) return;
  throw new LedgerError(
    'log_replaced',
    `the topic ${kafka.topic} is not the one whose partitions are numbered from ${kafka.firstPartition} on`,
    {
      kind: 'retry',
      hint: 'Give it another log.kafka.first_partition; see docs/operating/many-machines.md.',
    },
  );
}
