/**
 * Copies webhooks from one store to another, with secrets, outboxes and logs; safe to repeat.
 *
 * The keys go along: without them every hour that was told would be told again. A sender that runs
 * meanwhile on the new store may do so for keys that are still on their way (W2: receivers can tell).
 */
import { DELIVERIES_KEPT, type Webhook, type WebhookSource, type WebhookTarget } from './port.ts';

/** Entries that wait have bodies, of some kilobytes. */
const PAGE = 500;

export interface CopiedWebhooks {
  readonly webhooks: number;
  /** Entries of outboxes that were added, or settled. */
  readonly events: number;
}

export async function copyWebhooks(
  from: WebhookSource,
  to: WebhookTarget,
): Promise<CopiedWebhooks> {
  let webhooks = 0;
  let events = 0;
  for (const webhook of await from.list()) {
    if (await copyWebhook(from, to, webhook)) webhooks++;
    events += await copyOutbox(from, to, webhook.id);
  }
  return { webhooks, events };
}

async function copyWebhook(
  from: WebhookSource,
  to: WebhookTarget,
  webhook: Webhook,
): Promise<boolean> {
  const { id } = webhook;
  const secret = await from.secretOf(id);
  // Removed since the list was read.
  if (secret === null) return false;
  const told = await from.deadLettersTold(id);
  const deliveries = await from.deliveries(id, { limit: DELIVERIES_KEPT, before: null });
  return to.restore({ webhook, secret, told, deliveries: deliveries.reverse() });
}

async function copyOutbox(
  from: WebhookSource,
  to: WebhookTarget,
  webhookId: string,
): Promise<number> {
  let copied = 0;
  let after: string | null = null;
  for (;;) {
    const page = await from.outbox(webhookId, { limit: PAGE, after });
    const last = page.at(-1);
    if (last === undefined) return copied;
    copied += await to.restoreOutbox(webhookId, page);
    after = last.key;
  }
}
