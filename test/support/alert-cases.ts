/**
 * An hour of series at 30 s as Prometheus's rule tester writes them: of a healthy product, and for
 * each alert what is different when it should fire. An empty text stands for a series that is not there.
 */
export type Series = readonly [name: string, values: string];

const STEPS = 120;
const constant = (value: number): string => `${value}x${STEPS}`;
const rising = (perStep: number): string => `0+${perStep}x${STEPS}`;

const AT = 'instance="a:8080"';
const LEDGER = '{instance="a:8081"}';
const requests = (outcome: string): string =>
  `clickledger_click_requests_total{${AT},outcome="${outcome}",worker="0"}`;
const addresses = (kind: string): string =>
  `clickledger_click_addresses_total{${AT},kind="${kind}",worker="0"}`;
const redirects = (le: string): string =>
  `clickledger_click_redirect_seconds_bucket{${AT},le="${le}",worker="0"}`;
const lag = (le: string): string =>
  `clickledger_event_loop_lag_seconds_bucket{${AT},le="${le}",role="click",worker="0"}`;
const api = (route: string, status: number): string =>
  `clickledger_api_request_seconds_count{route="${route}",status="${status}"}`;
const apiBucket = (le: string): string =>
  `clickledger_api_request_seconds_bucket{route="/v1/ads/metrics",status="200",le="${le}"}`;
const workers = `clickledger_click_workers{${AT},worker="0"}`;
const healthyWorker = `clickledger_log_healthy_workers{${AT},worker="0"}`;
const of = (name: string): string => `clickledger_${name}${LEDGER}`;
const free = of('data_disk_free_bytes');
const letters = 'clickledger_dead_letters{reason="undecodable"}';
const givenUp = 'clickledger_webhook_deliveries_total{outcome="given_up"}';
const kafka = (name: string, more = ''): string => `clickledger_${name}{${AT},worker="0"${more}}`;
const failedRecords = kafka('kafka_records_total', ',outcome="failed"');
/** Roles of their own, beside a ledger: no installation has both, and no rule minds. */
const role = (job: string): string => `{instance="${job}-1:8082",job="clickledger-${job}"}`;
const of1 = (job: string, name: string): string => `clickledger_${name}${role(job)}`;
const stoppedPartitions = (code: string): string =>
  `clickledger_counter_stopped_partitions{instance="counter-1:8082",code="${code}"}`;

export const HEALTHY: readonly Series[] = [
  [workers, constant(1)],
  [healthyWorker, constant(1)],
  [`clickledger_log_lost_records{${AT},worker="0"}`, constant(0)],
  [requests('redirected_click'), rising(1_000)],
  [requests('bad_signature'), rising(3)],
  // Somebody scans the port: none of our links.
  [requests('not_found'), rising(5_000)],
  [requests('log_failed'), constant(12)],
  [requests('given_away'), constant(5)],
  [addresses('public'), rising(1_000)],
  [addresses('private'), rising(2)],
  [redirects('0.01'), rising(990)],
  [redirects('0.1'), rising(999)],
  [redirects('+Inf'), rising(1_000)],
  [lag('0.01'), rising(30)],
  [lag('+Inf'), rising(30)],
  [of('counter_stopped'), constant(0)],
  [of('oldest_uncounted_seconds'), '0 1 0.4 1 0.2x116'],
  [of('held_rows'), constant(4_000)],
  [letters, constant(0)],
  [of('claims_forgotten'), constant(7)],
  [of('finality_stuck'), constant(0)],
  [of('final_until_age_seconds'), '7500+30x120'],
  [of('archive_lag_seconds'), constant(290)],
  [of('archive_stopped_partitions'), constant(0)],
  [of('drift_alerts_total'), constant(3)],
  [of('ledger_log_healthy'), constant(1)],
  [of('data_disk_bytes'), constant(1e12)],
  [free, constant(5e11)],
  [api('/v1/ads/metrics', 200), rising(100)],
  // Not ready for a while after the start: no error of an answer.
  [api('/readyz', 503), rising(100)],
  [apiBucket('0.1'), rising(99)],
  [apiBucket('5'), rising(100)],
  [apiBucket('+Inf'), rising(100)],
  ['clickledger_webhook_oldest_undelivered_seconds', constant(1)],
  [givenUp, constant(1)],
  [of('catalog_sync_age_seconds'), constant(2)],
  [of('catalog_refused_rows'), constant(0)],
  [of('catalog_held_removals'), constant(0)],
  [failedRecords, constant(3)],
  // A broker was restarted: its breaker opened, and the spool was shipped soon after.
  [kafka('kafka_breaker_open_workers'), '0x20 1x4 0x96'],
  [kafka('spool_oldest_seconds'), '0x20 30 60 90 120 0x96'],
  [kafka('spool_backlog_records'), '0x20 20000 40000 60000 30000 0x96'],
  [of1('counter', 'counter_partitions'), constant(16)],
  [of1('counter', 'counter_rebalances_total'), '1x60 3x60'],
  [of1('archiver', 'archiver_rebalances_total'), '1x60 3x60'],
  [stoppedPartitions('offset_out_of_retention'), constant(0)],
  // A role that was started again is not ready for a while.
  [of1('counter', 'role_ready'), '1x60 0x10 1x50'],
  [`up${role('counter')}`, constant(1)],
  [of1('counter', 'control_up'), '1x60 0x6 1x54'],
  // The lease is held for seconds, and nobody has it in between.
  [of1('reconciler', 'reconciler_lease_held'), constant(0)],
];

export interface AlertCase {
  readonly series: readonly Series[];
  /** Others that rightly fire along. */
  readonly also?: readonly string[];
}

export const CASES: Readonly<Record<string, AlertCase>> = {
  ClicksDown: { series: [[workers, '']] },
  ClickWorkersMissing: {
    series: [
      [`clickledger_click_workers{${AT},worker="1"}`, constant(2)],
      [workers, constant(2)],
    ],
  },
  ClicksRefused: { series: [[requests('log_failed'), rising(1)]] },
  ClicksGivenAway: { series: [[requests('given_away'), rising(1)]] },
  LostAcknowledgedRecords: {
    series: [[`clickledger_log_lost_records{${AT},worker="0"}`, constant(17)]],
  },
  LinksRefused: { series: [[requests('bad_signature'), rising(100)]] },
  ClientAddressesPrivate: { series: [[addresses('private'), rising(900)]] },
  RedirectsSlow: {
    series: [
      [redirects('0.01'), rising(800)],
      [redirects('0.1'), rising(900)],
      [redirects('0.25'), rising(1_000)],
    ],
  },
  LedgerDown: {
    series: [
      [of('counter_stopped'), ''],
      [of1('counter', 'counter_partitions'), ''],
    ],
  },
  CounterStopped: { series: [[of('counter_stopped'), constant(1)]] },
  CountingBehind: { series: [[of('oldest_uncounted_seconds'), rising(30)]] },
  RowsHeld: { series: [[of('held_rows'), constant(600_000)]] },
  DeadLetters: { series: [[letters, constant(1)]] },
  ClaimsForgotten: { series: [[of('claims_forgotten'), rising(10)]] },
  FinalityStuck: { series: [[of('finality_stuck'), constant(1)]] },
  FinalityLate: {
    series: [
      [of('final_until_age_seconds'), '20000+30x120'],
      [of1('reconciler', 'reconciler_lease_held'), constant(1)],
    ],
  },
  ArchiveBehind: { series: [[of('archive_lag_seconds'), rising(30)]] },
  ArchiveStopped: { series: [[of('archive_stopped_partitions'), constant(1)]] },
  DriftHigh: { series: [[of('drift_alerts_total'), '3x100 4x20']] },
  DiskFilling: { series: [[free, constant(1.5e11)]] },
  DiskFull: { series: [[free, constant(4e10)]], also: ['DiskFilling'] },
  LedgerLogUnwritable: { series: [[of('ledger_log_healthy'), constant(0)]] },
  ApiErrors: { series: [[api('/v1/ads/metrics', 500), rising(3)]] },
  ApiSlow: {
    series: [
      [apiBucket('0.1'), rising(80)],
      [apiBucket('5'), rising(90)],
      [apiBucket('30'), rising(100)],
    ],
  },
  ClickWorkersBusy: {
    series: [
      [lag('0.01'), rising(20)],
      [lag('0.1'), rising(28)],
      [lag('0.25'), rising(30)],
    ],
  },
  WebhooksBehind: {
    series: [['clickledger_webhook_oldest_undelivered_seconds', rising(30)]],
  },
  WebhookEventsGivenUp: { series: [[givenUp, '1x100 2x20']] },
  CatalogStale: { series: [[of('catalog_sync_age_seconds'), rising(30)]] },
  CatalogRowsRefused: { series: [[of('catalog_refused_rows'), constant(3)]] },
  CatalogRemovalsHeld: { series: [[of('catalog_held_removals'), constant(5_000)]] },
  KafkaRecordsFailed: { series: [[failedRecords, rising(1)]] },
  KafkaBreakerOpen: { series: [[kafka('kafka_breaker_open_workers'), constant(1)]] },
  SpoolOld: { series: [[kafka('spool_oldest_seconds'), rising(30)]] },
  SpoolGrowing: { series: [[kafka('spool_backlog_records'), rising(1_000)]] },
  RoleNotReady: { series: [[of1('counter', 'role_ready'), constant(0)]] },
  PartitionsStopped: { series: [[stoppedPartitions('offset_out_of_retention'), constant(2)]] },
  PartitionsMoveOften: { series: [[of1('archiver', 'archiver_rebalances_total'), rising(1)]] },
  ControlDatabaseAway: { series: [[of1('counter', 'control_up'), constant(0)]] },
  NoReconciler: { series: [[of('final_until_age_seconds'), '13000+30x120']] },
};
