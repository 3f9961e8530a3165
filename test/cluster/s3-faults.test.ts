/**
 * The S3 store behind a network that loses answers, breaks connections, comes late and damages bytes.
 * A put must still be all or nothing and exactly once, and a listing complete; what cannot be done is
 * an error to retry, never a wrong answer.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { AbortMultipartUploadCommand, ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import fc from 'fast-check';
import type { ObjectStore } from '../../src/archive/port.ts';
import type { S3StoreOptions } from '../../src/archive/s3/store.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { namesOf } from '../support/archive-fixtures.ts';
import { type Fault, S3FaultProxy } from '../support/s3-fault-proxy.ts';
import { BUCKET, S3World } from '../support/s3-world.ts';
import { fcParams } from '../support/seed.ts';

const ATTEMPT_TIMEOUT_MS = 400;
const LATE_MS = 600;
const MIB = 1024 * 1024;

let world: S3World | undefined;
let proxy: S3FaultProxy;
let prefix: string;

beforeAll(async () => {
  world = await S3World.start();
});
afterAll(() => world?.stop());
beforeEach(async () => {
  proxy = await S3FaultProxy.start(world!.server.port, LATE_MS);
  prefix = world!.freshPrefix();
});
afterEach(() => proxy.stop());

/** Waits are counted, not waited for. */
let waits: number[] = [];
function open(over: Partial<S3StoreOptions> = {}): Promise<ObjectStore> {
  waits = [];
  return world!.open({
    prefix,
    endpoint: proxy.endpoint,
    attemptTimeoutMs: ATTEMPT_TIMEOUT_MS,
    random: () => 1,
    ...over,
    retry: { sleep: async (ms) => void waits.push(ms), ...over.retry },
  });
}

/** Makes the next requests of this kind fail like this. */
function fail(faults: Fault[], method = '', part = ''): void {
  proxy.seen.length = 0;
  proxy.faults = [...faults];
  proxy.applies = (seen) =>
    (method === '' || seen.method === method) && (part === '' || seen.url.includes(part));
}

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text));

async function errorOf(work: Promise<unknown>): Promise<LedgerError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(LedgerError);
  return error as LedgerError;
}

async function openUploads(): Promise<string[]> {
  const command = new ListMultipartUploadsCommand({ Bucket: BUCKET, Prefix: prefix });
  const { Uploads = [] } = await world!.raw.send(command);
  return Uploads.map(({ Key = '' }) => Key);
}

const PUT_FAULTS: Fault[] = [
  ...(['reset', 'answer lost', '500', '503', '429', 'late', 'hangs'] as const),
  ...(['answer cut', 'request damaged', 'stranger'] as const),
];

describe('a put at once', () => {
  for (const fault of PUT_FAULTS) {
    test(`"${fault}" twice: the object is there once, with its bytes`, async () => {
      const store = await open();
      fail([fault, fault], 'PUT');
      await store.putIfAbsent('a/x', bytesOf('the bytes'));
      await proxy.settled();
      expect(Buffer.from((await store.get('a/x'))!).toString()).toBe('the bytes');
      expect(await namesOf(store)).toEqual(['a/x']);
      expect((await errorOf(store.putIfAbsent('a/x', bytesOf('other')))).code).toBe(
        'object_differs',
      );
    });
  }

  test('other bytes are told apart from a retry even when the first answer is lost', async () => {
    const store = await open();
    await store.putIfAbsent('a/x', bytesOf('first'));
    fail(['answer lost', '503'], 'PUT');
    expect((await errorOf(store.putIfAbsent('a/x', bytesOf('second')))).code).toBe(
      'object_differs',
    );
    expect(Buffer.from((await store.get('a/x'))!).toString()).toBe('first');
  });
});

describe('a put in parts', () => {
  const large = new Uint8Array(11 * MIB).map((_, i) => i % 251);
  const inParts = { atOnceBytes: MIB, partBytes: 5 * MIB, attemptTimeoutMs: 5_000 };
  const faults = ['reset', 'answer lost', '500', 'answer cut', 'stranger'] as const;
  for (const [step, method, part] of [
    ['begin', 'POST', 'uploads'],
    ['part', 'PUT', 'partNumber=2'],
    ['complete', 'POST', 'uploadId='],
  ] as const) {
    for (const fault of faults) {
      test(`"${fault}" at its ${step}: the object is there, whole`, async () => {
        const store = await open(inParts);
        fail([fault], method, part);
        await store.putIfAbsent('a/large', large);
        expect(proxy.faults).toEqual([]);
        expect(Buffer.compare((await store.get('a/large'))!, large)).toBe(0);
        expect(await namesOf(store)).toEqual(['a/large']);
      });
    }
  }

  test('a part that cannot be sent ends the upload: no object, and no upload left behind', async () => {
    const store = await open({ ...inParts, retry: { maxAttempts: 2 } });
    fail(['500', '503'], 'PUT', 'partNumber=3');
    const error = await errorOf(store.putIfAbsent('a/large', large));
    expect([error.code, error.kind]).toEqual(['archive_unavailable', 'retry']);
    expect(await store.get('a/large')).toBeNull();
    expect(await openUploads()).toEqual([]);
    await store.putIfAbsent('a/large', large);
    expect((await store.get('a/large'))?.length).toBe(large.length);
  });

  test('an upload that somebody aborts is begun again', async () => {
    const store = await open(inParts);
    const aborted: string[] = [];
    proxy.applies = ({ method, url }) => {
      const uploadId = new URL(url, proxy.endpoint).searchParams.get('uploadId');
      if (method === 'POST' && uploadId !== null && aborted.length === 0) {
        aborted.push(uploadId);
        return true;
      }
      return false;
    };
    // The server is reached only after the upload is gone.
    proxy.faults = ['late'];
    const put = store.putIfAbsent('a/large', large);
    while (aborted.length === 0) await Bun.sleep(5);
    const [UploadId] = aborted;
    const upload = { Bucket: BUCKET, Key: `${prefix}/a/large`, UploadId };
    await world!.raw.send(new AbortMultipartUploadCommand(upload));
    await put;
    expect(Buffer.compare((await store.get('a/large'))!, large)).toBe(0);
    expect(await openUploads()).toEqual([]);
  });
});

describe('reading', () => {
  const faults = ['reset', 'answer lost', '500', '503', '429', 'hangs', 'answer cut'] as const;
  for (const fault of [...faults, 'answer damaged', 'stranger'] as const) {
    test(`"${fault}": the object comes whole or not at all`, async () => {
      const store = await open();
      const bytes = new Uint8Array(100_000).map((_, i) => i % 253);
      await store.putIfAbsent('a/x', bytes);
      fail([fault, fault], 'GET');
      expect(Buffer.compare((await store.get('a/x'))!, bytes)).toBe(0);
      expect(proxy.seen).toHaveLength(3);
    });
  }

  for (const fault of [...faults, 'stranger'] as const) {
    test(`"${fault}" between pages: the listing is complete and in order`, async () => {
      const store = await open();
      const names = Array.from({ length: 7 }, (_, i) => `a/${i}`);
      for (const name of names) await store.putIfAbsent(name, bytesOf(name));
      fail([fault, 'none', fault], 'GET');
      expect(await namesOf(store)).toEqual(names);
    });
  }

  test('an object that is missing is null, a bucket that is missing is an error', async () => {
    const store = await open();
    expect(await store.get('a/none')).toBeNull();
    proxy.applies = () => false;
    const gone = await errorOf(world!.open({ bucket: 'never-made' }));
    expect([gone.code, gone.kind]).toEqual(['archive_refused', 'refuse']);
  });
});

describe('attempts and waits', () => {
  test('waits double up to a bound, and after the last attempt the error is one to retry', async () => {
    const retry = { maxAttempts: 6, baseDelayMs: 100, maxDelayMs: 1_000 };
    const store = await open({ retry });
    fail(Array.from({ length: 20 }, () => '503' as const));
    const error = await errorOf(store.putIfAbsent('a/x', bytesOf('1')));
    expect([error.code, error.kind]).toEqual(['archive_unavailable', 'retry']);
    expect(error.message).toContain('put a/x');
    expect(error.message).toContain('SlowDown (503)');
    expect(error.hint).toBeDefined();
    expect(proxy.seen).toHaveLength(6);
    expect(waits).toEqual([100, 200, 400, 800, 1_000]);
  });

  test('a wait is a random share of its bound', async () => {
    const shares = [0, 0.5, 0.25];
    const store = await open({ random: () => shares.shift() ?? 0, retry: { baseDelayMs: 100 } });
    fail(['500', '500', '500']);
    await store.get('a/none');
    expect(waits).toEqual([0, 100, 100]);
  });

  test('no attempt begins after the time is up', async () => {
    const store = await open({ retry: { maxElapsedMs: 250, baseDelayMs: 100, maxAttempts: 50 } });
    fail(Array.from({ length: 50 }, () => '500' as const));
    expect((await errorOf(store.get('a/x'))).kind).toBe('retry');
    expect(proxy.seen).toHaveLength(3);
  });
});

describe('a removal', () => {
  test('that comes late does not take what was put anew', async () => {
    const store = await open();
    await store.putIfAbsent('a/x', bytesOf('old'));
    fail(['late'], 'DELETE');
    await store.remove('a/x');
    await store.putIfAbsent('a/x', bytesOf('new'));
    await proxy.settled();
    expect(Buffer.from((await store.get('a/x'))!).toString()).toBe('new');
  });
});

test('whatever happens to its requests, a store is what its answers have said', async () => {
  const faults = fc.array(fc.constantFrom<Fault>('none', 'none', ...PUT_FAULTS), { maxLength: 6 });
  const step = fc.record({
    name: fc.constantFrom('a/b/1', 'a/b-c', 'a/c', 'd'),
    action: fc.constantFrom('put', 'put', 'put other', 'remove', 'get', 'list'),
    faults,
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      prefix = world!.freshPrefix();
      fail([]);
      const model = new Map<string, string>();
      // One attempt fails, the caller asks again: both must leave the same as one that worked.
      const store = await open({ retry: { maxAttempts: 2 }, attemptTimeoutMs: 250 });
      for (const [index, { name, action, faults: some }] of steps.entries()) {
        fail(some);
        const content = model.get(name) ?? `${name} as of ${index}`;
        await act(store, model, { name, action, content });
      }
      fail([]);
      await proxy.settled();
      await expectModel(store, model);
    }),
    fcParams(25),
  );
});

async function act(
  store: ObjectStore,
  model: Map<string, string>,
  { name, action, content }: { name: string; action: string; content: string },
): Promise<void> {
  if (action === 'list') {
    return expect(await persistently(() => namesOf(store))).toEqual([...model.keys()].sort());
  }
  if (action === 'get') {
    const bytes = await persistently(() => store.get(name));
    const text = bytes === null ? undefined : Buffer.from(bytes).toString();
    return expect(text).toBe(model.get(name) as string);
  }
  if (action === 'remove') {
    // No server can tell a put that comes after the removal of its name from one that is meant.
    await proxy.settled();
    await persistently(() => store.remove(name));
    model.delete(name);
    return;
  }
  const given = action === 'put' ? content : `${content}, otherwise`;
  const code = await persistently(() =>
    store.putIfAbsent(name, bytesOf(given)).then(
      () => 'stored',
      (error: LedgerError) => {
        if (error.code === 'object_differs') return 'differs';
        throw error;
      },
    ),
  );
  const known = model.get(name);
  expect(code).toBe(known === undefined || known === given ? 'stored' : 'differs');
  if (known === undefined) model.set(name, given);
}

/** As the archiver does: an error to retry is tried again, any other one is the test's failure. */
async function persistently<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof LedgerError) || error.kind !== 'retry') throw error;
    }
  }
}

async function expectModel(store: ObjectStore, model: ReadonlyMap<string, string>): Promise<void> {
  expect(await namesOf(store)).toEqual([...model.keys()].sort());
  for (const [name, content] of model) {
    expect(Buffer.from((await store.get(name))!).toString()).toBe(content);
  }
}
