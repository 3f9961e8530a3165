/** What the archive's tests share: events, a store whose effects can fail, and a slow reader of all. */
import { createHash } from 'node:crypto';
import { loadManifest, readObject } from '../../src/archive/manifest.ts';
import { objectName } from '../../src/archive/names.ts';
import { readColumns, readDeadLetters } from '../../src/archive/parquet.ts';
import type { ManifestEntry, ObjectSource, ObjectStore } from '../../src/archive/port.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';

export const T0 = Date.UTC(2026, 0, 31, 7, 0, 0);
export const HOUR_MS = 3_600_000;

export function click(impressionId: string, over: Partial<ClickEvent> = {}): ClickEvent {
  return {
    impressionId,
    adId: 'ad-1',
    advertiserId: 'adv-1',
    campaignId: 'camp-1',
    clickedAtMs: T0 + 1_000,
    country: 'DE',
    device: 'mobile',
    class: 'click',
    source: 'http',
    geoVersion: 20_260_101,
    ip: '192.0.2.0',
    userAgent: 'Mozilla/5.0',
    referer: '',
    ...over,
  };
}

export function clicks(count: number, from = 0, over: Partial<ClickEvent> = {}): ClickEvent[] {
  return Array.from({ length: count }, (_, i) => click(`imp-${from + i}`, over));
}

/** Stands for the death of the process: not a LedgerError, so nothing handles it. */
export class Crash extends Error {}

/**
 * Passes everything on and throws at the n-th effect (a put or a removal), before or after it took
 * place. Must be survived: both, at every effect, because that is what a dying process or a lost
 * answer looks like from the store.
 */
export class FaultyStore implements ObjectStore {
  readonly #inner: ObjectStore;
  effects = 0;
  failAt: { effect: number; when: 'before' | 'after'; error: Error } | null = null;

  constructor(inner: ObjectStore) {
    this.#inner = inner;
  }

  putIfAbsent(name: string, bytes: Uint8Array): Promise<void> {
    return this.#effect(() => this.#inner.putIfAbsent(name, bytes));
  }

  remove(name: string): Promise<void> {
    return this.#effect(() => this.#inner.remove(name));
  }

  get(name: string): Promise<Uint8Array | null> {
    return this.#inner.get(name);
  }

  list(...args: Parameters<ObjectStore['list']>): ReturnType<ObjectStore['list']> {
    return this.#inner.list(...args);
  }

  async #effect(work: () => Promise<void>): Promise<void> {
    const fault = this.failAt?.effect === this.effects++ ? this.failAt : null;
    if (fault?.when === 'before') throw fault.error;
    await work();
    if (fault?.when === 'after') throw fault.error;
  }
}

export async function namesOf(store: ObjectSource, prefix = '', after = ''): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(prefix, { after })) names.push(name);
  return names;
}

/** Counts what is asked of a store. */
export class CountingStore implements ObjectStore {
  readonly #inner: ObjectStore;
  /** Names that were read. */
  readonly gets: string[] = [];
  lists = 0;

  constructor(inner: ObjectStore) {
    this.#inner = inner;
  }

  putIfAbsent(name: string, bytes: Uint8Array): Promise<void> {
    return this.#inner.putIfAbsent(name, bytes);
  }

  remove(name: string): Promise<void> {
    return this.#inner.remove(name);
  }

  get(name: string): Promise<Uint8Array | null> {
    this.gets.push(name);
    return this.#inner.get(name);
  }

  list(...args: Parameters<ObjectStore['list']>): ReturnType<ObjectStore['list']> {
    this.lists++;
    return this.#inner.list(...args);
  }
}

/** An entry of one object that was never written: for tests of manifests alone. */
export function madeUpEntry(
  partition: number,
  firstOffset: number,
  lastOffset: number,
): ManifestEntry {
  const range = { partition, firstOffset, lastOffset };
  const hourMs = T0 + (firstOffset % 50) * HOUR_MS;
  const rows = lastOffset - firstOffset + 1;
  const sha256 = createHash('sha256').update(`${partition} ${firstOffset}`).digest('hex');
  const name = objectName(hourMs, range);
  const objects = [{ name, hourMs, rows, sizeBytes: 100 + rows, sha256 }];
  return { ...range, objects, lastAppendedAtMs: T0 + lastOffset };
}

/** Everything the manifest covers, as `partition:offset` → what the archive says about the record. */
export async function readArchive(store: ObjectStore): Promise<Map<string, string>> {
  const manifest = await loadManifest(store);
  const records = new Map<string, string>();
  const put = (partition: number, offset: number, what: string) => {
    const key = `${partition}:${offset}`;
    if (records.has(key)) throw new Error(`${key} is archived twice`);
    records.set(key, what);
  };
  for (const object of manifest.objects()) {
    const bytes = await readObject(store, object);
    if (object.hourMs === null) {
      for await (const batch of readDeadLetters(object.name, bytes)) {
        for (let i = 0; i < batch.rowCount; i++) {
          put(batch.partition[i]!, batch.offset[i]!, `dead ${batch.reason[i]}`);
        }
      }
      continue;
    }
    const columns = ['impression_id', 'partition', 'offset', 'clicked_at'] as const;
    for await (const batch of readColumns(object.name, bytes, columns)) {
      for (let i = 0; i < batch.rowCount; i++) {
        const inHour = Math.floor(batch.clicked_at[i]! / HOUR_MS) * HOUR_MS === object.hourMs;
        if (!inHour) throw new Error(`${object.name} holds a click of another hour`);
        put(batch.partition[i]!, batch.offset[i]!, batch.impression_id[i]!);
      }
    }
  }
  return records;
}
