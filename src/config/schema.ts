/**
 * Every setting of the product, with its default and its limits, in one place.
 *
 * Durations are in milliseconds and end in `Ms`, sizes in bytes and end in `Bytes`. A setting that
 * is not listed here does not exist: unknown keys are refused.
 */
import { availableParallelism } from 'node:os';
import { z } from 'zod';

const port = z.int().min(0).max(65535);
const ms = (min: number, max: number) => z.int().min(min).max(max);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Half the cores take clicks, the rest count and answer; one of each at the least. */
const defaultClickWorkers = Math.max(1, Math.min(8, Math.floor(availableParallelism() / 2)));

export const configSchema = z.strictObject({
  /** Everything the product stores lies below this folder. */
  dataDir: z.string().min(1).default('./data'),
  click: z
    .strictObject({
      port: port.default(8080),
      host: z.string().default('0.0.0.0'),
      workers: z.int().min(1).max(64).default(defaultClickWorkers),
      /** Longest request target (path and query) that is parsed; longer ones get 414. */
      maxUrlBytes: z.int().min(512).max(16_384).default(8_192),
      /** How many proxies in front append to X-Forwarded-For; 0 uses the peer's address. */
      trustedProxies: z.int().min(0).max(10).default(0),
      /** A CDN's header that names the client's country, e.g. `cf-ipcountry`; empty: use the address. */
      countryHeader: z
        .string()
        .regex(/^[a-z0-9-]*$/)
        .default(''),
      /** A CDN's header that names the client's address; empty: peer or X-Forwarded-For. */
      addressHeader: z
        .string()
        .regex(/^[a-z0-9-]*$/)
        .default(''),
      storeAddress: z.enum(['whole', 'truncated', 'none']).default('truncated'),
      /** When nothing durable can be written: refuse with 503, or redirect and count what was given away. */
      onLogFailure: z.enum(['refuse', 'redirect']).default('refuse'),
      /** Most clicks that wait for the disk before new ones get 503. */
      maxPending: z.int().min(1).max(1_000_000).default(20_000),
      /** How long a stopping worker finishes requests that it has taken. */
      drainMs: ms(0, 60_000).default(5_000),
    })
    .prefault({}),
  log: z
    .strictObject({
      segmentBytes: z
        .int()
        .min(65_536)
        .max(1 << 30)
        .default(64 * 1024 * 1024),
      /** A segment younger than this is kept even when counted and archived. */
      retentionMs: ms(0, 400 * DAY_MS).default(48 * HOUR_MS),
    })
    .prefault({}),
  api: z
    .strictObject({
      port: port.default(8081),
      host: z.string().default('0.0.0.0'),
      /** Most rows of one answer page. */
      maxRows: z.int().min(1).max(100_000).default(10_000),
      /** Most ad ids of one query. */
      maxAdIds: z.int().min(1).max(100_000).default(10_000),
    })
    .prefault({}),
  counting: z
    .strictObject({
      /** A second click on an impression within this time is a duplicate, in the stream. */
      dedupWindowMs: ms(60_000, 30 * DAY_MS).default(DAY_MS),
      /** How far the watermark trails the largest clicked_at seen. */
      watermarkLagMs: ms(0, HOUR_MS).default(10_000),
      /** How long after its end a minute still takes clicks in the stream. */
      latenessMs: ms(0, DAY_MS).default(5 * 60_000),
      /** A click this much newer than its own append is a dead letter, not a count. */
      maxSkewMs: ms(0, DAY_MS).default(10 * 60_000),
      /** Most impressions remembered at once (28 bytes each); beyond it the oldest are forgotten, and counted. */
      maxClaims: z.int().min(1_000).max(2_000_000_000).default(200_000_000),
    })
    .prefault({}),
  counter: z
    .strictObject({
      /** How often changed rows go to the warehouse. */
      upsertIntervalMs: ms(50, 60_000).default(1_000),
      /** Most records between two commits of the state. */
      commitRecords: z.int().min(1).max(10_000_000).default(200_000),
      /** Most rows held while the warehouse does not take them; then counting waits. */
      maxHeldRows: z.int().min(1_000).max(50_000_000).default(2_000_000),
    })
    .prefault({}),
  archive: z
    .strictObject({
      /** Records are written out after this time at the latest. */
      rotateMs: ms(100, DAY_MS).default(5 * 60_000),
      /** … or when so many have come together. */
      rotateRecords: z.int().min(1).max(5_000_000).default(500_000),
    })
    .prefault({}),
  reconcile: z
    .strictObject({
      /** An hour is recounted this long after its end and lateness. */
      delayMs: ms(0, 7 * DAY_MS).default(2 * HOUR_MS),
      /** How far back the recount looks for an earlier click on the same impression. */
      lookbackMs: ms(HOUR_MS, 60 * DAY_MS).default(7 * DAY_MS),
      /** Live against final beyond this share raises the drift alert. */
      driftAlert: z.number().min(0).max(1).default(0.001),
      /** How often closed hours are looked for. */
      intervalMs: ms(100, HOUR_MS).default(30_000),
    })
    .prefault({}),
  /** `debug`, `info`, `warn` or `error`. */
  logLevel: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
});

export type Config = z.infer<typeof configSchema>;
/** What a file or flags may say: everything optional. */
export type ConfigInput = z.input<typeof configSchema>;
