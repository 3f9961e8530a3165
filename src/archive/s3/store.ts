/**
 * The archive's objects as objects of one bucket.
 *
 * Owns the keys below its prefix. Does not own what they mean: names and contents come from the
 * archiver.
 *
 *  1. A key appears only with its whole content: one conditional put, or the completion of an
 *     upload in parts. A put that was interrupted leaves nothing, or all of it.
 *  2. A key is never overwritten: the server refuses (`If-None-Match: *`), which is tried out when the
 *     store is opened. Two processes that put one name at the same moment may still overwrite each
 *     other without `conditionalPut`, where it is looked up first, and in parts on servers that look
 *     first themselves (SeaweedFS 4.48 does). Within one process the first one wins, always.
 *  3. When `putIfAbsent` returns, the server has acknowledged these bytes under this key. A put whose
 *     answer was lost is sent again, finds the key taken, and compares.
 *
 * One thing no client can rule out: a put that was given up, and is still on its way when its name is
 * removed, brings the old bytes back. The archiver removes a name before it is committed only; there
 * the old bytes are found to differ and removed again, or reported by the audit as an orphan.
 */
import { setTimeout as sleepFor } from 'node:timers/promises';
import type { Clock } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import { isObjectName, requireObjectName } from '../object-name.ts';
import type { ListOptions, ObjectInfo, ObjectSource, ObjectStore } from '../port.ts';
import { Bucket } from './bucket.ts';
import { isKind, orUnavailable } from './failures.ts';
import { list } from './listing.ts';
import { look, probe } from './probe.ts';
import type { RetryPolicy } from './retry.ts';
import {
  abortLeftovers,
  LEFTOVER_AGE_MS,
  PART_BYTES,
  type UploadOutcome,
  uploadInParts,
} from './upload.ts';

export interface S3StoreOptions {
  readonly bucket: string;
  /** Without slashes at its ends; empty: the whole bucket. */
  readonly prefix: string;
  readonly endpoint: string;
  readonly region: string;
  readonly forcePathStyle: boolean;
  readonly conditionalPut: boolean;
  readonly clock: Clock;
  /** For the waits between attempts, from 0 to below 1. */
  readonly random: () => number;
  /** Things worth a line in the log that keep nothing from working. */
  readonly onNotice?: (message: string, error: LedgerError | null) => void;
  readonly retry?: Partial<RetryPolicy>;
  readonly attemptTimeoutMs?: number;
  /** Objects up to this size are put with one request. */
  readonly atOnceBytes?: number;
  readonly partBytes?: number;
}

const RETRY = { maxAttempts: 8, maxElapsedMs: 60_000, baseDelayMs: 100, maxDelayMs: 5_000 };
const ATTEMPT_TIMEOUT_MS = 20_000;
/** How often a key may be taken when written and gone when looked at. */
const MAX_VANISHED = 5;

export async function openS3Store(options: S3StoreOptions): Promise<ObjectStore> {
  const { conditionalPut, clock, onNotice } = options;
  const { bucket, root } = placeOf(options);
  const { inByteOrder } = await probe({ bucket, root, conditionalPut });
  const store = storeOf(options, { bucket, root, inByteOrder });
  try {
    const aborted = await orUnavailable('unfinished uploads', () =>
      abortLeftovers(bucket, (key) => isObjectName(key.slice(root.length)), {
        prefix: root,
        beforeMs: clock() - LEFTOVER_AGE_MS,
      }),
    );
    if (aborted > 0) onNotice?.(`aborted ${aborted} unfinished uploads to the archive`, null);
  } catch (error) {
    // They cost storage and nothing else: no reason not to start.
    if (!(error instanceof LedgerError)) throw error;
    onNotice?.('unfinished uploads to the archive cannot be cleaned up', error);
  }
  return store;
}

/** For reading alone: nothing is written, not even to find out what the server can do. */
export async function openS3Source(options: S3StoreOptions): Promise<ObjectSource> {
  const place = placeOf(options);
  const { inByteOrder } = await look(place);
  return storeOf(options, { ...place, inByteOrder });
}

interface Place {
  readonly bucket: Bucket;
  readonly root: string;
}

function placeOf(options: S3StoreOptions): Place {
  const retry = { ...RETRY, random: options.random, sleep: sleepFor, ...options.retry };
  const attemptTimeoutMs = options.attemptTimeoutMs ?? ATTEMPT_TIMEOUT_MS;
  const bucket = new Bucket({ ...options, retry, attemptTimeoutMs });
  return { bucket, root: options.prefix === '' ? '' : `${options.prefix}/` };
}

function storeOf(
  { conditionalPut, partBytes = PART_BYTES, atOnceBytes = PART_BYTES }: S3StoreOptions,
  place: Place & { readonly inByteOrder: boolean },
): S3Store {
  return new S3Store({ ...place, conditionalPut, partBytes, atOnceBytes });
}

interface Parts extends Place {
  readonly inByteOrder: boolean;
  readonly conditionalPut: boolean;
  readonly atOnceBytes: number;
  readonly partBytes: number;
}

class S3Store implements ObjectStore {
  readonly #parts: Parts;
  /** Puts in progress by name, of those that the server may not keep apart. */
  readonly #putting = new Map<string, Promise<void>>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async putIfAbsent(name: string, bytes: Uint8Array): Promise<void> {
    const key = this.#key(name);
    const put = () => orUnavailable(`put ${name}`, () => this.#putOrCompare(name, key, bytes));
    const { conditionalPut, atOnceBytes } = this.#parts;
    await (conditionalPut && bytes.length <= atOnceBytes ? put() : this.#inTurn(name, put));
  }

  async get(name: string): Promise<Uint8Array | null> {
    const key = this.#key(name);
    return orUnavailable(`get ${name}`, () => this.#parts.bucket.get(key));
  }

  async *list(prefix: string, { after }: ListOptions = {}): AsyncGenerator<ObjectInfo> {
    const names = list(this.#parts, prefix, after);
    for (;;) {
      const next = await orUnavailable(`list ${prefix}`, () => names.next());
      if (next.done === true) return;
      yield next.value;
    }
  }

  async remove(name: string): Promise<void> {
    const key = this.#key(name);
    await orUnavailable(`remove ${name}`, async () => {
      const { bucket } = this.#parts;
      // A removal may arrive after it was given up and sent again. By then the archiver may have put
      // the name anew with other bytes, and those must stay.
      const tag = await bucket.tagOf(key);
      if (tag !== null) await bucket.remove(key, tag);
    });
  }

  #key(name: string): string {
    requireObjectName(name);
    return this.#parts.root + name;
  }

  async #putOrCompare(name: string, key: string, bytes: Uint8Array): Promise<void> {
    for (let attempt = 0; attempt < MAX_VANISHED; attempt++) {
      if ((await this.#put(key, bytes)) === 'stored') return;
      const existing = await this.#parts.bucket.get(key);
      if (existing === null) continue;
      if (Buffer.compare(existing, bytes) === 0) return;
      throw new LedgerError(
        'object_differs',
        `archive object ${name} exists with other bytes (${existing.length}, not ${bytes.length} long)`,
        {
          hint: 'Objects never change. Is another archiver writing to the same bucket and prefix?',
        },
      );
    }
    throw new LedgerError('archive_unavailable', `archive: put ${name}: it comes and goes`, {
      kind: 'retry',
      hint: 'Somebody removes it as it is written. Is another archiver using this bucket and prefix?',
    });
  }

  async #put(key: string, bytes: Uint8Array): Promise<UploadOutcome> {
    const { bucket, conditionalPut: ifAbsent, atOnceBytes, partBytes } = this.#parts;
    if (!ifAbsent && (await bucket.tagOf(key)) !== null) return 'exists';
    if (bytes.length > atOnceBytes) {
      return uploadInParts(bucket, { key, bytes, partBytes, ifAbsent });
    }
    try {
      await bucket.put(key, bytes, ifAbsent);
      return 'stored';
    } catch (error) {
      if (isKind(error, 'exists')) return 'exists';
      throw error;
    }
  }

  /** One after the other for one name. */
  async #inTurn(name: string, put: () => Promise<void>): Promise<void> {
    const before = this.#putting.get(name) ?? Promise.resolve();
    const mine = before.then(put, put);
    this.#putting.set(name, mine);
    try {
      await mine;
    } finally {
      if (this.#putting.get(name) === mine) this.#putting.delete(name);
    }
  }
}
