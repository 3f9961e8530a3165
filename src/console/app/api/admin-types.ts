/** Answers that only an operator gets. */
export type { DeadLetterView, LedgerStatus, VerifyOutcome } from '../../../api/admin-port.ts';

export interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly scope: 'read' | 'admin';
  readonly advertiser_id: string | null;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly last_used_at: string | null;
}

export interface KeyRow {
  readonly kid: string;
  readonly created_at: string;
  readonly retired_at: string | null;
}

export interface AdRow {
  readonly ad_id: string;
  readonly advertiser_id: string;
  readonly campaign_id: string;
  readonly target_url: string;
}

export interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly advertiser_id: string | null;
  readonly created_at: string;
  readonly waiting: number;
  readonly oldest_waiting_at: string | null;
}

export interface WebhookDelivery {
  readonly event_id: string;
  readonly type: string;
  readonly attempt: number;
  readonly at: string;
  readonly latency_ms: number;
  readonly status: number | null;
  readonly outcome: 'delivered' | 'failed' | 'given_up';
  readonly error: string | null;
}

export const WEBHOOK_EVENTS = [
  'hour.final',
  'hour.restated',
  'drift.exceeded',
  'dlq.not_empty',
] as const;

export interface AuditEntry {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly target: string | null;
  readonly detail: string | null;
  readonly outcome: string;
  readonly code: string | null;
}
