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
];
