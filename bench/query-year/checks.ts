/** Whether the answers are right: against the raw clicks, and against each other. */
import type { Answer, AnswerRow, ApiClient } from './client.ts';
import { CHECKED_RANGE, KINDS, type Params, type Question, type World } from './questions.ts';
import type { RawAnswer, RawRow } from './raw.ts';

const sumOf = (rows: readonly AnswerRow[]): number =>
  rows.reduce((sum, row) => sum + row.clicks, 0);

export function expectEqual(what: string, got: number, wanted: number): void {
  if (got !== wanted) throw new Error(`${what}: ${got} clicks, but the total is ${wanted}`);
}

/** One range, cut in every way the kinds cut it: the sum is always the total. */
export async function checkTotals(client: ApiClient, { ads }: World): Promise<number> {
  const total = async (params: Partial<Params>): Promise<number> => {
    let sum = 0;
    let asked: Params = { ...CHECKED_RANGE, ...params };
    for (;;) {
      const { answer } = await client.metrics(asked);
      sum += sumOf(answer.rows);
      if (typeof answer.next_cursor !== 'string') return sum;
      asked = { ...asked, cursor: answer.next_cursor };
    }
  };
  const none = ['none'] as const;
  const wanted = await total({ granularity: 'total', group_by: none });
  const cuts: [string, Partial<Params>][] = [
    ['by day', { granularity: 'day', group_by: none }],
    ['by day in Asia/Kolkata', { granularity: 'day', group_by: none, timezone: 'Asia/Kolkata' }],
    ['by hour', { granularity: 'hour', group_by: none }],
    ['by country', { granularity: 'total', group_by: ['country'] }],
    ['by ad', { granularity: 'total', group_by: ['ad'] }],
    ['by ad and day', { granularity: 'day', group_by: ['ad'], ad_ids: ads }],
  ];
  for (const [what, params] of cuts) expectEqual(what, await total(params), wanted);
  await checkMinutes(client, wanted);
  const ask = { ...CHECKED_RANGE, by: 'ad' as const, limit: 1_000 };
  const { answer: top } = await client.ask({ path: '/v1/ads/top', params: ask });
  expectEqual('the total of the top', top.total ?? Number.NaN, wanted);
  expectEqual('all of the top', sumOf(top.rows), wanted);
  console.log(
    `total of the year and the hours after it: ${wanted.toLocaleString('en-US')} clicks, the same in every cut`,
  );
  return wanted;
}

/** The last day by minute, over final and live rows, and by hour; with the rest it is the year. */
async function checkMinutes(client: ApiClient, wanted: number): Promise<void> {
  const dayAgo = new Date(Date.parse(CHECKED_RANGE.to) - 86_400_000).toISOString();
  const none = { group_by: ['none'] };
  const last = { from: dayAgo, to: CHECKED_RANGE.to };
  const minutes = await client.metrics({ ...last, ...none, granularity: 'minute' });
  const hours = await client.metrics({ ...last, ...none, granularity: 'hour' });
  expectEqual('by minute', sumOf(minutes.answer.rows), sumOf(hours.answer.rows));
  const before = { from: CHECKED_RANGE.from, to: dayAgo };
  const rest = await client.metrics({ ...before, ...none, granularity: 'total' });
  const sum = sumOf(rest.answer.rows) + sumOf(minutes.answer.rows);
  expectEqual('the year cut a day before now', sum, wanted);
}

/** What `checkTotals` finds, asked of the raw clicks. */
export const RAW_TOTAL: Question = {
  kind: -1,
  path: '/v1/ads/metrics',
  params: { ...CHECKED_RANGE, granularity: 'total', group_by: ['none'] },
  skippedPages: 0,
};

/** The first question of each kind: every row as the raw clicks give it. */
export function checkAgainstRaw(
  asked: readonly Question[],
  answers: readonly Answer[],
  rawOf: (kind: number) => RawAnswer,
): void {
  for (const [kind, question] of asked.entries()) {
    const isTop = question.path === '/v1/ads/top';
    // Ads with the same clicks have no order among them that both must share.
    const shape = (row: RawRow): string => (isTop ? String(row.at(-1)) : row.map(String).join(' '));
    const got = answers[kind]!.rows.map((row) => shape(cells(row)));
    const wanted = rawOf(kind).rows.map(shape);
    const at = wanted.findIndex((row, index) => row !== got[index]);
    if (at !== -1 || got.length !== wanted.length) {
      throw new Error(
        `${KINDS[kind]!.title}: ${got.length} rows, the raw clicks give ${wanted.length}; first difference at ${at}: ${got[at]} and ${wanted[at]}`,
      );
    }
  }
  console.log('the raw clicks: the same total; the first question of each kind equal row by row\n');
}

function cells(row: AnswerRow): RawRow {
  const bucket = row.bucket_start === undefined ? 0 : Date.parse(row.bucket_start) / 1000;
  const groups = [row.ad_id, row.campaign_id, row.country, row.device];
  return [bucket, ...groups.filter((value) => value !== undefined), row.clicks];
}
