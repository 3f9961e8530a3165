/** What one row of an ad file must say. */
import { isId } from '../event/click-event.ts';
import { type Columns, quoted } from '../platform/row-types.ts';
import type { Ad } from './port.ts';
import { checkTargetUrl } from './target-url.ts';

export const AD_COLUMNS: Columns = {
  required: ['ad_id', 'advertiser_id', 'campaign_id', 'target_url'],
  optional: ['pass_query'],
};

type RowRecord = Readonly<Record<string, unknown>>;

/** The row's ad, or everything that is wrong with it. */
export function adOfRecord(
  record: RowRecord,
): { readonly ok: true; readonly ad: Ad } | { readonly ok: false; readonly reason: string } {
  const problems: string[] = [];
  const id = (name: string): string => {
    const value = record[name];
    if (typeof value === 'string' && isId(value)) return value;
    problems.push(`${name} ${shown(value)} is not 1 to 128 of A–Z a–z 0–9 . _ ~ -`);
    return '';
  };
  const adId = id('ad_id');
  const advertiserId = id('advertiser_id');
  const campaignId = id('campaign_id');
  const targetUrl = record.target_url;
  if (typeof targetUrl === 'string') {
    const check = checkTargetUrl(targetUrl);
    if (!check.ok) problems.push(`target_url ${shown(targetUrl)}: ${check.reason}`);
  } else {
    problems.push(`target_url ${shown(targetUrl)} is not text`);
  }
  const passQuery = flag(record.pass_query);
  if (passQuery === null)
    problems.push(`pass_query ${shown(record.pass_query)} is not true or false`);
  if (problems.length > 0) return { ok: false, reason: problems.join('; ') };
  return {
    ok: true,
    ad: {
      adId,
      advertiserId,
      campaignId,
      targetUrl: String(targetUrl),
      passQuery: passQuery === true,
    },
  };
}

function flag(value: unknown): boolean | null {
  if (typeof value === 'boolean') return value;
  if (value === undefined || value === '' || value === 'false' || value === '0') return false;
  return value === 'true' || value === '1' ? true : null;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? quoted(value) : quoted(JSON.stringify(value) ?? 'nothing');
}
