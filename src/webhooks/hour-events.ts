/**
 * Which events the published state of an hour amounts to, for one webhook. Pure: the same state gives
 * the same keys, whoever looks at it and whenever.
 */
import type { DriftRow, HourState, Restatement } from '../warehouse/port.ts';
import type { Webhook, WebhookEvent } from './port.ts';

export interface HourFacts {
  readonly hour: HourState;
  /** Of all revisions; of the webhook's advertiser only, when it has one. */
  readonly drift: readonly DriftRow[];
  readonly restatements: readonly Restatement[];
  readonly finalUntilMs: number;
  readonly driftAlert: number;
}

const MAX_RESTATEMENTS = 100;
const MAX_ADVERTISERS = 10;

export const hourKey = (type: string, hourMs: number): string => `${type}/${iso(hourMs)}`;
export const restatedKey = (hourMs: number, revision: number): string =>
  `${hourKey('hour.restated', hourMs)}/${revision}`;

export function hourEvents(webhook: Webhook, facts: HourFacts): WebhookEvent[] {
  return [
    ...(tellsFinal(webhook, facts.hour) ? [finalEvent(webhook, facts)] : []),
    ...restatedEvents(webhook, facts),
    ...driftEvents(webhook, facts),
  ];
}

export function tellsFinal(webhook: Webhook, { hourMs }: HourState): boolean {
  return webhook.events.includes('hour.final') && hourMs >= webhook.finalUntilMs;
}

/** Whether the hour's newest revision is one that this webhook may have to be told of. */
export function mayTellRestated(webhook: Webhook, hour: HourState): boolean {
  const isFirst = hour.revision === 1 && hour.cause === 'first';
  return (
    webhook.events.includes('hour.restated') && !isFirst && hour.finalAtMs >= webhook.createdAtMs
  );
}

/** A later revision says nothing about the drift of the first; its rows do. */
export function mayTellDrift(webhook: Webhook, hour: HourState, driftAlert: number): boolean {
  return (
    webhook.events.includes('drift.exceeded') &&
    hour.hourMs >= webhook.finalUntilMs &&
    (hour.revision > 1 || hour.driftMax > driftAlert)
  );
}

function finalEvent(webhook: Webhook, facts: HourFacts): WebhookEvent {
  const { hour } = facts;
  return {
    key: hourKey('hour.final', hour.hourMs),
    type: 'hour.final',
    createdAtMs: hour.finalAtMs,
    data: {
      ...hourData(webhook, facts, hour.revision),
      cause: hour.cause,
      final_at: iso(hour.finalAtMs),
    },
  };
}

/**
 * One event for each revision that changed a number. Revisions between two looks are told from their
 * restatement rows; one without any changed no ad's number.
 */
function restatedEvents(webhook: Webhook, facts: HourFacts): WebhookEvent[] {
  const { hour } = facts;
  if (!mayTellRestated(webhook, hour)) return [];
  const byRevision = new Map<number, Restatement[]>();
  if (hour.revision > 1 && webhook.advertiserId === null) byRevision.set(hour.revision, []);
  for (const row of facts.restatements) {
    if (webhook.advertiserId !== null && row.advertiserId !== webhook.advertiserId) continue;
    const rows = byRevision.get(row.revision);
    if (rows === undefined) byRevision.set(row.revision, [row]);
    else rows.push(row);
  }
  return [...byRevision]
    .map(([revision, rows]) => {
      const { cause, atMs } =
        revision === hour.revision ? { cause: hour.cause, atMs: hour.finalAtMs } : rows[0]!;
      return { revision, rows, cause, atMs };
    })
    .filter(({ revision, atMs }) => revision <= hour.revision && atMs >= webhook.createdAtMs)
    .sort((a, b) => a.revision - b.revision)
    .map(({ revision, rows, cause, atMs }) => ({
      key: restatedKey(hour.hourMs, revision),
      type: 'hour.restated',
      createdAtMs: atMs,
      data: {
        ...hourData(webhook, facts, revision),
        cause,
        restatements: rows.slice(0, MAX_RESTATEMENTS).map(restatementData),
        restatement_count: rows.length,
      },
    }));
}

function driftEvents(webhook: Webhook, { hour, drift, driftAlert }: HourFacts): WebhookEvent[] {
  if (webhook.advertiserId !== null || !mayTellDrift(webhook, hour, driftAlert)) return [];
  const first = drift.reduce((least, { revision }) => Math.min(least, revision), hour.revision);
  const rows = drift
    .filter(({ revision }) => revision === first)
    .map((row) => ({ ...row, ratio: ratioOf(row) }))
    .sort((a, b) => b.ratio - a.ratio || (a.advertiserId < b.advertiserId ? -1 : 1));
  const driftMax = rows[0]?.ratio ?? 0;
  if (driftMax <= driftAlert) return [];
  return [
    {
      key: hourKey('drift.exceeded', hour.hourMs),
      type: 'drift.exceeded',
      createdAtMs: hour.finalAtMs,
      data: {
        hour_start: iso(hour.hourMs),
        drift_max: driftMax,
        threshold: driftAlert,
        advertiser_count: rows.filter(({ ratio }) => ratio > driftAlert).length,
        worst: rows
          .filter(({ ratio }) => ratio > driftAlert)
          .slice(0, MAX_ADVERTISERS)
          .map(({ advertiserId, live, final, ratio }) => ({
            advertiser_id: advertiserId,
            live,
            final,
            drift: ratio,
          })),
      },
    },
  ];
}

function hourData(webhook: Webhook, facts: HourFacts, revision: number): object {
  const { hour, drift, finalUntilMs } = facts;
  const { advertiserId } = webhook;
  const isAll = advertiserId === null && revision === hour.revision;
  return {
    hour_start: iso(hour.hourMs),
    revision,
    // The hour's own count is a sum over all advertisers.
    counted: isAll ? hour.counted : finalClicks(drift, revision, advertiserId),
    final_until: iso(Math.max(finalUntilMs, hour.hourMs + 3_600_000)),
    ...(advertiserId === null ? {} : { advertiser_id: advertiserId }),
  };
}

function finalClicks(
  drift: readonly DriftRow[],
  revision: number,
  advertiserId: string | null,
): number {
  return drift
    .filter((row) => row.revision === revision)
    .filter((row) => advertiserId === null || row.advertiserId === advertiserId)
    .reduce((sum, row) => sum + row.final, 0);
}

function ratioOf({ live, final }: DriftRow): number {
  if (live === final) return 0;
  return final === 0 ? 1 : Math.abs(live - final) / final;
}

function restatementData({ advertiserId, adId, before, after }: Restatement): object {
  return { advertiser_id: advertiserId, ad_id: adId, before, after };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
