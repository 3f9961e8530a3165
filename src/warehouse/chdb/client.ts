/**
 * The one place that knows chDB: ClickHouse inside this process, behind the official client.
 *
 * The engine binds one data directory per process; a second client on the same path shares it, on
 * another path the first must be closed before. The client's `connection` hook is called
 * experimental upstream: that is why nothing else imports it.
 */
import {
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
  createClient,
} from '@clickhouse/client';
import { drainPending } from 'chdb';
import { createChdbConnection } from 'chdb/connection';

type Connection = NonNullable<ClickHouseClientConfigOptions['connection']>;

export function openChdbClient(path: string): ClickHouseClient {
  // chDB and the client each bring a copy of the same declarations; private members of one are not
  // assignable to the other.
  const connection = createChdbConnection({ path }) as unknown as Connection;
  return createClient({ connection });
}

/** Returns when the engine has let go of the directory. */
export async function closeChdbClient(client: ClickHouseClient): Promise<void> {
  await client.close();
  await drainPending();
}
