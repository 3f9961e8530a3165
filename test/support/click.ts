import type { Ad, AdLookup, SigningKey } from '../../src/ads/port.ts';
import type { GeoLookup } from '../../src/click/geo.ts';
import { ClickCounters } from '../../src/click/metrics.ts';
import { type ClickServiceOptions, createClickService } from '../../src/click/service.ts';
import { configSchema } from '../../src/config/schema.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { decodeEvent } from '../../src/event/codec.ts';
import type { AppendDone, ClickLogWriter } from '../../src/log/port.ts';
import { sign } from '../../src/signing/signature.ts';

export const KEY: SigningKey = { kid: 'k1', secret: 'secret-1', createdAtMs: 0, retiredAtMs: null };

export const ad = (adId: string, targetUrl: string, passQuery = false): Ad => ({
  adId,
  advertiserId: 'adv-1',
  campaignId: 'camp-1',
  targetUrl,
  passQuery,
});

/** A catalog in a map, in the hand of the test. */
export class MapAds implements AdLookup {
  readonly ads = new Map<string, Ad>();
  keys: readonly SigningKey[] = [KEY];

  constructor(...ads: Ad[]) {
    for (const one of ads) this.ads.set(one.adId, one);
  }

  find(adId: string): Ad | null {
    return this.ads.get(adId) ?? null;
  }

  activeKeys(): readonly SigningKey[] {
    return this.keys;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** A log that holds each click until the test says how it ends; `answerAtOnce` ends it by itself. */
export class HeldLog implements ClickLogWriter {
  readonly events: ClickEvent[] = [];
  readonly held: AppendDone[] = [];
  healthy = true;
  answerAtOnce = false;
  /** Thrown by the next appends. */
  refusal: Error | null = null;

  append(bytes: Buffer, length: number, done: AppendDone): void {
    if (this.refusal !== null) throw this.refusal;
    this.events.push(decodeEvent(Buffer.from(bytes.subarray(0, length)), 0, length)!);
    if (this.answerAtOnce) queueMicrotask(() => done(null));
    else this.held.push(done);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

export const US_GEO: GeoLookup = { version: 20260617, country: () => 'US' };
export const NOW_MS = Date.UTC(2026, 5, 1, 12, 0, 0, 123);
export const PEER = { requestIP: () => ({ address: '203.0.113.9' }) };

export function clickPath(imp: string, adId: string, rest = '', secret = KEY.secret): string {
  return `/v1/c?imp=${imp}&ad=${adId}&sig=${sign(secret, imp, adId)}${rest}`;
}

type Setup = Partial<Omit<ClickServiceOptions, 'config' | 'ads' | 'log'>> & {
  config?: Partial<ClickServiceOptions['config']>;
  ads?: MapAds;
  log?: HeldLog;
};

/** A click service on doubles: everything around it is in the hand of the test. */
export function setUpClicks(setup: Setup = {}) {
  const { config, ...given } = setup;
  const log = setup.log ?? new HeldLog();
  if (setup.log === undefined) log.answerAtOnce = true;
  const ads = setup.ads ?? new MapAds(ad('a1', 'https://shop.example/p?a=1&utm_source=x'));
  const metrics = new ClickCounters();
  const errors: unknown[] = [];
  const service = createClickService({
    geo: US_GEO,
    clock: () => NOW_MS,
    metrics,
    onInternalError: (error) => errors.push(error),
    ...given,
    config: { ...configSchema.parse({}).click, ...config },
    ads,
    log,
  });
  const send = (path: string, init: RequestInit = {}): Promise<Response> =>
    Promise.resolve(service.fetch(new Request(`http://t.example${path}`, init), PEER));
  return { service, log, ads, metrics, errors, send };
}
