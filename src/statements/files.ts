/**
 * A statement's rows as files. The bytes are a function of id, version and numbers alone: no time of
 * making is in them, so a file that is made again is the same file.
 *
 * Columns are read by other people's programs for years: they change by addition only.
 */
import { ParquetBuilder, yieldToEventLoop } from '../archive/parquet.ts';
import type { Column } from '../archive/table.ts';
import { csvCell } from '../platform/csv-cell.ts';
import { LedgerError } from '../platform/errors.ts';
import { DAY_MS } from '../warehouse/buckets.ts';
import type { Numbers, StatementRow } from './numbers.ts';

export interface FileHead {
  readonly id: string;
  readonly version: number;
  readonly advertiserId: string;
}

export const CSV_HEADER = 'statement_id,version,advertiser_id,day,ad_id,campaign_id,clicks';
const CRLF = '\r\n';
/** Rows between two turns of the event loop. */
const CHUNK_ROWS = 5_000;

export async function csvFile(
  head: FileHead,
  numbers: Numbers,
  maxBytes: number,
): Promise<Uint8Array> {
  const start = [csvCell(head.id), head.version, csvCell(head.advertiserId)].join(',');
  const chunks: Buffer[] = [];
  let bytes = 0;
  let text = CSV_HEADER + CRLF;
  let rows = 0;
  const flush = async (): Promise<void> => {
    const chunk = Buffer.from(text);
    text = '';
    bytes += chunk.length;
    if (bytes > maxBytes) {
      throw new LedgerError('statement_too_large', `the file has more than ${maxBytes} bytes`, {
        hint: 'Ask for shorter periods: those that touch, [a, b) and [b, c), add up exactly.',
      });
    }
    chunks.push(chunk);
    await yieldToEventLoop();
  };
  for (const { day, adId, campaignId, clicks } of numbers.rows()) {
    text += `${start},${day},${csvCell(adId)},${csvCell(campaignId)},${clicks}${CRLF}`;
    if (++rows % CHUNK_ROWS === 0) await flush();
  }
  await flush();
  return Buffer.concat(chunks, bytes);
}

export async function parquetFile(head: FileHead, numbers: Numbers): Promise<Uint8Array> {
  const builder = new ParquetBuilder(columnsOf(head));
  for (const row of numbers.rows()) {
    if (!builder.add(row)) continue;
    builder.flush();
    await yieldToEventLoop();
  }
  return builder.finish();
}

function columnsOf({ id, version, advertiserId }: FileHead): Column<StatementRow>[] {
  return [
    { name: 'statement_id', type: 'string', take: () => id },
    { name: 'version', type: 'int32', take: () => version },
    { name: 'advertiser_id', type: 'string', take: () => advertiserId },
    { name: 'day', type: 'date', take: ({ day }) => Date.parse(day) / DAY_MS },
    { name: 'ad_id', type: 'string', take: ({ adId }) => adId },
    { name: 'campaign_id', type: 'string', take: ({ campaignId }) => campaignId },
    { name: 'clicks', type: 'int64', take: ({ clicks }) => BigInt(clicks) },
  ];
}
