/** The settings of the click log on Kafka; what they mean together is in docs/operating/kafka.md. */
import { z } from 'zod';
import { DAY_MS, HOUR_MS, ms } from './pieces.ts';

const access = {
  tls: z.boolean().default(false).describe('Speak TLS with the brokers.'),
  tlsCaFile: z
    .string()
    .default('')
    .describe(
      'PEM file of the authority that signed the brokers’ certificates; empty: the system’s.',
    ),
  tlsCertFile: z
    .string()
    .default('')
    .describe('PEM file of our own certificate, when the brokers ask for one.'),
  tlsKeyFile: z.string().default('').describe('PEM file of its key.'),
  saslMechanism: z
    .enum(['none', 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'])
    .default('none')
    .describe('How we say who we are.'),
  saslUsername: z.string().default('').describe('Who we are.'),
  saslPassword: z.string().default('').meta({
    description: 'Its password. Better given as a variable than in the file.',
    secret: true,
  }),
};

export const kafkaSettings = z
  .strictObject({
    brokers: z
      .string()
      .regex(/^(\S+:\d{1,5}(,\S+:\d{1,5})*)?$/)
      .default('')
      .describe(
        '`host:port` of some brokers, with commas between; the others are learnt from them.',
      ),
    topic: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,249}$/)
      .default('clicks')
      .describe('The topic that holds the clicks. `clickledger kafka create-topic` makes it.'),
    group: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,200}$/)
      .default('clickledger')
      .describe(
        'Counters and archivers share out the partitions in the consumer groups of this name, `-counter` and `-archiver` behind it.',
      ),
    sessionTimeoutMs: ms(1_000, 300_000)
      .default(10_000)
      .describe(
        'A counter or archiver that is not heard of for so long loses its partitions to the others.',
      ),
    partitions: z
      .int()
      .min(1)
      .max(1_000)
      .default(32)
      .describe('Partitions that the topic is made with.'),
    firstPartition: z
      .int()
      .min(1_001)
      .max(60_000)
      .default(10_000)
      .describe(
        'The number of the topic’s partition 0 in positions, archive and rows; the others follow. Change it for a topic that was made anew: the old one’s numbers stay with what is archived.',
      ),
    replication: z
      .int()
      .min(1)
      .max(10)
      .default(3)
      .describe('Brokers that hold each click. A topic with fewer is refused.'),
    topicRetentionMs: ms(HOUR_MS, 400 * DAY_MS)
      .default(7 * DAY_MS)
      .describe('How long the topic keeps clicks. A topic that keeps them shorter is refused.'),
    compression: z
      .enum(['none', 'lz4', 'zstd', 'snappy', 'gzip'])
      .default('lz4')
      .describe('How batches are packed.'),
    publishDeadlineMs: ms(5, 10_000)
      .default(50)
      .describe('A click that Kafka has not acknowledged by then is written to the local spool.'),
    lingerMs: ms(1, 1_000)
      .default(2)
      .describe('How long clicks are collected into a batch at the most.'),
    breakerOpenMs: ms(100, 60_000)
      .default(1_000)
      .describe('When a broker keeps failing, clicks go to the spool at once for so long.'),
    requestTimeoutMs: ms(100, 60_000)
      .default(10_000)
      .describe('A connection that does not answer a request within this is closed.'),
    shipRecordsPerSecond: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(5_000)
      .describe('How fast each worker brings spooled clicks into the topic.'),
    ...access,
  })
  .prefault({});
