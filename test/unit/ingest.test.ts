import { afterEach, describe, expect, test } from 'bun:test';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { IngestRow } from '../../src/api/admin-port.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { decodeEvent } from '../../src/event/codec.ts';
import { type IngestOptions, ingestRows } from '../../src/ingest/ingest.ts';
import { INGEST_COLUMNS } from '../../src/ingest/recorded-click.ts';
import { DiskLogReader } from '../../src/log/disk/reader.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import type { AppendDone, ClickLogWriter } from '../../src/log/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { readRowsFile } from '../../src/platform/rows-file.ts';
import { ad, HeldLog, MapAds, NOW_MS, US_GEO } from '../support/click.ts';
import { tempDir } from '../support/temp-dir.ts';

const folders: ReturnType<typeof tempDir>[] = [];
const folder = (): string => {
  const made = tempDir('ingest');
  folders.push(made);
  return made.path;
};
afterEach(() => {
  for (const each of folders.splice(0)) each.remove();
});

async function* rowsOf(records: readonly Record<string, unknown>[]): AsyncGenerator<IngestRow> {
  for (const [index, record] of records.entries()) yield { line: index + 1, record };
}

const records = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    impression_id: `imp-${index}`,
    ad_id: 'a1',
    clicked_at: NOW_MS - index,
    ua: 'x'.repeat(index % 300),
  }));

function ingest(
  log: ClickLogWriter,
  rows: AsyncIterable<IngestRow>,
  over: Partial<IngestOptions> = {},
) {
  return ingestRows({
    rows,
    ads: new MapAds(ad('a1', 'https://shop.example/')),
    log,
    geo: US_GEO,
    clock: () => NOW_MS,
    config: { maxSkewMs: 600_000, storeAddress: 'truncated' },
    spoolDir: join(folder(), 'spool'),
    progress: () => {},
    ...over,
  });
}

async function errorOf(work: Promise<unknown>): Promise<LedgerError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof LedgerError)) throw new Error(`no LedgerError: ${String(error)}`);
  return error;
}

async function readLog(logDir: string): Promise<ClickEvent[]> {
  const reader = new DiskLogReader(logDir);
  const events: ClickEvent[] = [];
  try {
    for (let offset = 0; ; offset = events.length) {
      const batches = await reader.read(0, offset, 1 << 20);
      if (batches.length === 0) return events;
      for (const { bytes, bounds, count } of batches) {
        for (let i = 0; i < count; i++) {
          events.push(decodeEvent(bytes, bounds[2 * i]!, bounds[2 * i + 1]!)!);
        }
      }
    }
  } finally {
    await reader.close();
  }
}

/** A log whose queue holds few records and commits them in turns of the loop, as the disk log does. */
class NarrowLog extends HeldLog {
  refusals = 0;
  readonly #room: number;

  constructor(room: number) {
    super();
    this.#room = room;
  }

  override append(bytes: Buffer, length: number, done: AppendDone): void {
    if (this.held.length >= this.#room) {
      this.refusals += 1;
      throw new LedgerError('log_full_queue', 'full', { kind: 'retry' });
    }
    super.append(bytes, length, done);
    if (this.held.length === 1) setImmediate(() => this.commit());
  }

  commit(error: Error | null = null): void {
    for (const done of this.held.splice(0)) done(error);
  }
}

describe('ingest', () => {
  test('logs every row of a file in its order, durable when it returns, and leaves no spool', async () => {
    const dir = folder();
    const logDir = join(dir, 'log');
    const log = new DiskLogWriter({
      logDir,
      partition: 0,
      segmentBytes: 1 << 20,
      clock: () => NOW_MS,
    });
    const progress: string[] = [];
    const rows = records(25_000);
    const outcome = await ingest(log, rowsOf(rows), {
      spoolDir: join(dir, 'spool'),
      progress: (message, done, total) => progress.push(`${message} ${done} ${total}`),
    });
    const events = await readLog(logDir);
    await log.close();
    expect(outcome).toEqual({ taken: 25_000 });
    expect(events.map((event) => event.impressionId)).toEqual(rows.map((row) => row.impression_id));
    expect(events.map((event) => event.userAgent)).toEqual(rows.map((row) => row.ua));
    expect(readdirSync(join(dir, 'spool'))).toEqual([]);
    expect(progress[0]).toBe('checking 10000 undefined');
    expect(progress.at(-1)).toBe('logging 25000 25000');
  });

  test('with one wrong row among good ones logs nothing and names the line', async () => {
    const log = new HeldLog();
    const rows = records(3_000);
    rows[2_998]!.ad_id = 'other';
    const spoolDir = join(folder(), 'spool');
    const error = await errorOf(ingest(log, rowsOf(rows), { spoolDir }));
    expect(error.code).toBe('ingest_invalid');
    expect(error.message).toContain('1 of 3000 rows are wrong, nothing was taken');
    expect(error.message).toContain('line 2999: ad_id "other" is not in the catalog');
    expect(log.events).toEqual([]);
    expect(readdirSync(spoolDir)).toEqual([]);
  });

  test('shows the first 20 wrong lines and counts the rest', async () => {
    const rows = records(30).map((row) => ({ ...row, ad_id: 'other' }));
    const { message } = await errorOf(ingest(new HeldLog(), rowsOf(rows)));
    expect(message.match(/^line /gm)).toHaveLength(20);
    expect(message).toContain('line 20: ');
    expect(message.split('\n').at(-1)).toBe('and 10 more');
  });

  test('waits while the queue of the log is full and loses nothing', async () => {
    const log = new NarrowLog(7);
    expect(await ingest(log, rowsOf(records(1_000)))).toEqual({ taken: 1_000 });
    expect(log.refusals).toBeGreaterThan(100);
    expect(new Set(log.events.map((event) => event.impressionId)).size).toBe(1_000);
  });

  test('goes on when others had filled the queue before its first record', async () => {
    const log = new NarrowLog(1);
    log.held.push(() => {});
    const running = ingest(log, rowsOf(records(3)));
    while (log.refusals < 2) await Bun.sleep(1);
    log.commit();
    expect(await running).toEqual({ taken: 3 });
  });

  test('does not return before the last record is durable', async () => {
    const log = new HeldLog();
    let returned = false;
    const running = ingest(log, rowsOf(records(10))).finally(() => {
      returned = true;
    });
    while (log.held.length < 10) await Bun.sleep(1);
    for (const done of log.held.slice(1)) done(null);
    await Bun.sleep(5);
    expect(returned).toBe(false);
    log.held[0]!(null);
    expect(await running).toEqual({ taken: 10 });
  });

  test('says how many were taken when the log fails in the middle', async () => {
    const log = new HeldLog();
    const running = errorOf(ingest(log, rowsOf(records(10))));
    while (log.held.length < 10) await Bun.sleep(1);
    log.held.forEach((done, index) => {
      done(index < 4 ? null : new Error('no space left'));
    });
    const error = await running;
    expect(error.code).toBe('ingest_interrupted');
    expect(error.kind).toBe('retry');
    expect(error.message).toContain('4 of 10 clicks were taken');
    expect(error.message).toContain('no space left');
  });

  test('a bug in the log is not taken for an expected failure', async () => {
    const log = new HeldLog();
    log.refusal = new TypeError('a bug');
    await expect(ingest(log, rowsOf(records(1)))).rejects.toThrow(TypeError);
  });

  test('a file without rows is no mistake', async () => {
    expect(await ingest(new HeldLog(), rowsOf([]))).toEqual({ taken: 0 });
  });
});

describe('a file of recorded clicks', () => {
  const write = (name: string, text: string): string => {
    const path = join(folder(), name);
    writeFileSync(path, text);
    return path;
  };
  const CSV = 'impression_id,ad_id,clicked_at,ua\ni1,a1,2026-05-31T12:00:00Z,"x, y"\n';
  const NDJSON =
    '{"impression_id":"i1","ad_id":"a1","clicked_at":"2026-05-31T12:00:00Z","ua":"x, y"}\n';

  test('is read as CSV or NDJSON by its ending, else by its first character', async () => {
    for (const path of [
      write('a.csv', CSV),
      write('a.ndjson', NDJSON),
      write('csv', CSV),
      write('json', NDJSON),
    ]) {
      const log = new HeldLog();
      log.answerAtOnce = true;
      expect(await ingest(log, readRowsFile(path, INGEST_COLUMNS))).toEqual({ taken: 1 });
      expect(log.events[0]).toMatchObject({
        impressionId: 'i1',
        clickedAtMs: Date.UTC(2026, 4, 31, 12),
        userAgent: 'x, y',
      });
    }
  });

  test('with lines that cannot be read is refused as a whole, together with wrong rows', async () => {
    const path = write('a.ndjson', `${NDJSON}not json\n{"impression_id":"i2"}\n`);
    const { code, message } = await errorOf(
      ingest(new HeldLog(), readRowsFile(path, INGEST_COLUMNS)),
    );
    expect(code).toBe('ingest_invalid');
    expect(message).toContain('2 of 3 rows are wrong');
    expect(message).toContain('line 2: the line is not JSON');
    expect(message).toContain('line 3: missing column "ad_id", "clicked_at"');
  });

  test('that does not exist, or is not text, is refused', async () => {
    const missing = readRowsFile(join(folder(), 'none.csv'), INGEST_COLUMNS);
    expect((await errorOf(ingest(new HeldLog(), missing))).code).toBe('file_missing');
    const path = join(folder(), 'a.csv');
    writeFileSync(path, Buffer.from([0x1f, 0x8b, 0x08, 0xff, 0xfe]));
    expect((await errorOf(ingest(new HeldLog(), readRowsFile(path, INGEST_COLUMNS)))).code).toBe(
      'text_not_utf8',
    );
  });
});
