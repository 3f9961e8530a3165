/** What is written: column lists and rows in their order, and the day's roll-up. */
import { assert } from '../../platform/errors.ts';
import { DAY_MS, floorTo, HOUR_MS, QUARTER_MS } from '../buckets.ts';
import type {
  DayState,
  FinalRow,
  HourState,
  LiveBatch,
  LiveRow,
  MinuteKey,
  Publication,
} from '../port.ts';
import { ROLLUPS, type TableName } from './schema.ts';
import { Params, type Sql, toCount, toSeconds } from './sql.ts';
import { visibleSql } from './visible.ts';

type Cell = string | number;

export interface Insert {
  readonly table: TableName;
  readonly columns: [string, ...string[]];
  readonly rows: readonly (readonly Cell[])[];
}

const KEY = ['advertiser_id', 'campaign_id', 'ad_id', 'country', 'device'] as const;
const keyCells = (key: Omit<MinuteKey, 'minuteMs'>): Cell[] => [
  key.advertiserId,
  key.campaignId,
  key.adId,
  key.country,
  key.device,
];

/** An insert block may touch 100 partitions at most; live rows are partitioned by day. */
const MAX_DAYS_PER_INSERT = 50;
const MAX_ROWS_PER_INSERT = 100_000;

interface VersionedRow {
  readonly row: LiveRow;
  readonly version: number;
}

/** Live rows in inserts of few enough rows and days; a day's rows stay together where they fit. */
export function liveInserts(batches: readonly LiveBatch[]): Insert[] {
  const byDay = new Map<number, VersionedRow[]>();
  for (const { rows, version } of batches) {
    for (const row of rows) {
      const dayMs = floorTo(row.minuteMs, DAY_MS);
      const day = byDay.get(dayMs);
      if (day === undefined) byDay.set(dayMs, [{ row, version }]);
      else day.push({ row, version });
    }
  }
  const cells = ({ row, version }: VersionedRow): Cell[] => [
    ...keyCells(row),
    toSeconds(row.minuteMs),
    row.shard,
    toCount(row.clicks),
    version,
  ];
  const days = [...byDay.values()];
  const inserts: Insert[] = [];
  for (let first = 0; first < days.length; first += MAX_DAYS_PER_INSERT) {
    const part = days.slice(first, first + MAX_DAYS_PER_INSERT).flat();
    inserts.push(
      ...chunked('live_minute', [...KEY, 'minute', 'shard', 'clicks', 'version'], part, cells),
    );
  }
  return inserts;
}

/** A row of the hour tier or of its roll-ups while it is summed. */
interface HourSum {
  readonly cells: readonly Cell[];
  readonly quarters: number[];
}

class HourSums {
  readonly #sums = new Map<string, HourSum>();

  add(cells: readonly Cell[], quarters: readonly number[]): void {
    const key = JSON.stringify(cells);
    let sum = this.#sums.get(key);
    if (sum === undefined) {
      sum = { cells, quarters: [0, 0, 0, 0] };
      this.#sums.set(key, sum);
    }
    for (const [at, clicks] of quarters.entries()) {
      sum.quarters[at] = toCount(sum.quarters[at]! + clicks);
    }
  }

  all(): HourSum[] {
    return [...this.#sums.values()];
  }
}

/** The roll-ups of an hour, out of its hour rows. */
function rollupsOf(hours: readonly HourSum[]): HourSum[] {
  const rollups = new HourSums();
  for (const [rollup, columns] of Object.entries(ROLLUPS)) {
    const kept: readonly string[] = ['advertiser_id', ...columns];
    const isKept = KEY.map((column) => kept.includes(column));
    for (const { cells, quarters } of hours) {
      const key = cells.map((cell, at) => (isKept[at] === true ? cell : ''));
      rollups.add([rollup, ...key], quarters);
    }
  }
  return rollups.all();
}

/** The minute rows of an hour's attempt, its hour rows with their four quarters, and its roll-ups. */
export function finalHourInserts(
  hourMs: number,
  attempt: number,
  rows: readonly FinalRow[],
): Insert[] {
  const hours = new HourSums();
  for (const row of rows) {
    assert(
      floorTo(row.minuteMs, HOUR_MS) === hourMs,
      'a final row lies in the hour it is written for',
    );
    const quarter = Math.floor((row.minuteMs - hourMs) / QUARTER_MS);
    const quarters = [0, 0, 0, 0];
    quarters[quarter] = toCount(row.clicks);
    hours.add(keyCells(row), quarters);
  }
  const minuteCells = (row: FinalRow): Cell[] => [
    ...keyCells(row),
    toSeconds(row.minuteMs),
    row.clicks,
    attempt,
  ];
  const hourCells = (hour: HourSum): Cell[] => [
    ...hour.cells,
    toSeconds(hourMs),
    ...hour.quarters,
    toCount(hour.quarters.reduce((sum, n) => sum + n, 0)),
    attempt,
  ];
  const hourRows = hours.all();
  return [
    ...chunked('final_minute', [...KEY, 'minute', 'clicks', 'attempt'], rows, minuteCells),
    ...chunked('final_hour', [...KEY, ...HOUR_COUNTS], hourRows, hourCells),
    ...chunked(
      'final_hour_rollup',
      [...ROLLUP_KEY, ...HOUR_COUNTS],
      rollupsOf(hourRows),
      hourCells,
    ),
  ];
}

const HOUR_COUNTS = ['hour', 'q0', 'q1', 'q2', 'q3', 'clicks', 'attempt'] as const;
const ROLLUP_KEY = ['summed_by', ...KEY] as const;

/** Sums a day's hour rows of the given attempts into the day's rows. */
export function finalDaySql(
  dayMs: number,
  attempt: number,
  hourAttempts: ReadonlyMap<number, number>,
): Sql {
  const params = new Params();
  const startsMs = [...hourAttempts.keys()];
  const attempts = [...hourAttempts.values()];
  const visible = { base: 0, startsMs, attempts } as const;
  return params.sql(
    `INSERT INTO final_day (${KEY.join(', ')}, day, clicks, attempt)
      SELECT ${KEY.join(', ')}, ${params.time(dayMs)}, sum(clicks), ${params.add('UInt32', attempt)}
      FROM final_hour WHERE ${params.between('hour', dayMs, dayMs + DAY_MS)}
      AND ${visibleSql(params, 'toUnixTimestamp(hour)', visible)}
      GROUP BY ${KEY.join(', ')}`,
  );
}

/** A day's rows, one for each key. */
export function dayInserts(dayMs: number, attempt: number, rows: readonly FinalRow[]): Insert[] {
  return chunked('final_day', [...KEY, 'day', 'clicks', 'attempt'], rows, (row) => [
    ...keyCells(row),
    toSeconds(dayMs),
    toCount(row.clicks),
    attempt,
  ]);
}

/**
 * Sums the roll-ups of a day's attempt from its day rows: unlike hour rows, which the engine may drop
 * at any moment once they are expired, these stay.
 */
export function finalDayRollupSql(dayMs: number, attempt: number): Sql {
  const params = new Params();
  const rollups = Object.keys(ROLLUPS).map((rollup) => `'${rollup}'`);
  const cells = KEY.map((column) => {
    const keeping = Object.entries(ROLLUPS)
      .filter(
        ([, kept]) => column === 'advertiser_id' || (kept as readonly string[]).includes(column),
      )
      .map(([rollup]) => `'${rollup}'`);
    return `if(summed_by IN (${keeping.join(', ')}), toString(${column}), '') AS rolled_${column}`;
  });
  const keys = ['summed_by', ...KEY.map((column) => `rolled_${column}`)].join(', ');
  const rows = `SELECT summed_by, ${cells.join(', ')}, clicks FROM final_day
    ARRAY JOIN [${rollups.join(', ')}] AS summed_by
    WHERE day = ${params.time(dayMs)} AND attempt = ${params.add('UInt32', attempt)}`;
  return params.sql(
    `INSERT INTO final_day_rollup (${ROLLUP_KEY.join(', ')}, day, clicks, attempt)
      SELECT ${keys}, ${params.time(dayMs)}, sum(clicks), ${params.add('UInt32', attempt)}
      FROM (${rows}) GROUP BY ${keys}`,
  );
}

export function attemptInsert(tier: 'hour' | 'day', startMs: number, attempt: number): Insert {
  return {
    table: 'attempts',
    columns: ['tier', 'start', 'attempt'],
    rows: [[tier, toSeconds(startMs), attempt]],
  };
}

export function driftInserts({ hour, drift }: Publication): Insert[] {
  const columns: Insert['columns'] = [
    'hour',
    'revision',
    'attempt',
    'advertiser_id',
    'live',
    'final',
  ];
  return chunked('drift', columns, drift, (row) => [
    toSeconds(row.hourMs),
    row.revision,
    hour.attempt,
    row.advertiserId,
    toCount(row.live),
    toCount(row.final),
  ]);
}

export function restatementInserts({ hour, restatements }: Publication): Insert[] {
  return chunked(
    'restatement',
    ['hour', 'revision', 'attempt', 'advertiser_id', 'ad_id', 'before', 'after', 'cause', 'at'],
    restatements,
    (row) => [
      toSeconds(row.hourMs),
      row.revision,
      hour.attempt,
      row.advertiserId,
      row.adId,
      toCount(row.before),
      toCount(row.after),
      row.cause,
      toDecimalSeconds(row.atMs),
    ],
  );
}

/** W4: hour and day in one insert, one block, one part. */
export function finalityInsert({ hour, day }: Publication): Insert {
  return {
    table: 'finality',
    columns: FINALITY_COLUMNS,
    rows: day === null ? [hourCells(hour)] : [hourCells(hour), dayCells(day, hour.finalAtMs)],
  };
}

const FINALITY_COLUMNS: Insert['columns'] = [
  'kind',
  'start',
  'revision',
  'attempt',
  'final_at',
  'cause',
  'records',
  'counted',
  'duplicate',
  'not_billable',
  'invalid',
  'live_clicks',
  'drift_max',
  'input_digest',
];

function hourCells(hour: HourState): Cell[] {
  const counts = [hour.records, hour.counted, hour.duplicate, hour.notBillable, hour.invalid];
  assert(Number.isFinite(hour.driftMax), 'a drift is a finite number');
  return [
    'hour',
    toSeconds(hour.hourMs),
    hour.revision,
    hour.attempt,
    toDecimalSeconds(hour.finalAtMs),
    hour.cause,
    ...counts.map(toCount),
    toCount(hour.liveClicks),
    hour.driftMax,
    hour.inputDigest,
  ];
}

function dayCells(day: DayState, finalAtMs: number): Cell[] {
  const at = toDecimalSeconds(finalAtMs);
  return ['day', toSeconds(day.dayMs), 0, day.attempt, at, '', 0, 0, 0, 0, 0, 0, 0, ''];
}

/** A `DateTime64(3)` as text, exact to the millisecond. */
function toDecimalSeconds(ms: number): string {
  assert(Number.isSafeInteger(ms) && ms >= 0, 'an instant is whole milliseconds');
  return `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}`;
}

function chunked<Row>(
  table: TableName,
  columns: Insert['columns'],
  rows: readonly Row[],
  cells: (row: Row) => Cell[],
): Insert[] {
  const inserts: Insert[] = [];
  for (let first = 0; first < rows.length; first += MAX_ROWS_PER_INSERT) {
    const part = rows.slice(first, first + MAX_ROWS_PER_INSERT);
    inserts.push({ table, columns, rows: part.map(cells) });
  }
  return inserts;
}
