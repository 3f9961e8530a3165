/**
 * Finds what webhooks have to be told, and puts it into their outboxes.
 *
 * It does not listen for things to happen: it compares what is published with what the outboxes hold,
 * so nothing that was published can be missed because nobody listened at that moment.
 *
 * The effects for one published hour, in order, and what holds if the process dies right after each:
 *   1. hour published (the reconciler's)  – the next look finds it: no outbox has its keys
 *   2. enqueued for one webhook           – the next look finds it for the others; this one has the keys
 *   3. enqueued for all                   – it waits in every outbox until it is sent
 * A webhook's events of one hour are enqueued in one step, so that its newest key stands for all.
 */
import type { Clock } from '../platform/clock.ts';
import type { DriftRow, HourState, Restatement, Warehouse } from '../warehouse/port.ts';
import {
  hourEvents,
  hourKey,
  mayTellDrift,
  mayTellRestated,
  restatedKey,
  tellsFinal,
} from './hour-events.ts';
import type { Webhook, WebhookEvent, WebhookStore } from './port.ts';

export interface WatcherOptions {
  readonly store: WebhookStore;
  readonly warehouse: Pick<Warehouse, 'hours' | 'drift' | 'restatements'>;
  /** Dead letters that wait, by reason. */
  readonly deadLetters: () => Promise<ReadonlyMap<string, number>>;
  readonly finalUntilMs: () => number;
  readonly driftAlert: number;
  readonly clock: Clock;
}

const HOUR_MS = 3_600_000;
/** Hours that are looked at together: what is asked of the store and held is bounded by them. */
const HOURS_AT_ONCE = 500;
/** Told at most this often that dead letters wait. */
const DEAD_LETTERS_EVERY_MS = HOUR_MS;

type Evidence = { readonly drift: DriftRow[]; readonly restatements: Restatement[] };

export class WebhookWatcher {
  readonly #options: WatcherOptions;
  /** Revision of each hour that all webhooks were told of; lost with the process, which is no harm. */
  readonly #told = new Map<number, number>();
  #toldTo = '';

  constructor(options: WatcherOptions) {
    this.#options = options;
  }

  /** Looks for hours that are published and not told; returns how many events were new. */
  async hours(webhooks: readonly Webhook[]): Promise<number> {
    const { warehouse } = this.#options;
    if (webhooks.length === 0) return 0;
    const toldTo = webhooks.map(({ id }) => id).join();
    // A webhook that was registered while the last look was on its way may be owed some of its hours.
    if (toldTo !== this.#toldTo) this.#told.clear();
    this.#toldTo = toldTo;
    const published = await warehouse.hours(0, Number.MAX_SAFE_INTEGER);
    const changed = published.filter((hour) => this.#told.get(hour.hourMs) !== hour.revision);
    let added = 0;
    for (let from = 0; from < changed.length; from += HOURS_AT_ONCE) {
      added += await this.#tell(webhooks, changed.slice(from, from + HOURS_AT_ONCE));
    }
    return added;
  }

  async #tell(webhooks: readonly Webhook[], hours: readonly HourState[]): Promise<number> {
    const { store, clock } = this.#options;
    const known = new Map<string, ReadonlySet<string>>();
    for (const webhook of webhooks) {
      const keys = hours.flatMap((hour) => this.#newestKeys(webhook, hour));
      known.set(webhook.id, keys.length === 0 ? new Set() : await store.known(webhook.id, keys));
    }
    let added = 0;
    for (const hour of hours) {
      const evidence = new Map<string | null, Promise<Evidence>>();
      for (const webhook of webhooks) {
        const has = known.get(webhook.id)!;
        if (this.#newestKeys(webhook, hour).every((key) => has.has(key))) continue;
        const events = await this.#eventsOf(webhook, hour, evidence);
        added += await store.enqueue(webhook.id, events, clock()); // 2
      }
      this.#told.set(hour.hourMs, hour.revision);
    }
    return added;
  }

  /** Keys of what the hour's newest revision may have to tell. */
  #newestKeys(webhook: Webhook, hour: HourState): string[] {
    const { hourMs, revision } = hour;
    const { driftAlert } = this.#options;
    return [
      ...(tellsFinal(webhook, hour) ? [hourKey('hour.final', hourMs)] : []),
      ...(mayTellRestated(webhook, hour) ? [restatedKey(hourMs, revision)] : []),
      ...(mayTellDrift(webhook, hour, driftAlert) ? [hourKey('drift.exceeded', hourMs)] : []),
    ];
  }

  async #eventsOf(
    webhook: Webhook,
    hour: HourState,
    known: Map<string | null, Promise<Evidence>>,
  ): Promise<WebhookEvent[]> {
    const { advertiserId } = webhook;
    let evidence = known.get(advertiserId);
    if (evidence === undefined) {
      evidence = this.#evidenceOf(hour, advertiserId);
      known.set(advertiserId, evidence);
    }
    const { finalUntilMs, driftAlert } = this.#options;
    const facts = { hour, ...(await evidence), finalUntilMs: finalUntilMs(), driftAlert };
    return hourEvents(webhook, facts);
  }

  /** Rows are read only where an event can depend on them. */
  async #evidenceOf(hour: HourState, advertiserId: string | null): Promise<Evidence> {
    const { warehouse, driftAlert } = this.#options;
    const { hourMs, revision, cause, driftMax } = hour;
    const end = hourMs + HOUR_MS;
    const needsDrift = advertiserId !== null || revision > 1 || driftMax > driftAlert;
    const isRestated = revision > 1 || cause !== 'first';
    const of = advertiserId ?? undefined;
    return {
      drift: needsDrift ? await warehouse.drift(hourMs, end, of) : [],
      restatements: isRestated ? await warehouse.restatements(hourMs, end, of) : [],
    };
  }

  /**
   * Tells that dead letters wait: when there are some and were none, and again when they have become
   * more, at most once an hour.
   */
  async deadLetters(webhooks: readonly Webhook[]): Promise<void> {
    const { store, clock } = this.#options;
    const subscribed = webhooks.filter(({ events }) => events.includes('dlq.not_empty'));
    if (subscribed.length === 0) return;
    const byReason = await this.#options.deadLetters();
    const waiting = [...byReason.values()].reduce((sum, count) => sum + count, 0);
    for (const { id } of subscribed) {
      const nowMs = clock();
      const told = await store.deadLettersTold(id);
      if (waiting < told.count) {
        await store.tellDeadLetters(id, { count: waiting, atMs: told.atMs }, null);
      } else if (waiting > told.count && nowMs - told.atMs >= DEAD_LETTERS_EVERY_MS) {
        const event = deadLetterEvent(byReason, waiting, nowMs);
        await store.tellDeadLetters(id, { count: waiting, atMs: nowMs }, event);
      }
    }
  }
}

function deadLetterEvent(
  byReason: ReadonlyMap<string, number>,
  waiting: number,
  nowMs: number,
): WebhookEvent {
  return {
    key: `dlq.not_empty/${new Date(nowMs).toISOString()}`,
    type: 'dlq.not_empty',
    createdAtMs: nowMs,
    data: { waiting, by_reason: Object.fromEntries([...byReason].sort()) },
  };
}
