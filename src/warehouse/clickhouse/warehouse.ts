/**
 * The warehouse of many machines: the common SQL on a ClickHouse server, over HTTP.
 *
 * One ledger writes to a database (S4). A server that is away makes every call fail as
 * `warehouse_unavailable`, which may pass; nothing is kept here for later.
 */
import { type Clock, systemClock } from '../../platform/clock.ts';
import type { Warehouse } from '../port.ts';
import type { TtlDays } from '../sql/schema.ts';
import { SqlWarehouse } from '../sql-warehouse.ts';
import { type ClickHouseServer, LIVE_SETTINGS, openClickHouseClient } from './client.ts';
import { serverError } from './errors.ts';
import { repeating } from './repeat.ts';

export interface ClickHouseWarehouseOptions extends TtlDays {
  readonly server: ClickHouseServer;
  /** Decides which rows count as expired; the server itself expires by its machine's clock. */
  readonly clock?: Clock;
  /** How a failed insert of live rows waits before it is done again. */
  readonly sleep?: (ms: number) => Promise<unknown>;
}

/** Opens and migrates. */
export async function openClickHouseWarehouse(
  options: ClickHouseWarehouseOptions,
): Promise<Warehouse> {
  const { server } = options;
  const client = openClickHouseClient(server);
  const warehouse = new SqlWarehouse({
    client,
    ttl: options,
    clock: options.clock ?? systemClock,
    layout: server,
    toError: serverError,
    live: { settings: LIVE_SETTINGS, repeat: repeating(options.sleep ?? Bun.sleep) },
    close: () => client.close(),
  });
  try {
    await warehouse.migrate();
  } catch (error) {
    await warehouse.close();
    throw error;
  }
  return warehouse;
}
