/** Opening the S3 store: what the server must be able to do, what must be allowed, what is tidied up. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { Bucket } from '../../src/archive/s3/bucket.ts';
import { list } from '../../src/archive/s3/listing.ts';
import type { S3StoreOptions } from '../../src/archive/s3/store.ts';
import type { LedgerError } from '../../src/platform/errors.ts';
import { namesOf } from '../support/archive-fixtures.ts';
import { S3FaultProxy } from '../support/s3-fault-proxy.ts';
import { BUCKET, S3World, useCredentials } from '../support/s3-world.ts';
import { OWNER, READER } from '../support/seaweedfs.ts';

const HOUR_MS = 3_600_000;
const PUT_AT_ONCE = /^PUT/;
const COMPLETE = /^POST .*uploadId=/;
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text));

let world: S3World | undefined;
let prefix: string;
beforeAll(async () => {
  world = await S3World.start();
});
afterAll(() => world?.stop());
beforeEach(() => {
  prefix = world!.freshPrefix();
});
afterEach(() => useCredentials(OWNER));

const open = (over: Partial<S3StoreOptions> = {}) => world!.open({ prefix, ...over });

async function refusalOf(over: Partial<S3StoreOptions>): Promise<LedgerError> {
  const error = await open(over).then(
    () => null,
    (reason: unknown) => reason as LedgerError,
  );
  expect(error).toMatchObject({ code: 'archive_refused', kind: 'refuse' });
  expect(error?.hint).toBeDefined();
  return error!;
}

async function keys(of: string): Promise<string[]> {
  const command = new ListObjectsV2Command({ Bucket: BUCKET, Prefix: of });
  const { Contents = [] } = await world!.raw.send(command);
  return Contents.map(({ Key = '' }) => Key);
}

describe('what is refused at the start', () => {
  test('a bucket that does not exist', async () => {
    const { message, hint } = await refusalOf({ bucket: 'no-such-bucket' });
    expect(message).toContain('no-such-bucket');
    expect(hint).toContain('archive.s3.bucket');
  });

  test('a secret that is wrong', async () => {
    useCredentials({ ...OWNER, secretAccessKey: 'not the secret' });
    const { message, hint } = await refusalOf({});
    expect(message).toContain('SignatureDoesNotMatch (403)');
    expect(message).not.toContain('not the secret');
    expect(hint).toContain('policy');
  });

  test('credentials that may only read', async () => {
    useCredentials(READER);
    expect((await refusalOf({})).message).toContain('AccessDenied (403)');
  });

  test('a region that nobody has named', async () => {
    const { message, hint } = await refusalOf({ region: '' });
    expect(message).toContain('Region is missing');
    expect(hint).toContain('AWS_REGION');
  });

  test('a server that is not there is no refusal: the start is tried again', async () => {
    const retry = { maxAttempts: 2, sleep: async () => {} };
    const opened = open({ endpoint: 'http://127.0.0.1:1', retry });
    await expect(opened).rejects.toMatchObject({ code: 'archive_unavailable', kind: 'retry' });
  });
});

describe('a server that overwrites', () => {
  let proxy: S3FaultProxy;
  beforeEach(async () => {
    proxy = await S3FaultProxy.start(world!.server.port, 0);
  });
  afterEach(() => proxy.stop());

  for (const [request, deaf] of [
    ['PutObject', PUT_AT_ONCE],
    ['CompleteMultipartUpload', COMPLETE],
  ] as const) {
    test(`without a word on ${request} is refused, and taken without conditions`, async () => {
      proxy.ignoresConditions = ({ method, url }) => deaf.test(`${method} ${url}`);
      const { message, hint } = await refusalOf({ endpoint: proxy.endpoint });
      expect(message).toContain(`does not honour If-None-Match on ${request}`);
      expect(hint).toContain('archive.s3.conditional_put = false');
      const store = await open({ endpoint: proxy.endpoint, conditionalPut: false });
      await store.putIfAbsent('a/x', bytesOf('1'));
      const other = store.putIfAbsent('a/x', bytesOf('2'));
      await expect(other).rejects.toMatchObject({ code: 'object_differs' });
    });
  }

  test('and answers "not implemented" to conditions is refused with the same words', async () => {
    proxy.refusesConditions = true;
    const { message } = await refusalOf({ endpoint: proxy.endpoint });
    expect(message).toContain('does not honour If-None-Match on PutObject');
    const store = await open({ endpoint: proxy.endpoint, conditionalPut: false });
    await store.putIfAbsent('a/x', bytesOf('1'));
    await store.remove('a/x');
    expect(await store.get('a/x')).toBeNull();
  });
});

describe('what opening leaves', () => {
  test('two small objects of the probe, however often, that no listing of the store shows', async () => {
    for (let i = 0; i < 3; i++) expect(await namesOf(await open())).toEqual([]);
    const probe = await keys(`${prefix}/`);
    expect(probe.sort()).toEqual([
      `${prefix}/.clickledger/probe/b-c`,
      `${prefix}/.clickledger/probe/b/1`,
    ]);
  });

  test('uploads that a dead process left are aborted after a day, and only those below the prefix', async () => {
    const begin = (Key: string) =>
      world!.raw.send(new CreateMultipartUploadCommand({ Bucket: BUCKET, Key }));
    const uploads = async () => {
      const command = new ListMultipartUploadsCommand({ Bucket: BUCKET });
      const { Uploads = [] } = await world!.raw.send(command);
      return Uploads.map(({ Key }) => Key).filter((key) => key?.startsWith(prefix));
    };
    const own = [`${prefix}/dt=2026-01-31/a`, `${prefix}/dt=2026-01-31/b`];
    const foreign = [`${prefix}-other/a`, `${prefix}/.other/a`];
    for (const key of [...own, ...foreign]) await begin(key);
    const notices: string[] = [];
    const onNotice = (message: string) => void notices.push(message);
    await open({ onNotice, clock: () => Date.now() + 23 * HOUR_MS });
    expect((await uploads()).sort()).toEqual([...own, ...foreign].sort() as string[]);
    expect(notices).toEqual([]);
    await open({ onNotice, clock: () => Date.now() + 25 * HOUR_MS });
    expect((await uploads()).sort()).toEqual(foreign.sort());
    expect(notices).toEqual(['aborted 2 unfinished uploads to the archive']);
  });
});

test("an upload that a process died in stands in nobody's way, and leaves no object", async () => {
  const Key = `${prefix}/dead/p0`;
  const begun = { Bucket: BUCKET, Key };
  const { UploadId } = await world!.raw.send(new CreateMultipartUploadCommand(begun)); // U1
  const part = { ...begun, UploadId, PartNumber: 1, Body: 'half of it' };
  await world!.raw.send(new UploadPartCommand(part)); // U2
  const store = await open({ atOnceBytes: 0 });
  expect(await store.get('dead/p0')).toBeNull();
  expect(await namesOf(store)).toEqual([]);
  await store.putIfAbsent('dead/p0', bytesOf('all of it')); // U3, and the process dies before it knows
  await (await open({ atOnceBytes: 0 })).putIfAbsent('dead/p0', bytesOf('all of it'));
  expect(await namesOf(store)).toEqual(['dead/p0']);
});

test('two processes that put one name at once: the first one wins, the other is told', async () => {
  const stores = await Promise.all(Array.from({ length: 6 }, () => open()));
  for (let round = 0; round < 10; round++) {
    const puts = stores.map((store, i) => store.putIfAbsent(`race-${round}`, bytesOf(`v${i}`)));
    const results = await Promise.allSettled(puts);
    const won = results.flatMap((result, i) => (result.status === 'fulfilled' ? [i] : []));
    expect(won).toHaveLength(1);
    const bytes = await stores[0]!.get(`race-${round}`);
    expect(Buffer.from(bytes!).toString()).toBe(`v${won[0]}`);
  }
});

test('an object is stored as it is, below the prefix', async () => {
  await (await open()).putIfAbsent('manifest/p00000/x.json', bytesOf('{"a":1}'));
  const object = { Bucket: BUCKET, Key: `${prefix}/manifest/p00000/x.json` };
  const { Body } = await world!.raw.send(new GetObjectCommand(object));
  expect(await Body!.transformToString()).toBe('{"a":1}');
});

test('a listing of more than ten thousand objects is complete and in order, in every way to list', async () => {
  const store = await open();
  // One folder with many pages, and many folders.
  const names = [
    ...Array.from({ length: 5_100 }, (_, i) => `manifest/p00000/${String(i).padStart(20, '0')}`),
    ...Array.from({ length: 5_100 }, (_, i) => `dt=2026-01-${10 + (i % 19)}/hr=0${i % 10}/p${i}`),
  ].sort();
  const queue = [...names];
  const work = async () => {
    for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
      await store.putIfAbsent(name, bytesOf('x'));
    }
  };
  await Promise.all(Array.from({ length: 32 }, work));
  expect(await namesOf(store)).toEqual(names);
  const manifests = names.filter((name) => name.startsWith('manifest/'));
  expect(await namesOf(store, 'manifest/p0')).toEqual(manifests);
  const after = `manifest/p00000/${'4090'.padStart(20, '0')}`;
  expect(await namesOf(store, 'manifest/p00000/', after)).toEqual(manifests.slice(4_091));
  const bucket = new Bucket({
    bucket: BUCKET,
    endpoint: world!.server.endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    attemptTimeoutMs: 10_000,
    retry: {
      ...{ maxAttempts: 3, maxElapsedMs: 10_000, baseDelayMs: 1, maxDelayMs: 1 },
      ...{ random: Math.random, sleep: Bun.sleep },
    },
  });
  for (const inByteOrder of [true, false]) {
    const listed: string[] = [];
    for await (const info of list({ bucket, root: `${prefix}/`, inByteOrder }, '')) {
      listed.push(info.name);
    }
    expect(listed).toEqual(names);
  }
});
