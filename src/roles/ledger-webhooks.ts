/** The webhooks of the ledger process: their parts, their loop, their metrics. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Logger } from '../platform/logger.ts';
import { post } from '../webhooks/post.ts';
import { WebhookSender } from '../webhooks/sender.ts';
import { openWebhookStore } from '../webhooks/sqlite/store.ts';
import { WebhookWatcher } from '../webhooks/watcher.ts';
import { Webhooks } from '../webhooks/webhooks.ts';
import type { Ledger } from './ledger-parts.ts';
import { Loop } from './loop.ts';

export interface LedgerWebhooks {
  readonly webhooks: Webhooks;
  start(): void;
  close(): Promise<void>;
}

const ROUND_MS = 1_000;

export function openLedgerWebhooks(options: {
  ledger: Ledger;
  registry: Registry;
  logger: Logger;
}): LedgerWebhooks {
  const { ledger, registry, logger } = options;
  const { config, paths, clock, warehouse, deadLetters } = ledger.parts;
  const registers = [registry];
  const deliveries = new Counter({
    name: 'clickledger_webhook_deliveries_total',
    help: 'Attempts to deliver an event, by outcome.',
    labelNames: ['outcome'],
    registers,
  });
  const store = openWebhookStore(paths.control);
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
  const loop = new Loop('webhooks', ROUND_MS, () => webhooks.round());
  return {
    webhooks,
    start: () => loop.start((error) => logger.error({ err: error }, 'webhooks failed')),
    async close() {
      await loop.stop();
      await webhooks.close();
    },
  };
}

function addBacklogMetrics(options: {
  registry: Registry;
  webhooks: Webhooks;
  clock: () => number;
}): void {
  const { registry, webhooks, clock } = options;
  const registers = [registry];
  new Gauge({
    name: 'clickledger_webhook_waiting_events',
    help: 'Events that wait to be delivered.',
    registers,
    collect() {
      this.set(webhooks.totalBacklog().waiting);
    },
  });
  new Gauge({
    name: 'clickledger_webhook_oldest_undelivered_seconds',
    help: 'Age of the oldest event that waits to be delivered; 0 when none does.',
    registers,
    collect() {
      const { oldestAtMs } = webhooks.totalBacklog();
      this.set(oldestAtMs === null ? 0 : Math.max(0, clock() - oldestAtMs) / 1_000);
    },
  });
}
