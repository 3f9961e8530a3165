/** A dispute as a row, and what is given to a new one: the same in every adapter. */
import { randomBytes } from 'node:crypto';
import { LedgerError } from '../platform/errors.ts';
import type { Actor, Dispute, DisputeEnd, DisputeState } from './port.ts';

/** Most that one advertiser can have open, and can open in a day. */
export const MAX_DISPUTES = 1_000;
export const DAY_MS = 86_400_000;
const ID_BYTES = 16;

export interface DisputeRow {
  readonly id: string;
  readonly advertiser_id: string;
  readonly ad_id: string;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly timezone: string;
  readonly reason: string;
  readonly opened_by: string;
  readonly opened_scope: Actor['scope'];
  readonly opened_at_ms: number;
  readonly state: DisputeState;
  readonly resolution: DisputeEnd['resolution'];
  readonly note: string | null;
  readonly verdicts: number | null;
  readonly closed_by: string | null;
  readonly closed_scope: Actor['scope'] | null;
  readonly closed_at_ms: number | null;
}

export function newDisputeId(): string {
  return `dp_${randomBytes(ID_BYTES).toString('base64url')}`;
}

export function tooMany(most: number): LedgerError {
  return new LedgerError(
    'disputes_too_many',
    `An advertiser has at most ${most} disputes that are open or of the last 24 hours.`,
    { hint: 'Dispute a longer range at once, or withdraw those that are settled.' },
  );
}

export function unknownDispute(): LedgerError {
  return new LedgerError('dispute_unknown', 'There is no such dispute.');
}

export function toDispute(row: DisputeRow): Dispute {
  const { id, timezone, reason, state, resolution } = row;
  const closed =
    state === 'open'
      ? null
      : {
          state,
          resolution,
          note: row.note ?? '',
          verdicts: row.verdicts ?? 0,
          by: { tokenId: row.closed_by ?? '', scope: row.closed_scope ?? 'admin' },
          atMs: row.closed_at_ms!,
        };
  return {
    id,
    advertiserId: row.advertiser_id,
    adId: row.ad_id,
    fromMs: row.from_ms,
    toMs: row.to_ms,
    timezone,
    reason,
    opened: { by: { tokenId: row.opened_by, scope: row.opened_scope }, atMs: row.opened_at_ms },
    closed,
  };
}

export function toRow({ id, opened, closed, ...subject }: Dispute): DisputeRow {
  return {
    id,
    advertiser_id: subject.advertiserId,
    ad_id: subject.adId,
    from_ms: subject.fromMs,
    to_ms: subject.toMs,
    timezone: subject.timezone,
    reason: subject.reason,
    opened_by: opened.by.tokenId,
    opened_scope: opened.by.scope,
    opened_at_ms: opened.atMs,
    state: closed?.state ?? 'open',
    resolution: closed?.resolution ?? null,
    note: closed?.note ?? null,
    verdicts: closed?.verdicts ?? null,
    closed_by: closed?.by.tokenId ?? null,
    closed_scope: closed?.by.scope ?? null,
    closed_at_ms: closed?.atMs ?? null,
  };
}
