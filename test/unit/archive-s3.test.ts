/** The parts of the S3 store that need no server; against a real one it runs in test/cluster. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { type FailureKind, failureOf, Interrupted } from '../../src/archive/s3/failures.ts';
import { type Listed, list } from '../../src/archive/s3/listing.ts';
import { retrying, within } from '../../src/archive/s3/retry.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { fcParams } from '../support/seed.ts';

interface Told {
  readonly name?: string;
  readonly status?: number;
  readonly code?: string;
  readonly message?: string;
}

function errorOf({ name, status, code, message = 'told' }: Told): Error {
  const metadata = status === undefined ? {} : { $metadata: { httpStatusCode: status } };
  return Object.assign(new Error(message), metadata, name && { name }, code && { code });
}

describe('what an error of the client means', () => {
  const cases: readonly [FailureKind, Told][] = [
    ['passing', { name: 'InternalError', status: 500 }],
    ['passing', { name: 'SlowDown', status: 503 }],
    ['passing', { name: 'Unknown', status: 429 }],
    ['passing', { name: 'RequestTimeout', status: 400 }],
    ['passing', { name: 'RequestTimeTooSkewed', status: 403 }],
    ['passing', { name: 'BadDigest', status: 400 }],
    ['passing', { name: 'ConditionalRequestConflict', status: 409 }],
    ['passing', { name: 'InternalError', status: 200 }],
    ['passing', { code: 'ECONNRESET' }],
    ['passing', { name: 'DNSException', code: 'ENOTFOUND' }],
    ['passing', { name: 'AbortError' }],
    ['exists', { name: 'PreconditionFailed', status: 412 }],
    ['missing', { name: 'NoSuchKey', status: 404 }],
    ['missing', { name: 'NotFound', status: 404 }],
    ['no_upload', { name: 'NoSuchUpload', status: 404 }],
    ['unsupported', { name: 'NotImplemented', status: 501 }],
    // Not "missing": the objects may all be there.
    ['refused', { name: 'NoSuchBucket', status: 404 }],
    ['refused', { name: 'Unknown', status: 404 }],
    ['refused', { name: 'AccessDenied', status: 403 }],
    ['refused', { name: 'PermanentRedirect', status: 301 }],
    ['refused', { name: 'CredentialsProviderError' }],
    ['refused', { message: 'Region is missing' }],
  ];
  for (const [kind, told] of cases) {
    test(`${told.name ?? told.code ?? told.message} (${told.status ?? 'no answer'}) is ${kind}`, () => {
      expect(failureOf(errorOf(told))?.kind).toBe(kind);
    });
  }

  test('a bug stays a bug, and an error of ours stays ours', () => {
    expect(failureOf(new TypeError('x is not a function'))).toBeNull();
    expect(failureOf(new LedgerError('object_differs', 'differs'))).toBeNull();
    expect(failureOf('text')).toBeNull();
  });
});

describe('attempts', () => {
  test('what does not pass is not tried again', async () => {
    let attempts = 0;
    const policy = { maxAttempts: 5, maxElapsedMs: 1_000, baseDelayMs: 1, maxDelayMs: 1 };
    const work = retrying(
      { ...policy, random: () => 0, sleep: async () => {} },
      (error) => error instanceof Interrupted,
      async () => {
        attempts++;
        throw attempts < 3 ? new Interrupted('again') : new Error('no');
      },
    );
    await expect(work).rejects.toThrow('no');
    expect(attempts).toBe(3);
  });

  test('an attempt that hangs is given up and told so, and one that was extended is not', async () => {
    let wasAborted = false;
    const hanging = within(5, ({ signal }) => {
      signal.addEventListener('abort', () => {
        wasAborted = true;
      });
      return new Promise<never>(() => {});
    });
    await expect(hanging).rejects.toBeInstanceOf(Interrupted);
    expect(wasAborted).toBe(true);
    const extended = within(1, async ({ extend }) => {
      extend(60_000);
      await Bun.sleep(10);
      return 'done';
    });
    expect(await extended).toBe('done');
  });
});

/**
 * A server that keeps folders lists `b/…` where `b` belongs, and starts there too; others list whole
 * keys in byte order. One that does not know `StartAfter` begins at the beginning.
 */
function serverOf(
  keys: readonly string[],
  { keepsFolders, knowsStart = true }: { keepsFolders: boolean; knowsStart?: boolean },
): Listed['bucket'] {
  const pageSize = 3;
  // A slash sorts before everything else where folders are kept.
  const rank = (key: string) => (keepsFolders ? key.replaceAll('/', '\0') : key);
  const sorted = [...keys].sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  return {
    async list(prefix, atSlash, from) {
      const entries = new Set<string>();
      for (const key of sorted.filter((each) => each.startsWith(prefix))) {
        const slash = atSlash ? key.indexOf('/', prefix.length) : -1;
        entries.add(slash < 0 ? key : key.slice(0, slash + 1));
      }
      const isFolder = (entry: string) => atSlash && entry.endsWith('/');
      // A folder is compared by its name alone where folders are kept.
      const nameOf = (entry: string) =>
        rank(keepsFolders && isFolder(entry) ? entry.slice(0, -1) : entry);
      const start = 'page' in from ? from.page : knowsStart ? rank(from.key) : '';
      const left = [...entries].filter((entry) => nameOf(entry) > start);
      const page = left.slice(0, pageSize);
      return {
        objects: page.filter((entry) => !isFolder(entry)).map((key) => ({ key, sizeBytes: 1 })),
        folders: page.filter(isFolder),
        next: left.length > pageSize ? nameOf(page.at(-1)!) : null,
      };
    },
  };
}

async function namesIn(listed: Listed, prefix: string, after?: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of list(listed, prefix, after)) names.push(name);
  return names;
}

describe('a listing', () => {
  test('is in byte order of whole names, however the server sorts, starts and pages', async () => {
    const segment = fc.constantFrom('a', 'b', 'b-c', 'b.d', 'b0', 'B', 'dt=1');
    const name = fc.array(segment, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));
    const after = fc.oneof(fc.constant(''), name, fc.constantFrom('a/', 'b', 'b/b~', 'a/b-'));
    const names = fc.uniqueArray(name, { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(names, name, after, fc.nat(), async (all, other, start, cut) => {
        // No server keeps an object and a folder of one name apart.
        const kept = all.filter((each) => !all.some((longer) => longer.startsWith(`${each}/`)));
        const keys = [...kept.map((each) => `root/${each}`), 'root/.clickledger/probe', 'root2/a'];
        const prefix = other.slice(0, cut % (other.length + 1));
        const wanted = kept.filter((each) => each.startsWith(prefix) && each > start).sort();
        for (const keepsFolders of [false, true]) {
          for (const knowsStart of [true, false]) {
            const bucket = serverOf(keys, { keepsFolders, knowsStart });
            const listed = { bucket, root: 'root/', inByteOrder: !keepsFolders };
            expect(await namesIn(listed, prefix, start)).toEqual(wanted);
          }
        }
      }),
      fcParams(1_000),
    );
  });

  test('that starts behind a name asks for the rest of its folder alone', async () => {
    const keys = Array.from({ length: 100 }, (_, i) => `m/p1/${100 + i}.json`);
    for (const keepsFolders of [false, true]) {
      let requests = 0;
      const server = serverOf(keys, { keepsFolders });
      const counting: Listed['bucket'] = {
        list: (...args) => {
          requests++;
          return server.list(...args);
        },
      };
      const listed = { bucket: counting, root: '', inByteOrder: !keepsFolders };
      expect(await namesIn(listed, 'm/p1/', 'm/p1/198')).toEqual([
        'm/p1/198.json',
        'm/p1/199.json',
      ]);
      expect(requests).toBeLessThan(6);
    }
  });

  test('that comes out of order, or repeats a name, is refused instead of believed', async () => {
    const bucket = serverOf(['b-c', 'b/1'], { keepsFolders: true });
    const listing = namesIn({ bucket, root: '', inByteOrder: true }, '');
    await expect(listing).rejects.toMatchObject({ code: 'archive_listing' });
    const repeating: Listed['bucket'] = {
      list: async (_, __, from) => ({
        objects: [{ key: 'a', sizeBytes: 1 }],
        folders: [],
        next: 'key' in from ? 'more' : null,
      }),
    };
    const repeated = namesIn({ bucket: repeating, root: '', inByteOrder: true }, '');
    await expect(repeated).rejects.toMatchObject({ code: 'archive_listing' });
  });
});
