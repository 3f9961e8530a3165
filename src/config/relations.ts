/**
 * How settings must relate to each other. Each value may be within its own limits and the set of
 * them still lose or double clicks; these rules are checked when the configuration is loaded.
 */
import type { Config } from './schema.ts';

export interface Relation {
  /** Dotted keys of the settings that the rule compares, the one to change first. */
  readonly keys: readonly string[];
  readonly holds: (config: Config) => boolean;
  /** What must hold, in the words of the file. */
  readonly rule: string;
  /** What breaks otherwise. */
  readonly because: string;
}

export const RELATIONS: readonly Relation[] = [
  {
    keys: ['counting.dedup_window_ms', 'counting.lateness_ms', 'counting.watermark_lag_ms'],
    holds: ({ counting }) =>
      counting.dedupWindowMs >= counting.latenessMs + counting.watermarkLagMs,
    rule: 'counting.dedup_window_ms must be at least counting.lateness_ms + counting.watermark_lag_ms',
    because:
      'a minute that still takes clicks would take the second click on an impression it has forgotten',
  },
  {
    keys: ['reconcile.lookback_ms', 'counting.dedup_window_ms'],
    holds: ({ reconcile, counting }) => reconcile.lookbackMs >= counting.dedupWindowMs,
    rule: 'reconcile.lookback_ms must be at least counting.dedup_window_ms',
    because: 'the recount would bill a click that the stream had recognised as a duplicate',
  },
  {
    keys: ['log.retention_ms', 'counting.dedup_window_ms'],
    holds: ({ log, counting }) => log.retentionMs >= counting.dedupWindowMs,
    rule: 'log.retention_ms must be at least counting.dedup_window_ms',
    because: 'a counter that lost its state could not rebuild it from the log',
  },
  {
    keys: ['counter.upsert_interval_ms', 'counting.lateness_ms', 'reconcile.delay_ms'],
    holds: ({ counter, counting, reconcile }) =>
      counter.upsertIntervalMs <= counting.watermarkLagMs + counting.latenessMs + reconcile.delayMs,
    rule: 'counter.upsert_interval_ms must be at most counting.watermark_lag_ms + counting.lateness_ms + reconcile.delay_ms',
    because:
      'an hour would be compared before its last live rows are written, and that would read as drift',
  },
  {
    keys: ['api.port', 'click.port'],
    holds: ({ click, api }) => click.port === 0 || click.port !== api.port,
    rule: 'api.port and click.port must differ (0 picks a free one)',
    because: 'one of the two servers could not start',
  },
  {
    keys: ['log.kafka.brokers', 'log.kind'],
    holds: ({ log }) => log.kind !== 'kafka' || log.kafka.brokers !== '',
    rule: 'log.kafka.brokers must be set when log.kind is "kafka"',
    because: 'there is no broker to ask',
  },
  {
    keys: ['log.kafka.linger_ms', 'log.kafka.publish_deadline_ms'],
    holds: ({ log: { kafka } }) => kafka.lingerMs * 2 <= kafka.publishDeadlineMs,
    rule: 'log.kafka.linger_ms must be at most half of log.kafka.publish_deadline_ms',
    because: 'a click would be spooled before a broker could have answered',
  },
  {
    keys: ['log.kafka.topic_retention_ms', 'log.retention_ms'],
    holds: ({ log }) => log.kind !== 'kafka' || log.kafka.topicRetentionMs >= log.retentionMs,
    rule: 'log.kafka.topic_retention_ms must be at least log.retention_ms when log.kind is "kafka"',
    because: 'a counter that lost its state could not rebuild it from the topic',
  },
  {
    keys: ['log.kafka.sasl_username', 'log.kafka.sasl_mechanism'],
    holds: ({ log: { kafka } }) =>
      kafka.saslMechanism === 'none' || (kafka.saslUsername !== '' && kafka.saslPassword !== ''),
    rule: 'log.kafka.sasl_username and sasl_password must be set with a log.kafka.sasl_mechanism',
    because: 'the brokers would turn us away',
  },
  {
    keys: ['archive.s3.bucket', 'archive.kind'],
    holds: ({ archive }) => archive.kind !== 's3' || archive.s3.bucket !== '',
    rule: 'archive.s3.bucket must be set when archive.kind is "s3"',
    because: 'there is no bucket to write to',
  },
  {
    keys: ['warehouse.clickhouse.replicated', 'warehouse.clickhouse.cluster'],
    holds: ({ warehouse: { clickhouse } }) => clickhouse.cluster === '' || clickhouse.replicated,
    rule: 'warehouse.clickhouse.replicated must be true when warehouse.clickhouse.cluster is set',
    because: 'every node would have its own idea of which hours are final',
  },
  {
    keys: ['catalog.postgres.url', 'catalog.kind'],
    holds: ({ catalog }) => catalog.kind !== 'postgres' || catalog.postgres.url !== '',
    rule: 'catalog.postgres.url must be set when catalog.kind is "postgres"',
    because: 'there is no database to read ads from',
  },
  {
    keys: ['catalog.postgres.table', 'catalog.postgres.query'],
    holds: ({ catalog: { postgres } }) => postgres.table !== '' || postgres.query !== '',
    rule: 'catalog.postgres.table or catalog.postgres.query must be set',
    because: 'there is nothing to read',
  },
  {
    keys: ['control.postgres.url', 'control.kind'],
    holds: ({ control }) => control.kind !== 'postgres' || control.postgres.url !== '',
    rule: 'control.postgres.url must be set when control.kind is "postgres"',
    because: 'there is no database to share',
  },
  {
    keys: ['control.kind', 'log.kind', 'archive.kind', 'warehouse.kind'],
    holds: ({ control, log, archive, warehouse }) =>
      control.kind !== 'postgres' ||
      (log.kind === 'kafka' && archive.kind === 's3' && warehouse.kind === 'clickhouse'),
    rule: 'control.kind may be "postgres" only where log.kind is "kafka", archive.kind "s3" and warehouse.kind "clickhouse"',
    because: 'roles on other machines would not see the clicks, objects and rows of this one',
  },
  {
    keys: ['archive.s3.conditional_put', 'control.kind'],
    holds: ({ control, archive }) => control.kind !== 'postgres' || archive.s3.conditionalPut,
    rule: 'archive.s3.conditional_put must be true when control.kind is "postgres"',
    because: 'of two archivers that commit at one offset nobody would decide which one counts',
  },
];
