/**
 * Webhooks: their parts, their loop, their metrics. Any process may change them; one of all watches and
 * sends. A holder of that lease that was stopped and wakes up may send an event once more.
 */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Leases } from '../control/port.ts';
import type { Logger } from '../platform/logger.ts';
import type { WebhookStore } from '../webhooks/port.ts';
import { post } from '../webhooks/post.ts';
import { WebhookSender } from '../webhooks/sender.ts';
import { WebhookWatcher } from '../webhooks/watcher.ts';
import { Webhooks } from '../webhooks/webhooks.ts';
import { HeldLease } from './held-lease.ts';
import type { LedgerView } from './ledger-view.ts';
import { Loop } from './loop.ts';
import { perScrape, unlessAway } from './per-scrape.ts';

export interface LedgerWebhooks {
  readonly webhooks: Webhooks;
  start(): void;
  close(): Promise<void>;
}

const ROUND_MS = 1_000;

export function openLedgerWebhooks(options: {
  ledger: LedgerView;
  /** Closed by whoever opened it. */
  store: WebhookStore;
  leases: Leases;
  registry: Registry;
  logger: Logger;
}): LedgerWebhooks {
  const { ledger, store, registry, logger } = options;
  const { config, clock, warehouse, deadLetters } = ledger.parts;
  const registers = [registry];
  const deliveries = new Counter({
    name: 'clickledger_webhook_deliveries_total',
    help: 'Attempts to deliver an event, by outcome.',
    labelNames: ['outcome'],
    registers,
  });
  const finalUntilMs = (): number => ledger.reconciler.finalUntilMs;
  const sender = new WebhookSender({
    store,
    clock,
    post,
    random: Math.random,
    ...config.webhooks,
    onDelivery: ({ webhookId, eventId, outcome, error }) => {
      deliveries.inc({ outcome });
      if (outcome === 'given_up') logger.error({ webhookId, eventId, error }, 'event given up');
    },
    onError: (error, message) => logger.error({ err: error }, message),
  });
  const watcher = new WebhookWatcher({
    store,
    warehouse,
    clock,
    finalUntilMs,
    deadLetters: () => deadLetters.waiting(),
    driftAlert: config.reconcile.driftAlert,
  });
  const webhooks = new Webhooks({
    store,
    sender,
    watcher,
    clock,
    finalUntilMs,
    publications: () => ledger.publications,
    isRebuilding: () => ledger.isRebuilding,
  });
  addBacklogMetrics({ registry, webhooks, clock });
  const lease = new HeldLease(options.leases, {
    ...{ name: 'webhooks', note: 'watching and sending' },
    onLost: () => webhooks.pause(),
  });
  const loop = new Loop('webhooks', ROUND_MS, () => lease.run(() => webhooks.round()));
  return {
    webhooks,
    start: () => loop.start((error) => logger.error({ err: error }, 'webhooks failed')),
    async close() {
      await loop.stop();
      await webhooks.pause();
      await lease.release();
    },
  };
}

/** Both are read by one look; they stay as they were while the store is away. */
function addBacklogMetrics(options: {
  registry: Registry;
  webhooks: Webhooks;
  clock: () => number;
}): void {
  const { registry, webhooks, clock } = options;
  const registers = [registry];
  const backlog = perScrape(() => unlessAway(() => webhooks.totalBacklog()));
  new Gauge({
    name: 'clickledger_webhook_waiting_events',
    help: 'Events that wait to be delivered.',
    registers,
    async collect() {
      const found = await backlog();
      if (found !== null) this.set(found.waiting);
    },
  });
  new Gauge({
    name: 'clickledger_webhook_oldest_undelivered_seconds',
    help: 'Age of the oldest event that waits to be delivered; 0 when none does.',
    registers,
    async collect() {
      const found = await backlog();
      if (found === null) return;
      const { oldestAtMs } = found;
      this.set(oldestAtMs === null ? 0 : Math.max(0, clock() - oldestAtMs) / 1_000);
    },
  });
}
