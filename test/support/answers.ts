/** What the API says of the sample advertisers: rows, all pages of them, at every granularity. */
import { DEMO_ADS } from '../../src/demo/ads.ts';
import { systemClock } from '../../src/platform/clock.ts';

export const HOUR_MS = 3_600_000;
export const ADVERTISERS = [...new Set(DEMO_ADS.map((ad) => ad.advertiserId))];

export function startOfHour(timeMs: number): number {
  return timeMs - (timeMs % HOUR_MS);
}

/** Moves the clock far enough that the hour which ends at `hourEndMs` is over and closed. */
export function offsetPast(hourEndMs: number): number {
  return hourEndMs + 5 * 60_000 + 1_000 - systemClock();
}

/** An API to ask, and by whom. */
export interface AnswerView {
  readonly apiUrl: string;
  /** Advertiser → token that reads its numbers. */
  readonly tokens: ReadonlyMap<string, string>;
  /** Start of the first hour that is asked for. */
  readonly fromMs: number;
}

export interface AnswerRow {
  readonly ad_id: string;
  readonly bucket_start: string;
  readonly country: string;
  readonly device: string;
  readonly clicks: number;
}

/** Rows of one advertiser, all pages; `toMs` is the end of the hour after the current one. */
export async function rowsOf(
  view: AnswerView,
  advertiserId: string,
  toMs: number,
  more: Readonly<Record<string, string>> = {},
): Promise<AnswerRow[]> {
  const rows: AnswerRow[] = [];
  for (let cursor: string | null = null; ; ) {
    const query: URLSearchParams = new URLSearchParams({
      from: new Date(view.fromMs).toISOString(),
      to: new Date(toMs).toISOString(),
      granularity: 'minute',
      group_by: 'ad,country,device',
      ...more,
      ...(cursor === null ? {} : { cursor }),
    });
    const response = await fetch(`${view.apiUrl}/v1/ads/metrics?${query}`, {
      headers: { Authorization: `Bearer ${view.tokens.get(advertiserId)}` },
    });
    if (!response.ok) throw new Error(`the API: ${response.status} ${await response.text()}`);
    const page = (await response.json()) as { rows: AnswerRow[]; next_cursor: string | null };
    rows.push(...page.rows);
    cursor = page.next_cursor ?? null;
    if (cursor === null) return rows;
  }
}

/** Every advertiser's rows per ad, minute, country and device; without whether they are final. */
export async function allMinuteRows(view: AnswerView, toMs: number): Promise<AnswerRow[]> {
  const rows: AnswerRow[] = [];
  for (const advertiserId of ADVERTISERS) rows.push(...(await rowsOf(view, advertiserId, toMs)));
  return rows.map(({ ad_id, bucket_start, country, device, clicks }) => {
    return { ad_id, bucket_start, country, device, clicks };
  });
}

/** Everything the API says of the range, at every granularity and grouping, and its history. */
export async function completeAnswers(view: AnswerView, toMs: number): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const advertiserId of ADVERTISERS) {
    for (const granularity of ['minute', 'hour', 'day', 'total']) {
      for (const group_by of ['ad,country,device', 'campaign', 'none']) {
        const rows = await rowsOf(view, advertiserId, toMs, { granularity, group_by });
        answers.push({ advertiserId, granularity, group_by, rows });
      }
    }
    for (const path of ['hours', 'restatements']) {
      const from = new Date(view.fromMs).toISOString();
      const query = new URLSearchParams({ from, to: new Date(toMs).toISOString() });
      const response = await fetch(`${view.apiUrl}/v1/${path}?${query}`, {
        headers: { Authorization: `Bearer ${view.tokens.get(advertiserId)}` },
      });
      answers.push({ path, body: await response.json() });
    }
  }
  return answers;
}

export function clicksPerAd(rows: readonly AnswerRow[]): Map<string, number> {
  const clicks = new Map<string, number>();
  for (const row of rows) clicks.set(row.ad_id, (clicks.get(row.ad_id) ?? 0) + row.clicks);
  return clicks;
}
