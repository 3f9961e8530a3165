/** The official client, over HTTP, with the settings that our guarantees need. */
import {
  type ClickHouseClient,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client';

export interface ClickHouseServer {
  readonly url: string;
  readonly database: string;
  readonly username: string;
  readonly password: string;
  /** Empty: one server. */
  readonly cluster: string;
  readonly replicated: boolean;
  readonly requestTimeoutMs: number;
  readonly maxOpenConnections: number;
}

export function openClickHouseClient(server: ClickHouseServer): ClickHouseClient {
  const { url, database, username, password, requestTimeoutMs, maxOpenConnections } = server;
  return createClient({
    url,
    database,
    username,
    password,
    application: 'clickledger',
    request_timeout: requestTimeoutMs,
    max_open_connections: maxOpenConnections,
    compression: { request: true, response: true },
    // A list of thousands of ads does not fit into a URL.
    use_multipart_params_auto: true,
    clickhouse_settings: settingsOf(server),
    // Whoever called is told; that is where it is logged.
    log: { level: ClickHouseLogLevel.OFF },
  });
}

/** Live rows are not worth waiting for a second replica: the next second writes them again. */
export const LIVE_SETTINGS: ClickHouseSettings = { insert_quorum: '0' };

export function settingsOf(server: ClickHouseServer): ClickHouseSettings {
  const timeoutS = Math.max(1, Math.floor(server.requestTimeoutMs / 1000));
  /** The server gives up first, so that its reason is what we hear. */
  const soonerS = Math.max(1, timeoutS - 5);
  return {
    // An answer means: written, and to the tables, not to a buffer.
    async_insert: 0,
    // An error comes as an error, never at the end of half an answer.
    wait_end_of_query: 1,
    cancel_http_readonly_queries_on_client_close: 1,
    insert_deduplicate: 0,
    ...(server.cluster === '' ? {} : clusterSettings(soonerS)),
    ...(server.replicated ? replicaSettings(soonerS) : {}),
  };
}

function clusterSettings(timeoutS: number): ClickHouseSettings {
  return {
    // The shards have the rows when the insert is answered.
    distributed_foreground_insert: 1,
    // The sums of a day are made of all shards' rows, then sharded.
    parallel_distributed_insert_select: '0',
    // A shard that is away is an error, never fewer clicks.
    skip_unavailable_shards: 0,
    // A replica that is minutes behind does not answer at all, also when no other can.
    fallback_to_stale_replicas_for_distributed_queries: 0,
    distributed_ddl_task_timeout: String(timeoutS),
  };
}

function replicaSettings(timeoutS: number): ClickHouseSettings {
  return {
    insert_quorum: 'auto',
    // One quorum insert of a table after the other: only so can a replica know that it has all of them.
    insert_quorum_parallel: 0,
    insert_quorum_timeout: timeoutS * 1000,
    select_sequential_consistency: '1',
    // ALTER and TRUNCATE are answered when every replica has done it: after `reset` none shows old rows.
    alter_sync: '2',
  };
}
