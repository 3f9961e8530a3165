/** Opens the warehouse that the configuration names. Nobody else chooses between its adapters. */
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import type { Warehouse } from '../warehouse/port.ts';
import type { TtlDays } from '../warehouse/sql/schema.ts';

/** Opens and migrates. Each adapter is loaded when it is used: an engine in the process is half a gigabyte. */
export async function openWarehouse(
  config: Pick<Config, 'warehouse' | 'dataDir'>,
  ttl: TtlDays,
): Promise<Warehouse> {
  const { kind, clickhouse } = config.warehouse;
  if (kind === 'clickhouse') {
    const { openClickHouseWarehouse } = await import('../warehouse/clickhouse/warehouse.ts');
    return openClickHouseWarehouse({ server: clickhouse, ...ttl });
  }
  const { openChdbWarehouse } = await import('../warehouse/chdb/warehouse.ts');
  return openChdbWarehouse({ path: dataPaths(config.dataDir).warehouse, ...ttl });
}
