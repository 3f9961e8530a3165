/**
 * The warehouse port over a ClickHouse client: chDB in this process or a server, the SQL is one.
 *
 * Owns: the order of writes, the states in memory, attempt numbers. Does not own SQL text (`sql/`)
 * nor how a query is cut (`reader.ts`, `plan.ts`).
 *
 * S1 An attempt number is stored before it is given out: a crash after that wastes the number, it
 *    never leads to two writers under one number.
 * S2 An insert of final rows is not retried here. It may have been written though it failed; under the
 *    same attempt its rows would count twice. The caller begins again under a new attempt. Live rows
 *    may be inserted again with their version: the second time changes nothing.
 * S3 A published day never outlives its hours: an hour of a published day is published again only
 *    together with a new attempt of that day.
 * S4 Live rows may be written by several processes: their versions decide (W2). Attempt numbers and
 *    publications are not made for two at a time, unless attempts are reserved in a place that all
 *    share (`nextAttempt`): then one that was overtaken may still write what it had begun (W3, W5).
 */
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import type { Clock } from '../platform/clock.ts';
import { assert, LedgerError } from '../platform/errors.ts';
import { DAY_MS, floorTo, HOUR_MS } from './buckets.ts';
import { engineError, queryError } from './engine-error.ts';
import { migrate } from './migrate.ts';
import type {
  DayState,
  DriftRow,
  FinalRow,
  HourState,
  LiveBatch,
  LiveRow,
  MetricsPage,
  MetricsQuery,
  Publication,
  Restatement,
  RollupDifference,
  Top,
  TopQuery,
  Warehouse,
} from './port.ts';
import { PublishedStates } from './published.ts';
import { type ReaderParts, readMetrics, readTop } from './reader.ts';
import { type Layout, ONE_SERVER, truncateTable } from './sql/layout.ts';
import * as read from './sql/read.ts';
import { TABLES, type TtlDays } from './sql/schema.ts';
import { type Sql, toCount } from './sql/sql.ts';
import * as write from './sql/write.ts';

export interface SqlWarehouseParts extends EngineManners {
  readonly client: ClickHouseClient;
  readonly ttl: TtlDays;
  readonly clock: Clock;
  readonly close: () => Promise<void>;
}

/** In what one engine is unlike another, though the SQL is one. */
export interface EngineManners {
  readonly layout: Layout;
  /** What the caller is told when the client failed. */
  readonly toError: (error: unknown) => unknown;
  readonly live: LiveInserts;
}

/** How live rows are inserted, which may be done again (S2). */
export interface LiveInserts {
  readonly settings: ClickHouseSettings;
  readonly repeat: (insert: () => Promise<void>) => Promise<void>;
}

/** Within a process an insert has failed or it has not: the counter's next one is soon enough. */
export const IN_PROCESS: EngineManners = {
  layout: ONE_SERVER,
  toError: engineError,
  live: { settings: {}, repeat: (insert) => insert() },
};

export class SqlWarehouse implements Warehouse {
  readonly #parts: SqlWarehouseParts;
  readonly #published = new PublishedStates();
  /** Version that was given out last, per shard. */
  readonly #lastVersions = new Map<number, number>();
  /** Rises when a publication begins and when it is known here. */
  #publications = 0;
  /** What the states in memory were read from. */
  #stateMark = '';
  /** Attempts are reserved one after the other (S1). */
  #reserving: Promise<unknown> = Promise.resolve();

  constructor(parts: SqlWarehouseParts) {
    this.#parts = parts;
  }

  async migrate(): Promise<void> {
    const { layout, ttl } = this.#parts;
    await migrate({ command: this.#command, rows: this.#rows, layout }, ttl);
    await this.refresh();
  }

  async refresh(): Promise<void> {
    const publications = this.#publications;
    // First, so that what comes between the two is read by the next call.
    const mark = JSON.stringify(await this.#rows(read.finalityMarkSql()));
    if (mark === this.#stateMark) return;
    const { hours, days } = read.toStates(await this.#rows(read.finalitySql()));
    if (publications === this.#publications) {
      this.#published.replace(hours, days);
      this.#stateMark = mark;
    } else {
      // A publication of our own may be missing from what was read.
      this.#published.apply(hours, days);
    }
  }

  async upsertLive(rows: readonly LiveRow[], version: number): Promise<void> {
    await this.upsertLiveBatches([{ rows, version }]);
  }

  async upsertLiveBatches(batches: readonly LiveBatch[]): Promise<void> {
    for (const batch of batches) this.#noteVersion(batch);
    const { repeat, settings } = this.#parts.live;
    for (const insert of write.liveInserts(batches)) {
      await repeat(() => this.#insert(insert, settings));
    }
  }

  #noteVersion({ rows, version }: LiveBatch): void {
    assert(Number.isSafeInteger(version), 'a version is a whole number that is exact');
    for (const shard of new Set(rows.map((row) => row.shard))) {
      const last = this.#lastVersions.get(shard) ?? 0;
      assert(version > last, 'the version of live rows rises with every upsert of a shard');
      this.#lastVersions.set(shard, version);
    }
  }

  async maxLiveVersion(shard?: number): Promise<number> {
    const rows = await this.#rows(read.maxLiveVersionSql(shard));
    return toCount(rows[0]![0]);
  }

  async liveTotals(hourMs: number): Promise<Map<string, number>> {
    assertHour(hourMs);
    const rows = await this.#rows(read.liveTotalsSql(hourMs));
    return new Map(rows.map((row) => [String(row[0]), toCount(row[1])]));
  }

  nextAttempt(
    tier: 'hour' | 'day',
    startMs: number,
    reserve = async (highest: number) => highest + 1,
  ): Promise<number> {
    assert(startMs % (tier === 'hour' ? HOUR_MS : DAY_MS) === 0, 'an attempt is for a whole unit');
    const reserved = this.#reserving.then(async () => {
      const rows = await this.#rows(read.maxAttemptSql(tier, startMs));
      const highest = toCount(rows[0]![0]);
      const attempt = await reserve(highest);
      assert(attempt > highest, 'an attempt has a number that was not used');
      await this.#insertAll([write.attemptInsert(tier, startMs, attempt)]);
      return attempt;
    });
    // The next reservation does not depend on this one's success; the caller sees its error.
    this.#reserving = reserved.catch(() => undefined);
    return reserved;
  }

  async writeFinalHour(hourMs: number, attempt: number, rows: readonly FinalRow[]): Promise<void> {
    assertHour(hourMs);
    assertAttempt(attempt);
    await this.#insertAll(write.finalHourInserts(hourMs, attempt, rows));
  }

  async writeFinalDay(
    dayMs: number,
    attempt: number,
    hourAttempts: ReadonlyMap<number, number>,
  ): Promise<void> {
    assert(dayMs % DAY_MS === 0, 'a day starts at midnight UTC');
    assertAttempt(attempt);
    for (const hourMs of hourAttempts.keys()) {
      assertHour(hourMs);
      assert(floorTo(hourMs, DAY_MS) === dayMs, 'a day is summed from its own hours');
    }
    await this.#command(write.finalDaySql(dayMs, attempt, hourAttempts));
    await this.#command(write.finalDayRollupSql(dayMs, attempt));
  }

  async writeDayRows(dayMs: number, attempt: number, rows: readonly FinalRow[]): Promise<void> {
    assert(dayMs % DAY_MS === 0, 'a day starts at midnight UTC');
    assertAttempt(attempt);
    await this.#insertAll(write.dayInserts(dayMs, attempt, rows));
    await this.#command(write.finalDayRollupSql(dayMs, attempt));
  }

  async publish(publication: Publication): Promise<void> {
    this.#refuseOvertaken(publication);
    this.#checkPublication(publication);
    this.#publications++;
    // 1, 2. Dead after either: the rows carry an attempt that is not published and stay unseen.
    await this.#insertAll(write.driftInserts(publication));
    await this.#insertAll(write.restatementInserts(publication));
    // 3. Dead after this: published; the next start reads it.
    await this.#insertAll([write.finalityInsert(publication)]);
    // 4. This process answers from the new attempts.
    this.#publications++;
    this.#published.apply([publication.hour], publication.day === null ? [] : [publication.day]);
  }

  async hours(fromMs: number, toMs: number): Promise<HourState[]> {
    return this.#published.hours(fromMs, toMs);
  }

  async days(fromMs: number, toMs: number): Promise<DayState[]> {
    return this.#published.days(fromMs, toMs);
  }

  async restatements(
    fromMs: number,
    toMs: number,
    advertiserId: string | undefined,
  ): Promise<Restatement[]> {
    const rows = await this.#rows(read.restatementsSql(fromMs, toMs, advertiserId));
    return rows.map(read.toRestatement);
  }

  async drift(fromMs: number, toMs: number, advertiserId: string | undefined): Promise<DriftRow[]> {
    const rows = await this.#rows(read.driftSql(fromMs, toMs, advertiserId));
    return rows.map(read.toDriftRow);
  }

  async finalRows(hourMs: number): Promise<FinalRow[]> {
    assertHour(hourMs);
    const range = { fromMs: hourMs, toMs: hourMs + HOUR_MS };
    const visibility = this.#published.visibility('hour', [range]);
    return (await this.#rows(read.finalRowsSql(hourMs, visibility))).map(read.toMinuteRow);
  }

  async tierRows(tier: 'hour' | 'day', startMs: number): Promise<FinalRow[]> {
    const unitMs = tier === 'hour' ? HOUR_MS : DAY_MS;
    assert(startMs % unitMs === 0, 'rows are read for a whole unit');
    const range = { fromMs: startMs, toMs: startMs + unitMs };
    const visibility = this.#published.visibility(tier, [range]);
    const rows = await this.#rows(read.tierRowsSql(tier, startMs, visibility));
    return rows.map(read.toMinuteRow);
  }

  async rollupDifferences(tier: 'hour' | 'day', startMs: number): Promise<RollupDifference[]> {
    const unitMs = tier === 'hour' ? HOUR_MS : DAY_MS;
    const range = { fromMs: startMs, toMs: startMs + unitMs };
    const visibility = this.#published.visibility(tier, [range]);
    const rows = await this.#rows(read.rollupDifferencesSql(tier, startMs, visibility));
    return rows.map(read.toRollupDifference);
  }

  async liveRows(fromMs: number, toMs: number): Promise<FinalRow[]> {
    return (await this.#rows(read.liveRowsSql(fromMs, toMs))).map(read.toMinuteRow);
  }

  metrics(query: MetricsQuery, finalUntilMs: number): Promise<MetricsPage> {
    return readMetrics(this.#reader(), query, finalUntilMs);
  }

  top(query: TopQuery, finalUntilMs: number): Promise<Top> {
    return readTop(this.#reader(), query, finalUntilMs);
  }

  #reader(): ReaderParts {
    const { ttl, clock } = this.#parts;
    const heldFrom = (days: number): number => (days === 0 ? 0 : clock() - days * DAY_MS);
    return {
      run: async (sql) => {
        try {
          return await this.#rows(sql);
        } catch (error) {
          throw queryError(error);
        }
      },
      published: this.#published,
      heldFromMs: { minute: heldFrom(ttl.minuteTtlDays), hour: heldFrom(ttl.hourTtlDays) },
    };
  }

  async reset(): Promise<void> {
    for (const table of TABLES) {
      const query = truncateTable(table, this.#parts.layout);
      await this.#command({ query, query_params: {} });
    }
    this.#published.replace([], []);
    this.#stateMark = '';
    this.#lastVersions.clear();
  }

  async close(): Promise<void> {
    await this.#reserving;
    await this.#parts.close();
  }

  /** W5. It would lose anyway; and whoever makes it should know that somebody else is at it. */
  #refuseOvertaken({ hour, day }: Publication): void {
    const known = this.#published.hour(hour.hourMs);
    const knownDay = this.#published.day(floorTo(hour.hourMs, DAY_MS));
    const isOvertaken =
      hour.revision < (known?.revision ?? 0) ||
      (day !== null && day.attempt < (knownDay?.attempt ?? 0));
    if (!isOvertaken) return;
    const at = new Date(hour.hourMs).toISOString();
    throw new LedgerError('publication_overtaken', `a later revision of ${at} is published`, {
      kind: 'retry',
    });
  }

  #checkPublication({ hour, day, drift, restatements }: Publication): void {
    assertHour(hour.hourMs);
    assertAttempt(hour.attempt);
    const revision = this.#published.hour(hour.hourMs)?.revision ?? 0;
    assert(
      hour.revision === revision + 1 || (hour.revision === revision && revision > 0),
      'the revision of an hour rises by one, or is published again as it was',
    );
    const dayMs = floorTo(hour.hourMs, DAY_MS);
    const known = this.#published.day(dayMs);
    assert(known === undefined || day !== null, 'an hour of a published day brings its day along');
    if (day !== null) {
      assertAttempt(day.attempt);
      assert(day.dayMs === dayMs, 'a publication is of an hour and of its own day');
    }
    for (const row of [...drift, ...restatements]) {
      assert(
        row.hourMs === hour.hourMs && row.revision === hour.revision,
        'drift and restatements belong to the revision that is published',
      );
    }
  }

  async #insertAll(inserts: readonly write.Insert[]): Promise<void> {
    for (const insert of inserts) await this.#insert(insert, {});
  }

  async #insert(insert: write.Insert, settings: ClickHouseSettings): Promise<void> {
    const { table, columns, rows } = insert;
    try {
      await this.#parts.client.insert({
        table,
        columns,
        values: [...rows],
        format: 'JSONCompactEachRow',
        clickhouse_settings: settings,
      });
    } catch (error) {
      throw this.#parts.toError(error);
    }
  }

  readonly #command = async (sql: Sql): Promise<void> => {
    try {
      await this.#parts.client.command(sql);
    } catch (error) {
      throw this.#parts.toError(error);
    }
  };

  readonly #rows = async (sql: Sql): Promise<read.Row[]> => {
    try {
      const result = await this.#parts.client.query({ ...sql, format: 'JSONCompactEachRow' });
      return await result.json<read.Row>();
    } catch (error) {
      throw this.#parts.toError(error);
    }
  };
}

function assertHour(hourMs: number): void {
  assert(hourMs % HOUR_MS === 0, 'an hour starts on a full hour');
}

function assertAttempt(attempt: number): void {
  assert(Number.isSafeInteger(attempt) && attempt >= 1, 'an attempt has a number from 1 on');
}
