/** The warehouse of one machine: the common SQL on ClickHouse inside this process. */
import { type Clock, systemClock } from '../../platform/clock.ts';
import type { Warehouse } from '../port.ts';
import type { TtlDays } from '../sql/schema.ts';
import { IN_PROCESS, SqlWarehouse } from '../sql-warehouse.ts';
import { closeChdbClient, openChdbClient } from './client.ts';

export interface ChdbWarehouseOptions extends TtlDays {
  /** The data directory; no other process may have it open. */
  readonly path: string;
  /** Decides which rows count as expired; the engine itself expires by the machine's clock. */
  readonly clock?: Clock;
}

/** Opens and migrates. */
export async function openChdbWarehouse(options: ChdbWarehouseOptions): Promise<Warehouse> {
  const client = openChdbClient(options.path);
  const warehouse = new SqlWarehouse({
    ...IN_PROCESS,
    client,
    ttl: options,
    clock: options.clock ?? systemClock,
    close: () => closeChdbClient(client),
  });
  try {
    await warehouse.migrate();
  } catch (error) {
    await warehouse.close();
    throw error;
  }
  return warehouse;
}
