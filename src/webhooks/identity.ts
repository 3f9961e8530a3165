/** What a webhook and its events are given: ids, the secret, the text that is sent. Same in every store. */
import { createHash, randomBytes } from 'node:crypto';
import { LedgerError } from '../platform/errors.ts';
import { MAX_WEBHOOKS, type NewWebhook, type Webhook, type WebhookEvent } from './port.ts';

export function newWebhook(input: NewWebhook): { webhook: Webhook; secret: string } {
  return {
    webhook: { ...input, id: `wh_${randomBytes(8).toString('hex')}` },
    secret: `whsec_${randomBytes(32).toString('base64url')}`,
  };
}

export function webhooksFull(): LedgerError {
  return new LedgerError('webhooks_full', `there are ${MAX_WEBHOOKS} webhooks, the most`, {
    hint: 'Remove one that is not needed.',
  });
}

/** W2 */
export function eventIdOf(webhookId: string, key: string): string {
  const hash = createHash('sha256').update(`${webhookId}\n${key}`).digest('hex');
  return `evt_${hash.slice(0, 32)}`;
}

export function bodyOf(id: string, { type, createdAtMs, data }: WebhookEvent): string {
  return JSON.stringify({ id, type, created_at: new Date(createdAtMs).toISOString(), data });
}
