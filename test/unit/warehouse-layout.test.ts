/**
 * Tables of a server, of replicas and of a cluster, as text: no Keeper and no second node run here. The
 * engine's own parser reads every statement, and it knows every setting.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { closeChdbClient, openChdbClient } from '../../src/warehouse/chdb/client.ts';
import {
  type ClickHouseServer,
  LIVE_SETTINGS,
  settingsOf,
} from '../../src/warehouse/clickhouse/client.ts';
import { type Engine, migrate } from '../../src/warehouse/migrate.ts';
import { type Layout, ONE_SERVER, truncateTable } from '../../src/warehouse/sql/layout.ts';
import {
  alterTtl,
  createTables,
  refillRollups,
  TABLES,
  ttlRules,
} from '../../src/warehouse/sql/schema.ts';
import { Params } from '../../src/warehouse/sql/sql.ts';
import { tempDir } from '../support/temp-dir.ts';

const DOCS = join(import.meta.dir, '../../docs/operating/clickhouse-ddl');
const LAYOUTS: Readonly<Record<string, Layout>> = {
  'one-server': ONE_SERVER,
  replicated: { database: 'clickledger', cluster: '', replicated: true },
  cluster: { database: 'clickledger', cluster: 'ledger', replicated: true },
};
const TTL = { minuteTtlDays: 90, hourTtlDays: 1098 };
const CLUSTER = LAYOUTS.cluster!;

const dir = tempDir('layout');
let client: ClickHouseClient;
beforeAll(() => {
  client = openChdbClient(dir.path);
});
afterAll(async () => {
  await closeChdbClient(client);
  dir.remove();
});

const rowsOf = async (query: string, query_params = {}): Promise<string[][]> => {
  const result = await client.query({ query, query_params, format: 'JSONCompactEachRow' });
  return result.json<string[]>();
};

/** Every statement that makes or changes tables; as they are run, in their order. */
function statements(layout: Layout): string[] {
  const ttl = ttlRules(TTL).map((rule) => alterTtl(rule, '', layout)!);
  return [...createTables(layout, new Set()), ...ttl];
}

for (const [name, layout] of Object.entries(LAYOUTS)) {
  test(`docs/operating/clickhouse-ddl/${name}.sql is what is run (UPDATE_DOCS=1 writes it)`, () => {
    const path = join(DOCS, `${name}.sql`);
    const text = statements(layout).map((each) => `${each.replace(/^ {6}/gm, '  ')};\n`);
    if (process.env.UPDATE_DOCS === '1') writeFileSync(path, text.join('\n'));
    expect(readFileSync(path, 'utf8')).toBe(text.join('\n'));
  });

  test(`the engine's parser reads every statement of ${name}`, async () => {
    const others = [
      ...TABLES.map((table) => truncateTable(table, layout)),
      ...refillRollups('hour', layout),
      ...refillRollups('day', layout),
    ];
    for (const statement of [...statements(layout), ...others]) {
      const [[formatted] = []] = await rowsOf('SELECT formatQuery({q:String})', { q: statement });
      // It says again what it understood: a clause that it took for something else would be missing.
      for (const word of ['ON CLUSTER', 'Replicated', 'Distributed', 'TTL', 'SETTINGS']) {
        expect([statement, formatted!.includes(word)]).toEqual([
          statement,
          statement.includes(word),
        ]);
      }
    }
  });
}

describe('a cluster', () => {
  const created = createTables(CLUSTER, new Set());
  const of = (table: string): string =>
    created.find((each) => each.includes(`EXISTS ${table} ON CLUSTER 'ledger' (`))!;

  test('rows lie on the shard that a hash of advertiser and ad names, where versions meet (G1)', () => {
    const spread = created.filter((each) => each.includes('Distributed('));
    expect(spread).toHaveLength(6);
    for (const each of spread) {
      const [, table] = /EXISTS (\w+) ON CLUSTER 'ledger' AS \1_local/.exec(each)!;
      expect(each).toEndWith(
        `Distributed('ledger', 'clickledger', '${table}_local', cityHash64(advertiser_id, ad_id))`,
      );
      // The key is part of what rows are told apart by, and so is all that partitions them.
      expect(of(`${table}_local`)).toMatch(/ORDER BY \(advertiser_id, (summed_by, \w+, )?ad_id/);
    }
  });

  test('what is read and written by name is there under that name', () => {
    for (const table of TABLES) {
      expect(created.some((each) => each.includes(`EXISTS ${table} ON CLUSTER`))).toBe(true);
    }
  });

  test('finality and attempts are one table of which every node has a whole replica (W4)', () => {
    for (const table of ['finality', 'attempts', 'drift', 'restatement', 'schema_version']) {
      expect(of(table)).toContain(
        `ReplicatedMergeTree('/clickhouse/tables/all/clickledger/${table}', '{shard}-{replica}')`,
      );
    }
    expect(of('finality')).not.toContain('PARTITION BY');
  });

  test('no replicated table drops an insert that looks like an earlier one', () => {
    for (const layout of [CLUSTER, LAYOUTS.replicated!]) {
      const replicated = createTables(layout, new Set()).filter((each) =>
        each.includes('Replicated'),
      );
      expect(replicated).toHaveLength(11);
      for (const each of replicated) expect(each).toContain('replicated_deduplication_window = 0');
    }
    expect(createTables(ONE_SERVER, new Set()).join()).not.toContain('Replicated');
  });

  test('of sharded tables every shard is emptied and altered, of the others one replica tells the rest', () => {
    expect(truncateTable('live_minute', CLUSTER)).toStartWith(
      "TRUNCATE TABLE live_minute_local ON CLUSTER 'ledger' ",
    );
    expect(truncateTable('finality', CLUSTER)).toStartWith('TRUNCATE TABLE finality ');
    const alters = ttlRules(TTL).map((rule) => alterTtl(rule, '', CLUSTER)!);
    expect(alters.map((each) => /TABLE (.*) MODIFY/.exec(each)![1])).toEqual([
      "live_minute_local ON CLUSTER 'ledger'",
      "final_minute_local ON CLUSTER 'ledger'",
      "final_hour_local ON CLUSTER 'ledger'",
      "final_hour_rollup_local ON CLUSTER 'ledger'",
      'drift',
    ]);
  });

  test('a start with all tables there runs no statement on the cluster: a node may be away', async () => {
    const present = [...TABLES, 'schema_version', ...TABLES.map((table) => `${table}_local`)];
    const commands: string[] = [];
    const engine: Engine = {
      layout: CLUSTER,
      command: async ({ query }) => void commands.push(query),
      rows: async ({ query }) => {
        if (query.includes('system.clusters')) return [[4, 1]];
        if (query.includes('schema_version')) return [[2]];
        if (query.includes('engine_full')) {
          return [[`MergeTree TTL x + toIntervalDay(${query.length > 0 ? 90 : 0})`]];
        }
        return present.map((name) => [name]);
      },
    };
    await migrate(engine, { minuteTtlDays: 90, hourTtlDays: 90 });
    expect(commands).toEqual([]);
  });

  test('it is made of replicated tables or refused', () => {
    expect(() => createTables({ ...CLUSTER, replicated: false }, new Set())).toThrow('replicated');
  });
});

test('every setting that is sent exists in the engine, but for what only HTTP has', async () => {
  const server: ClickHouseServer = {
    ...CLUSTER,
    url: '',
    username: '',
    password: '',
    requestTimeoutMs: 60_000,
    maxOpenConnections: 2,
  };
  const names = Object.keys({ ...settingsOf(server), ...LIVE_SETTINGS });
  const known = await rowsOf('SELECT name FROM system.settings');
  const missing = names.filter((name) => !known.some(([each]) => each === name));
  expect(missing).toEqual(['wait_end_of_query']);
  const ofTables = await rowsOf(
    "SELECT name FROM system.merge_tree_settings WHERE name = 'replicated_deduplication_window'",
  );
  expect(ofTables).toHaveLength(1);
});

test('settings of replicas and of clusters are sent where there are such', () => {
  const base = { url: '', username: '', password: '', requestTimeoutMs: 60_000 };
  const server = { ...base, maxOpenConnections: 2, database: 'd', cluster: '', replicated: false };
  const alone = settingsOf(server);
  expect(alone).toMatchObject({ async_insert: 0, wait_end_of_query: 1, insert_deduplicate: 0 });
  expect(Object.keys(alone).filter((name) => /quorum|distributed|sequential/.test(name))).toEqual(
    [],
  );
  const replicas = settingsOf({ ...server, replicated: true });
  expect(replicas).toMatchObject({ insert_quorum: 'auto', select_sequential_consistency: '1' });
  // A quorum in parallel with another one would make reads stale again.
  expect(replicas).toMatchObject({ insert_quorum_parallel: 0, insert_quorum_timeout: 55_000 });
  const cluster = settingsOf({ ...server, replicated: true, cluster: 'c' });
  expect(cluster).toMatchObject({ distributed_foreground_insert: 1, skip_unavailable_shards: 0 });
});

test('a long list is bound in parts that a server takes, and reads as one list', async () => {
  const values = Array.from({ length: 30_000 }, (_, at) => `ad-${at}-é'\\`);
  const params = new Params();
  const sql = params.add('Array(String)', values);
  expect(sql).toMatch(/^arrayConcat\(\{p0:Array\(String\)\}, /);
  for (const part of Object.values(params.values)) {
    expect(Buffer.byteLength(JSON.stringify(part))).toBeLessThan(131_072);
  }
  expect(Object.values(params.values).flat()).toEqual(values);
  const [[found] = []] = await rowsOf(
    `SELECT countIf(x IN ${sql}) FROM (SELECT arrayJoin(['${'ad-29999-é'}\\'\\\\', 'ad-1']) AS x)`,
    params.values,
  );
  expect(Number(found)).toBe(1);
  expect(new Params().add('Array(UInt32)', [])).toBe('{p0:Array(UInt32)}');
});
