/**
 * Every setting of the product, with its default and its limits, in one place.
 *
 * Durations are in milliseconds and end in `Ms`, sizes in bytes and end in `Bytes`. A setting that
 * is not listed here does not exist: unknown keys are refused. The descriptions are the text of
 * `docs/configuration.md`; how settings must relate to each other is in `relations.ts`.
 */
import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { kafkaSettings } from './kafka.ts';
import { DAY_MS, HOUR_MS, ms, port, postgresTls } from './pieces.ts';
import { controlSettings, roleSettings } from './roles.ts';

declare module 'zod' {
  interface GlobalMeta {
    /** Said in the documentation in place of a default that depends on the machine. */
    defaultText?: string;
    /** Never printed, wherever it came from. */
    secret?: boolean;
  }
}

/** Half the cores take clicks, the rest count and answer; one of each at the least. */
const defaultClickWorkers = Math.max(1, Math.min(8, Math.floor(availableParallelism() / 2)));

/** The bucket that holds the archive; what it means is in docs/operating/archive-on-s3.md. */
const archiveBucket = z
  .strictObject({
    bucket: z
      .string()
      .regex(/^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$/)
      .default('')
      .describe('Name of the bucket. It must exist. Credentials come from the `AWS_*` variables.'),
    prefix: z
      .string()
      .max(400)
      .regex(/^([A-Za-z0-9_=-][A-Za-z0-9._=-]*(\/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*)?$/)
      .default('')
      .describe(
        'Folder in the bucket, without a slash at its ends. It must belong to this archive alone; empty: the whole bucket does.',
      ),
    endpoint: z
      .string()
      .regex(/^(https?:\/\/\S+)?$/)
      .default('')
      .describe('URL of a server that speaks S3; empty: `AWS_ENDPOINT_URL`, or AWS itself.'),
    region: z
      .string()
      .regex(/^[a-z0-9-]*$/)
      .default('')
      .describe('Region of the bucket; empty: `AWS_REGION` or the AWS profile.'),
    forcePathStyle: z
      .boolean()
      .default(false)
      .describe(
        'Name the bucket in the path instead of the host name, as most servers other than AWS need it.',
      ),
    conditionalPut: z
      .boolean()
      .default(true)
      .describe(
        'Let the server refuse to overwrite (`If-None-Match`). False, for servers that cannot: look first, then write. Weaker: two archivers at once could overwrite each other.',
      ),
  })
  .prefault({});

/** The server that holds the warehouse; more in docs/operating/clickhouse.md. */
const clickHouseServer = z
  .strictObject({
    url: z
      .string()
      .regex(/^https?:\/\/[^\s@?#]+$/)
      .default('http://localhost:8123')
      .describe('HTTP interface of the server, or of a balancer before its replicas.'),
    database: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/)
      .default('clickledger')
      .describe('Database of the tables. It must exist, and belong to this ledger alone.'),
    username: z.string().min(1).default('clickledger').describe('User of the server.'),
    password: z.string().default('').meta({
      secret: true,
      description:
        'Password of the user. Never printed. `CLICKHOUSE_PASSWORD` is short for its variable.',
    }),
    cluster: z
      .string()
      .regex(/^[A-Za-z0-9_.-]*$/)
      .default('')
      .describe(
        'Name of the cluster, as `remote_servers` of the servers has it: tables are made on all its nodes, and rows spread over its shards. Empty: no cluster.',
      ),
    replicated: z
      .boolean()
      .default(false)
      .describe('Make replicated tables; the servers need Keeper and the usual macros.'),
    requestTimeoutMs: ms(10_000, HOUR_MS)
      .default(60_000)
      .describe('A request that is not answered after this time has failed.'),
    maxOpenConnections: z
      .int()
      .min(2)
      .max(1_000)
      .default(10)
      .describe('Most connections to the server at once.'),
  })
  .prefault({});

const columnName = (name: string) => z.string().max(63).default(name);

/** The ads table of another system; what it means is in docs/operating/catalog-from-postgresql.md. */
const adsTable = z
  .strictObject({
    url: z
      .string()
      .regex(/^(postgres(ql)?:\/\/\S+)?$/)
      .default('')
      .meta({
        description: 'Where the database is, e.g. `postgres://clickledger@db:5432/ads`.',
        // A password stands in it.
        secret: true,
      }),
    table: z
      .string()
      .max(200)
      .default('ads')
      .describe('Table or view of the ads, e.g. `public.ads`; taken as it is written.'),
    query: z
      .string()
      .max(20_000)
      .default('')
      .describe('A `SELECT` to read in place of `table`, for joins and renaming.'),
    pollMs: ms(100, HOUR_MS).default(2_000).describe('How often changes are asked for.'),
    overlapMs: ms(0, DAY_MS)
      .default(60_000)
      .describe(
        'How long the ads system may take from setting `updated_at` to its commit, differences between its clocks included.',
      ),
    fullReloadMs: ms(1_000, 30 * DAY_MS)
      .default(6 * HOUR_MS)
      .describe('How often the whole table is compared; it finds what changes do not tell.'),
    maxRemovedShare: z
      .number()
      .min(0)
      .max(1)
      .default(0.2)
      .describe(
        'A comparison that would remove more than this share of the ads removes none (up to 100 it always does).',
      ),
    timeoutMs: ms(1_000, HOUR_MS).default(30_000).describe('Longest time of one query.'),
    channel: z
      .string()
      .max(63)
      .default('')
      .describe('A channel that the ads system notifies after changes (`LISTEN`); empty: none.'),
    ...postgresTls,
    columns: z
      .strictObject({
        adId: columnName('ad_id').describe('Primary key.'),
        advertiserId: columnName('advertiser_id').describe('Advertiser of the ad.'),
        campaignId: columnName('campaign_id').describe('Campaign of the ad.'),
        targetUrl: columnName('target_url').describe('Where clicks go.'),
        passQuery: columnName('').describe(
          'Whether other parameters of a click are passed on; empty: never.',
        ),
        updatedAt: columnName('updated_at').describe('Set by every change, `timestamptz`.'),
        deletedAt: columnName('').describe('An ad with a value here is removed; empty: no such.'),
        active: columnName('').describe(
          'An ad without `true` here is removed, `boolean`; empty: no such.',
        ),
      })
      .prefault({}),
  })
  .prefault({});

export const configSchema = z.strictObject({
  dataDir: z
    .string()
    .min(1)
    .default('./data')
    .describe('Everything the product stores lies below this folder.'),
  click: z
    .strictObject({
      port: port
        .default(8080)
        .describe('Port that takes clicks; all workers share it. 0 picks a free one.'),
      host: z.string().default('0.0.0.0').describe('Address that the click port listens on.'),
      workers: z.int().min(1).max(64).default(defaultClickWorkers).meta({
        description: 'Click processes. Each writes its own log partition.',
        defaultText: 'half the cores, at least 1, at most 8',
      }),
      maxUrlBytes: z
        .int()
        .min(512)
        .max(16_384)
        .default(8_192)
        .describe('Longest request target (path and query) that is parsed; longer ones get 414.'),
      trustedProxies: z
        .int()
        .min(0)
        .max(10)
        .default(0)
        .describe(
          "How many proxies in front append to X-Forwarded-For; 0 uses the peer's address.",
        ),
      countryHeader: z
        .string()
        .regex(/^[a-z0-9-]*$/)
        .default('')
        .describe(
          "A CDN's header that names the client's country, e.g. `cf-ipcountry`; empty: use the address.",
        ),
      addressHeader: z
        .string()
        .regex(/^[a-z0-9-]*$/)
        .default('')
        .describe(
          "A CDN's header that names the client's address; empty: peer or X-Forwarded-For.",
        ),
      storeAddress: z
        .enum(['whole', 'truncated', 'none'])
        .default('truncated')
        .describe(
          'How much of the client address the log and the archive keep. Truncated keeps the network, not the host.',
        ),
      onLogFailure: z
        .enum(['refuse', 'redirect'])
        .default('refuse')
        .describe(
          'When nothing durable can be written: refuse with 503, or redirect and count what was given away.',
        ),
      maxPending: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(20_000)
        .describe('Most clicks that wait for the disk before new ones get 503.'),
      drainMs: ms(0, 60_000)
        .default(5_000)
        .describe('How long a stopping worker finishes requests that it has taken.'),
    })
    .prefault({}),
  log: z
    .strictObject({
      segmentBytes: z
        .int()
        .min(65_536)
        .max(1 << 30)
        .default(64 * 1024 * 1024)
        .describe('A segment file of the click log is closed at this size.'),
      retentionMs: ms(0, 400 * DAY_MS)
        .default(48 * HOUR_MS)
        .describe('A segment younger than this is kept even when counted and archived.'),
      kind: z
        .enum(['disk', 'kafka'])
        .default('disk')
        .describe('Where clicks are logged: files below `data_dir`, or a topic (`log.kafka`).'),
      kafka: kafkaSettings,
    })
    .prefault({}),
  api: z
    .strictObject({
      port: port
        .default(8081)
        .describe('Port of the metrics API and the console. 0 picks a free one.'),
      host: z.string().default('0.0.0.0').describe('Address that the API port listens on.'),
      maxRows: z
        .int()
        .min(1)
        .max(100_000)
        .default(10_000)
        .describe('Most rows of one answer page.'),
      maxAdIds: z.int().min(1).max(100_000).default(10_000).describe('Most ad ids of one query.'),
      rateLimitPerMinute: z
        .int()
        .min(0)
        .max(1_000_000)
        .default(600)
        .describe('Requests of one token a minute, and at once; beyond it 429. 0: no limit.'),
    })
    .prefault({}),
  catalog: z
    .strictObject({
      kind: z
        .enum(['local', 'postgres'])
        .default('local')
        .describe(
          'Where ads come from: imports into this data folder, or another system’s table (`[catalog.postgres]`).',
        ),
      postgres: adsTable,
    })
    .prefault({}),
  counting: z
    .strictObject({
      dedupWindowMs: ms(60_000, 30 * DAY_MS)
        .default(DAY_MS)
        .describe(
          'A second click on an impression within this time is a duplicate, in the stream.',
        ),
      watermarkLagMs: ms(0, HOUR_MS)
        .default(10_000)
        .describe('How far the watermark trails the largest clicked_at seen.'),
      latenessMs: ms(0, DAY_MS)
        .default(5 * 60_000)
        .describe('How long after its end a minute still takes clicks in the stream.'),
      maxSkewMs: ms(0, DAY_MS)
        .default(10 * 60_000)
        .describe('A click this much newer than its own append is a dead letter, not a count.'),
      maxClaims: z
        .int()
        .min(1_000)
        .max(250_000_000)
        .default(200_000_000)
        .describe(
          'Most impressions remembered at once (28 bytes each); beyond it the oldest are forgotten, and counted.',
        ),
    })
    .prefault({}),
  counter: z
    .strictObject({
      workers: z
        .int()
        .min(1)
        .max(64)
        .default(1)
        .describe(
          'Counter processes that `up` starts when roles run on their own (`control.kind`).',
        ),
      upsertIntervalMs: ms(50, 60_000)
        .default(1_000)
        .describe('How often changed rows go to the warehouse.'),
      commitRecords: z
        .int()
        .min(1)
        .max(10_000_000)
        .default(200_000)
        .describe('Most records between two commits of the state.'),
      maxHeldRows: z
        .int()
        .min(1_000)
        .max(50_000_000)
        .default(2_000_000)
        .describe('Most rows held while the warehouse does not take them; then counting waits.'),
    })
    .prefault({}),
  archive: z
    .strictObject({
      rotateMs: ms(100, DAY_MS)
        .default(5 * 60_000)
        .describe('Records are written out after this time at the latest.'),
      rotateRecords: z
        .int()
        .min(1)
        .max(5_000_000)
        .default(500_000)
        .describe('… or when so many have come together.'),
      kind: z
        .enum(['folder', 's3'])
        .default('folder')
        .describe('Where the archive is: a folder below `data_dir`, or a bucket (`archive.s3`).'),
      s3: archiveBucket,
    })
    .prefault({}),
  warehouse: z
    .strictObject({
      kind: z
        .enum(['chdb', 'clickhouse'])
        .default('chdb')
        .describe(
          'Where the counted rows are: in this process, below `data_dir`, or on a server (section `[warehouse.clickhouse]`).',
        ),
      clickhouse: clickHouseServer,
    })
    .prefault({}),
  reconcile: z
    .strictObject({
      delayMs: ms(0, 7 * DAY_MS)
        .default(2 * HOUR_MS)
        .describe('An hour is recounted this long after its end and lateness.'),
      lookbackMs: ms(HOUR_MS, 60 * DAY_MS)
        .default(7 * DAY_MS)
        .describe('How far back the recount looks for an earlier click on the same impression.'),
      // Less than minute rows are kept: a restatement compares minute with minute.
      verdictReachMs: ms(HOUR_MS, 89 * DAY_MS)
        .default(62 * DAY_MS)
        .describe(
          'How far before the last final hour verdicts still change numbers; impressions are indexed for that long (12 bytes each).',
        ),
      driftAlert: z
        .number()
        .min(0)
        .max(1)
        .default(0.001)
        .describe('Live against final beyond this share raises the drift alert.'),
      intervalMs: ms(100, HOUR_MS)
        .default(30_000)
        .describe('How often closed hours are looked for.'),
    })
    .prefault({}),
  telemetry: z
    .strictObject({
      otlpUrl: z
        .string()
        .regex(/^(https?:\/\/\S+)?$/)
        .default('')
        .describe(
          'Where traces of clicks are sent, as OTLP over HTTP, e.g. `http://localhost:4318`; empty: none are made.',
        ),
      sampleRatio: z
        .number()
        .min(0)
        .max(1)
        .default(0.001)
        .describe('Share of the impressions whose clicks are traced.'),
    })
    .prefault({}),
  webhooks: z
    .strictObject({
      allowPrivate: z
        .boolean()
        .default(true)
        .describe(
          'Whether events may be sent to addresses that are not public; false when others than the operators of this network have admin tokens.',
        ),
      timeoutMs: ms(100, 60_000)
        .default(10_000)
        .describe('How long a receiver has to answer one attempt.'),
      maxAttempts: z
        .int()
        .min(1)
        .max(1_000)
        .default(50)
        .describe('An event that failed so often is given up.'),
      giveUpAfterMs: ms(0, 30 * DAY_MS)
        .default(DAY_MS)
        .describe('… or when the next attempt would be this long after the event.'),
    })
    .prefault({}),
  role: roleSettings,
  control: controlSettings,
  clockOffsetMs: z
    .int()
    .min(-400 * DAY_MS)
    .max(400 * DAY_MS)
    .default(0)
    .describe(
      'Runs every clock ahead by this much. Only for demonstrations: it dates real clicks wrongly.',
    ),
  logLevel: z
    .enum(['debug', 'info', 'warn', 'error'])
    .default('info')
    .describe('Least severe messages that are logged.'),
});

export type Config = z.infer<typeof configSchema>;
/** What a file or flags may say: everything optional. */
export type ConfigInput = z.input<typeof configSchema>;
