/**
 * Every setting of the product, with its default and its limits, in one place.
 *
 * Durations are in milliseconds and end in `Ms`, sizes in bytes and end in `Bytes`. A setting that
 * is not listed here does not exist: unknown keys are refused. The descriptions are the text of
 * `docs/configuration.md`; how settings must relate to each other is in `relations.ts`.
 */
import { availableParallelism } from 'node:os';
import { z } from 'zod';

const port = z.int().min(0).max(65535);
const ms = (min: number, max: number) => z.int().min(min).max(max);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

declare module 'zod' {
  interface GlobalMeta {
    /** Said in the documentation in place of a default that depends on the machine. */
    defaultText?: string;
  }
}

/** Half the cores take clicks, the rest count and answer; one of each at the least. */
const defaultClickWorkers = Math.max(1, Math.min(8, Math.floor(availableParallelism() / 2)));

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
