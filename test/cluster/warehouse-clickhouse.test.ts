/**
 * The warehouse on a ClickHouse server under the suite of all warehouses: through the real client, over
 * HTTP, against the engine behind a test server (what that one is not, its head says).
 */
import { createClient } from '@clickhouse/client';
import { openClickHouseWarehouse } from '../../src/warehouse/clickhouse/warehouse.ts';
import { type WarehouseHarness, warehouseSuite } from '../conformance/warehouse-suite.ts';
import { TestClickHouse } from '../support/clickhouse-server.ts';

const LAYOUTS = {
  'ClickHouse over HTTP': { cluster: '', replicated: false },
  'ClickHouse over HTTP, Distributed tables of a cluster': { cluster: 'one', replicated: true },
};

for (const [name, layout] of Object.entries(LAYOUTS)) {
  warehouseSuite(name, async () => {
    const server = await TestClickHouse.start();
    const options = { server: server.options(layout), minuteTtlDays: 0, hourTtlDays: 0 };
    const { url, username, password, database } = options.server;
    const client = createClient({ url, username, password, database });
    const harness: WarehouseHarness = {
      warehouse: await openClickHouseWarehouse(options),
      reopen: async () => {
        await harness.warehouse.close();
        await server.crash();
        await server.start();
        harness.warehouse = await openClickHouseWarehouse(options);
      },
      scalar: async (query) => {
        if (/^(INSERT|TRUNCATE)/.test(query)) {
          const clickhouse_settings = { distributed_foreground_insert: 1 } as const;
          await client.command({ query, clickhouse_settings });
          return 0;
        }
        const result = await client.query({ query, format: 'JSONCompactEachRow' });
        const [row] = await result.json<[number]>();
        return Number(row![0]);
      },
      dispose: async () => {
        await harness.warehouse.close();
        await client.close();
        await server.dispose();
      },
    };
    return harness;
  });
}
