/**
 * Live counts for screens: one hub that asks the warehouse on behalf of all who watch.
 *
 * Owns: who watches what, when it is asked again, what each is sent. Does not own the numbers (the
 * warehouse) nor who may watch what (the routes).
 *
 * V1 Who watches the same thing shares one query. A query runs only after something has changed, for
 *    each thing at most once a second, and never two at once: watchers cannot crowd out counting.
 * V2 A client is never sent more than it takes: of what it has not taken only the newest is kept.
 * V3 Every stream ends: with its client, its token, its hour, or the process.
 */
import { monotonicMs } from '../platform/clock.ts';
import { floorTo, MINUTE_MS } from '../warehouse/buckets.ts';
import type { Warehouse } from '../warehouse/port.ts';
import { LiveClient, type Watcher } from './live-client.ts';
import {
  type LiveCounts,
  type LiveFilter,
  type LiveState,
  liveData,
  readCounts,
} from './live-counts.ts';
import { type ErrorLog, Problem } from './problem.ts';

export interface LiveParts {
  readonly warehouse: Pick<Warehouse, 'metrics'>;
  readonly clock: () => number;
  readonly finalUntilMs: () => number;
  readonly asOfMs: () => number;
  /** Rises whenever rows have changed, live or final. */
  readonly changes: () => number;
  readonly isRebuilding: () => boolean;
  readonly log: ErrorLog;
  /** How long the process has run; for tests. */
  readonly elapsedMs?: () => number;
}

export const MAX_CONNECTIONS = 200;
export const MAX_CONNECTIONS_PER_TOKEN = 5;
const TICK_MS = 1_000;
const HEARTBEAT_MS = 15_000;
const RECHECK_MS = 30_000;
const MAX_AGE_MS = 3_600_000;

/** What everybody with the same filter shares. */
interface Group {
  readonly key: string;
  readonly filter: LiveFilter;
  readonly clients: Set<LiveClient>;
  /** The newest answer; null before the first. */
  told: { readonly state: LiveState; readonly counts: LiveCounts; readonly asOfMs: number } | null;
  /** Rises when the numbers, or which of them are final, have changed. */
  version: number;
  isQueued: boolean;
  hasFailed: boolean;
}

export class LiveHub {
  readonly #parts: LiveParts;
  readonly #elapsedMs: () => number;
  readonly #groups = new Map<string, Group>();
  readonly #ofToken = new Map<string, number>();
  #connections = 0;
  #timer: ReturnType<typeof setInterval> | null = null;
  #queries: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: LiveParts) {
    this.#parts = parts;
    this.#elapsedMs = parts.elapsedMs ?? monotonicMs;
  }

  get connections(): number {
    return this.#connections;
  }

  /** Throws a Problem when there are too many already. */
  watch(filter: LiveFilter, watcher: Watcher): LiveClient {
    this.#requireRoom(watcher.tokenId);
    const group = this.#groupOf(filter);
    const client: LiveClient = new LiveClient({
      watcher,
      openedMs: this.#elapsedMs(),
      onEnd: () => this.#leave(group, client),
    });
    group.clients.add(client);
    this.#connections++;
    this.#ofToken.set(watcher.tokenId, (this.#ofToken.get(watcher.tokenId) ?? 0) + 1);
    this.#timer ??= setInterval(() => this.tick(), TICK_MS);
    if (group.told === null) this.#ask(group);
    else this.#tell(group, client);
    return client;
  }

  #requireRoom(tokenId: string): void {
    if (this.#isClosed || this.#connections >= MAX_CONNECTIONS) {
      throw new Problem(503, 'live_streams_full', 'There is no room for another live stream.', {
        headers: { 'Retry-After': '60' },
      });
    }
    if ((this.#ofToken.get(tokenId) ?? 0) < MAX_CONNECTIONS_PER_TOKEN) return;
    throw new Problem(
      429,
      'live_streams_of_token',
      `This token has ${MAX_CONNECTIONS_PER_TOKEN} live streams, the most.`,
      { hint: 'Close one, or watch more ads in one.', headers: { 'Retry-After': '60' } },
    );
  }

  #groupOf({ advertiserId, adIds, minutes }: LiveFilter): Group {
    const filter = { advertiserId, adIds: adIds && [...adIds].sort(), minutes };
    const key = JSON.stringify([filter.advertiserId, filter.adIds, filter.minutes]);
    const known = this.#groups.get(key);
    if (known !== undefined) return known;
    const state = { told: null, version: 0, isQueued: false, hasFailed: false };
    const group: Group = { key, filter, clients: new Set(), ...state };
    this.#groups.set(key, group);
    return group;
  }

  #leave(group: Group, client: LiveClient): void {
    if (!group.clients.delete(client)) return;
    const { tokenId } = client.watcher;
    const left = (this.#ofToken.get(tokenId) ?? 1) - 1;
    if (left === 0) this.#ofToken.delete(tokenId);
    else this.#ofToken.set(tokenId, left);
    this.#connections--;
    if (group.clients.size === 0) this.#groups.delete(group.key);
    if (this.#connections > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Once a second: ends streams, keeps them alive, and asks again for what may have changed. */
  tick(): void {
    for (const group of [...this.#groups.values()]) {
      for (const client of [...group.clients]) this.#tend(group, client);
      if (group.clients.size > 0 && this.#isStale(group)) this.#ask(group);
    }
  }

  #tend(group: Group, client: LiveClient): void {
    const nowMs = this.#elapsedMs();
    if (nowMs - client.openedMs >= MAX_AGE_MS) {
      client.end();
      return;
    }
    if (nowMs - client.checkedMs >= RECHECK_MS) {
      client.checkedMs = nowMs;
      void this.#check(client);
    }
    if (nowMs - client.beatMs >= HEARTBEAT_MS) {
      client.beatMs = nowMs;
      client.beat();
      this.#tellAsOf(group, client);
    }
  }

  /** Whoever cannot be checked at the moment stays until the next time. */
  async #check(client: LiveClient): Promise<void> {
    try {
      if (!(await client.watcher.isAllowed())) client.end();
    } catch (error) {
      this.#parts.log(error, 'the token of a live stream cannot be checked');
    }
  }

  /**
   * Numbers that have not moved are told again with the time that they are good for: who watches can
   * tell "no clicks" from "nothing is being counted".
   */
  #tellAsOf(group: Group, client: LiveClient): void {
    const asOfMs = this.#parts.asOfMs();
    if (group.told === null || this.#isStale(group) || this.#parts.isRebuilding()) return;
    if (asOfMs > group.told.asOfMs) {
      group.told = { ...group.told, state: this.#state(), asOfMs };
    }
    if (group.told.asOfMs > client.toldAsOfMs) this.#tell(group, client);
  }

  #tell(group: Group, client: LiveClient): void {
    if (group.told === null) return;
    client.toldVersion = group.version;
    client.toldAsOfMs = group.told.asOfMs;
    client.offer('counts', liveData(group.filter, group.told));
  }

  #isStale({ told }: Group): boolean {
    if (told === null) return true;
    const { changes, finalUntilMs, minuteMs } = this.#state();
    if (changes !== told.state.changes || finalUntilMs !== told.state.finalUntilMs) return true;
    // With time alone, clicks can only leave the window.
    return told.counts.total > 0 && minuteMs !== told.state.minuteMs;
  }

  #state(): LiveState {
    const { changes, finalUntilMs, clock } = this.#parts;
    const minuteMs = floorTo(clock(), MINUTE_MS);
    return { changes: changes(), finalUntilMs: finalUntilMs(), minuteMs };
  }

  #ask(group: Group): void {
    if (group.isQueued || this.#isClosed || this.#parts.isRebuilding()) return;
    group.isQueued = true;
    this.#queries = this.#queries.then(async () => {
      try {
        if (group.clients.size > 0) await this.#read(group);
        group.hasFailed = false;
      } catch (error) {
        // Once, not every second. The streams stay, and their as_of stands still.
        if (!group.hasFailed) this.#parts.log(error, 'live counts cannot be read');
        group.hasFailed = true;
      } finally {
        group.isQueued = false;
      }
    });
  }

  async #read(group: Group): Promise<void> {
    // Before the rows are read: what changes meanwhile may be in them, never the other way.
    const state = this.#state();
    const asOfMs = this.#parts.asOfMs();
    const counts = await readCounts(this.#parts.warehouse, group.filter, state);
    const { told } = group;
    if (
      told === null ||
      told.state.finalUntilMs !== state.finalUntilMs ||
      JSON.stringify(told.counts) !== JSON.stringify(counts)
    ) {
      group.version++;
    }
    group.told = { state, counts, asOfMs };
    for (const client of group.clients) {
      if (client.toldVersion !== group.version) this.#tell(group, client);
    }
  }

  /** Ends all streams; no other can begin. Resolves when no query runs any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const group of [...this.#groups.values()]) {
      for (const client of [...group.clients]) client.end();
    }
    await this.#queries;
  }
}
