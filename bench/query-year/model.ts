/**
 * The advertisers, ads and hours of the generated year: who gets how many clicks when. Everything is a
 * function of seed and scale; the engine makes the rows from it (`generate.ts`).
 */
import { adId, random } from '../traffic.ts';

/** Raised when the same seed and scale would give other rows: an older folder is then not reused. */
export const DATA_VERSION = 1;

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
export const YEAR_START_MS = Date.UTC(2025, 0, 1);
export const YEAR_END_MS = Date.UTC(2026, 0, 1);
/** The hours up to here are final; up to `NOW_MS` the numbers are live. */
export const FINAL_UNTIL_MS = YEAR_END_MS + 10 * HOUR_MS;
export const NOW_MS = YEAR_END_MS + 12 * HOUR_MS + 37 * 60_000;
/** From here on there are minute rows, final and live. */
export const MINUTES_FROM_MS = YEAR_END_MS - 7 * DAY_MS;

export const ADVERTISER = 'advertiser-1';
/** Has about a tenth of the rows in the same tables; no query asks for it. */
const OTHER_ADVERTISER = 'advertiser-2';
const ADS_PER_CAMPAIGN = 25;
const CLICKS_PER_HOUR = 9_700;

const COUNTRIES: readonly (readonly [string, number])[] = [
  ['US', 0.3],
  ['IN', 0.12],
  ['GB', 0.09],
  ['DE', 0.08],
  ['BR', 0.06],
  ['FR', 0.05],
  ['JP', 0.045],
  ['CA', 0.04],
  ['ES', 0.035],
  ['IT', 0.03],
  ['MX', 0.025],
  ['AU', 0.025],
  ['ID', 0.02],
  ['NL', 0.02],
  ['PL', 0.015],
  ['TR', 0.015],
  ['SE', 0.01],
  ['KR', 0.01],
  ['ZA', 0.005],
  ['ZZ', 0.005],
];
const DEVICES: readonly (readonly [string, number])[] = [
  ['mobile', 0.56],
  ['desktop', 0.34],
  ['tablet', 0.08],
  ['other', 0.02],
];
/** A campaign is aimed at this many countries; clicks from elsewhere go to none of its ads. */
const COUNTRIES_PER_CAMPAIGN = 5;

/** One ad in one country on one device, and the clicks it gets in an average hour. */
export interface Stream {
  readonly id: number;
  readonly advertiserId: string;
  readonly campaignId: string;
  readonly adId: string;
  readonly country: string;
  readonly device: string;
  readonly perHour: number;
}

export interface YearOptions {
  readonly seed: number;
  /** 1 is 1,000 ads and about 35M hour rows. */
  readonly scale: number;
}

export function adsOf({ scale }: YearOptions): string[] {
  return Array.from({ length: Math.max(20, Math.round(1_000 * scale)) }, (_, ad) => adId(ad));
}

export function streamsOf(options: YearOptions): Stream[] {
  const next = random(options.seed);
  const ads = adsOf(options);
  const weights = popularity(ads.length, next);
  const perHour = (CLICKS_PER_HOUR * ads.length) / 1_000;
  const streams: Stream[] = [];
  const add = (advertiserId: string, prefix: string, ad: number): void => {
    const campaign = Math.floor(ad / ADS_PER_CAMPAIGN);
    const aim = aimOf(options.seed, campaign);
    const total = aim.reduce((sum, [, share]) => sum + share, 0);
    for (const [country, share] of aim) {
      for (const [device, deviceShare] of DEVICES) {
        streams.push({
          id: streams.length,
          advertiserId,
          campaignId: `${prefix}campaign-${campaign}`,
          adId: `${prefix}${adId(ad)}`,
          country,
          device,
          perHour: perHour * weights[ad]! * (share / total) * deviceShare,
        });
      }
    }
  };
  for (let ad = 0; ad < ads.length; ad++) add(ADVERTISER, '', ad);
  for (let ad = 5; ad < ads.length; ad += 10) add(OTHER_ADVERTISER, 'other-', ad);
  return streams;
}

/** Zipf with exponent 1; which ad has which rank is shuffled, so that ids say nothing about it. */
function popularity(ads: number, next: () => number): number[] {
  const ranks = Array.from({ length: ads }, (_, index) => index);
  for (let i = ads - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [ranks[i], ranks[j]] = [ranks[j]!, ranks[i]!];
  }
  const weights = ranks.map((rank) => 1 / (rank + 1));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** The campaign's countries, drawn by their weight. */
function aimOf(seed: number, campaign: number): (readonly [string, number])[] {
  const next = random(seed * 1_000 + campaign);
  const left = [...COUNTRIES];
  const aim: (readonly [string, number])[] = [];
  while (aim.length < COUNTRIES_PER_CAMPAIGN) {
    let at = next() * left.reduce((sum, [, share]) => sum + share, 0);
    const index = left.findIndex(([, share]) => {
      at -= share;
      return at < 0;
    });
    aim.push(...left.splice(index === -1 ? 0 : index, 1));
  }
  return aim;
}

/** One hour of the year, its weight, and which attempt of it is in force. */
export interface YearHour {
  readonly n: number;
  readonly startMs: number;
  readonly shape: number;
  readonly revision: number;
  /** 2 after a restatement, and where the first attempt died half-way. */
  readonly attempt: number;
}

/** The final hours and, behind them, the live ones. */
export function hoursOf({ seed }: YearOptions): YearHour[] {
  const next = random(seed + 1);
  const hours: YearHour[] = [];
  for (let startMs = YEAR_START_MS; startMs < NOW_MS; startMs += HOUR_MS) {
    const hour = (startMs / HOUR_MS) % 24;
    const weekend = [0, 6].includes(new Date(startMs).getUTCDay());
    const daily = 1 + 0.6 * Math.sin(((hour - 8) / 24) * 2 * Math.PI);
    const yearly = 1 + 0.2 * Math.sin((startMs / (365 * DAY_MS)) * 2 * Math.PI);
    const chance = next();
    // 1 hour of 100 was restated; of 300 one was written twice because the process died.
    const [revision, attempt] = chance < 0.01 ? [2, 2] : chance < 0.0133 ? [1, 2] : [1, 1];
    const shape = daily * yearly * (weekend ? 0.85 : 1.06);
    hours.push({ n: hours.length, startMs, shape, revision, attempt });
  }
  return hours;
}
