/** The admin actions from end to end: client, unix socket, routes; only the ledger behind is a fake. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { connectAdmin, isLedgerRunning } from '../../src/api/admin-client.ts';
import type { IngestRow } from '../../src/api/admin-port.ts';
import { createAdminSocketApp } from '../../src/api/admin-socket.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { FakeAdmin, jsonOf, LETTER, setUpApi } from '../support/api.ts';
import { testAudit } from '../support/audit.ts';
import { tempDir } from '../support/temp-dir.ts';

const folder = tempDir('api-admin');
const socketPath = `${folder.path}/admin.sock`;
const client = connectAdmin(socketPath);
const silent = (): void => undefined;
let admin = new FakeAdmin();
let logged: { error: unknown; message: string }[] = [];
let server: Bun.Server<undefined>;
const audit = testAudit();

beforeAll(() => {
  server = Bun.serve({
    unix: socketPath,
    fetch: (req) =>
      createAdminSocketApp(admin, {
        audit,
        log: (error, message) => logged.push({ error, message }),
        importAds: async (source, { format }, progress) => {
          let bytes = 0;
          for await (const chunk of source) bytes += chunk.length;
          progress('checking', bytes);
          return { bytes, format };
        },
      }).fetch(req),
  });
});
beforeEach(() => {
  admin = new FakeAdmin();
  logged = [];
});
afterAll(async () => {
  await server.stop(true);
  folder.remove();
});

async function* rows(count: number): AsyncGenerator<IngestRow> {
  for (let line = 1; line <= count; line++) yield { line, record: { ad_id: `ad-${line}` } };
}

async function failure(action: Promise<unknown>): Promise<Partial<LedgerError>> {
  try {
    await action;
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error;
    const { code, kind, message, hint } = error;
    return { code, kind, message, ...(hint === undefined ? {} : { hint }) };
  }
  throw new Error('it did not fail');
}

const post = (path: string, body: string | ReadableStream): Promise<Response> =>
  fetch(`http://ledger/v1/admin/${path}`, { unix: socketPath, method: 'POST', body });

describe('the client', () => {
  test('brings results and progress', async () => {
    const heard: unknown[] = [];
    const outcome = await client.reconcile({ hourMs: 7_200_000, untilMs: 1_234_567 }, (...each) =>
      heard.push(each),
    );
    expect(outcome).toEqual({ hours: [], finalUntilMs: 7_200_000 });
    expect(heard).toEqual([['recounting', 1, 2]]);
    await client.reconcile({}, silent);
    expect(admin.calls).toEqual([{ hourMs: 7_200_000, untilMs: 1_234_567 }, {}]);
    expect(await client.status()).toEqual(await admin.status());
    expect(await client.verify(silent)).toMatchObject({ clicks: 3, archiveProblems: ['a hole'] });
  });

  test('lists, shows and redrives dead letters', async () => {
    expect(await client.deadLetters({ limit: 5, waitingOnly: false })).toEqual([LETTER]);
    expect(await client.deadLetter('0-7')).toEqual({ ...LETTER, bytes: 'AAE=', event: null });
    expect(await client.redrive({ reason: 'undecodable' })).toEqual({ redriven: 3 });
    expect(admin.calls).toEqual([{ limit: 5, waitingOnly: false }, { reason: 'undecodable' }]);
    expect(await failure(client.redrive({}))).toMatchObject({ code: 'parameters_invalid' });
    expect(await failure(client.redrive({ id: '0-7', all: true }))).toMatchObject({
      code: 'parameters_invalid',
    });
  });

  test('throws what the ledger threw, with code, kind, message and hint', async () => {
    expect(await failure(client.deadLetter('0/8?'))).toEqual({
      code: 'dead_letter_unknown',
      kind: 'refuse',
      message: 'there is no dead letter 0/8?',
      hint: 'Look.',
    });
    expect(await failure(client.rebuild(silent))).toEqual({
      code: 'archive_unavailable',
      kind: 'retry',
      message: 'the archive does not answer',
      hint: 'Try later.',
    });
  });

  test('is told of a bug by an id that the log has', async () => {
    admin.verify = () => Promise.reject(new Error('secret inside'));
    const { code, message } = await failure(client.verify(silent));
    expect(code).toBe('internal');
    const errorId = /logged as ([0-9a-f]{12})/.exec(message!)![1];
    expect(logged.map((each) => each.message)).toEqual([
      `POST /v1/admin/verify: internal error ${errorId}`,
    ]);
  });

  test('a result of any size arrives, and more progress than anybody reads loses only progress', async () => {
    const archiveProblems = Array.from({ length: 50_000 }, (_, at) => `${at} ${'é'.repeat(40)}`);
    admin.verify = async (progress) => {
      for (let done = 0; done < 100_000; done++) progress('comparing', done);
      return { hours: 0, rows: 0, clicks: 0, differences: [], archiveProblems };
    };
    let heard = 0;
    const outcome = await client.verify(() => {
      heard++;
    });
    expect(outcome.archiveProblems).toEqual(archiveProblems);
    expect(heard).toBeGreaterThan(0);
  });

  test('says so when no ledger answers, or when it dies before its answer', async () => {
    const nobody = connectAdmin(`${folder.path}/nobody.sock`);
    expect(await failure(nobody.status())).toMatchObject({
      code: 'ledger_unreachable',
      kind: 'retry',
    });
    const path = `${folder.path}/dying.sock`;
    const dying = Bun.serve({
      unix: path,
      fetch: () => new Response('{"progress":{"message":"begun"}}\n'),
    });
    expect(await failure(connectAdmin(path).verify(silent))).toMatchObject({ code: 'ledger_lost' });
    await dying.stop(true);
  });

  test('tells whether a ledger listens', async () => {
    expect(await isLedgerRunning(socketPath)).toBe(true);
    expect(await isLedgerRunning(`${folder.path}/nobody.sock`)).toBe(false);
    writeFileSync(`${folder.path}/no-socket`, '');
    expect(await isLedgerRunning(`${folder.path}/no-socket`)).toBe(false);
  });
});

describe('ingest', () => {
  test('takes more rows than fit in one body of the API', async () => {
    const outcome = await client.ingest(rows(60_000), silent);
    expect(outcome).toEqual({ taken: 60_000 });
    expect(admin.rows[59_999]).toEqual({ line: 60_000, record: { ad_id: 'ad-60000' } });
  });

  test('reads the rows no faster than the ledger takes them', async () => {
    let given = 0;
    let letGo = silent;
    const hold = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    admin.ingest = async (taken) => {
      for await (const _ of taken) await hold;
      return { taken: 0 };
    };
    async function* many(): AsyncGenerator<IngestRow> {
      for await (const row of rows(200_000)) {
        given++;
        yield { ...row, record: { ad_id: 'x'.repeat(100) } };
      }
    }
    const done = client.ingest(many(), silent);
    // Buffers on the way fill up, then nothing moves until the ledger does.
    let before = -1;
    while (given === 0 || given !== before) {
      before = given;
      await Bun.sleep(100);
    }
    expect(given).toBeLessThan(150_000);
    letGo();
    await done;
    expect(given).toBe(200_000);
  });

  test('a refusal in the middle ends the upload', async () => {
    admin.ingest = async (taken) => {
      for await (const { line } of taken) {
        if (line === 10) throw new LedgerError('ingest_invalid', 'line 10: no ad_id');
      }
      return { taken: 0 };
    };
    let ended = false;
    async function* endless(): AsyncGenerator<IngestRow> {
      try {
        for (let line = 1; ; line++) yield { line, record: {} };
      } finally {
        ended = true;
      }
    }
    expect(await failure(client.ingest(endless(), silent))).toMatchObject({
      code: 'ingest_invalid',
    });
    expect(ended).toBe(true);
  });

  test('a mistake in the caller’s own rows is thrown as it is, and the ledger does not take half', async () => {
    let seen: unknown = null;
    admin.ingest = async (taken) => {
      try {
        for await (const _ of taken);
      } catch (error) {
        seen = error;
        throw error;
      }
      seen = 'a whole file';
      return { taken: 0 };
    };
    async function* broken(): AsyncGenerator<IngestRow> {
      yield* rows(5_000);
      throw new LedgerError('text_not_utf8', 'the text is not UTF-8');
    }
    expect(await failure(client.ingest(broken(), silent))).toMatchObject({ code: 'text_not_utf8' });
    while (seen === null) await Bun.sleep(5);
    expect(seen).toMatchObject({ code: 'upload_broken' });
  });

  test.each([
    '',
    'Content-Length: 100000\r\n\r\n{"line":1,"record":{}}\n',
    'Transfer-Encoding: chunked\r\n\r\n17\r\n{"line":1,"record":{}}\n\r\n',
  ])('an upload that breaks off is an error, not an end (%#)', async (rest) => {
    let seen: unknown = null;
    admin.ingest = async (taken) => {
      let count = 0;
      try {
        for await (const _ of taken) count++;
        seen = `${count} rows`;
      } catch (error) {
        seen = error;
      }
      return { taken: count };
    };
    const socket = connect({ path: socketPath });
    await new Promise<void>((resolve) => socket.once('connect', resolve));
    socket.write(
      `POST /v1/admin/ingest HTTP/1.1\r\nHost: ledger\r\n${rest === '' ? '\r\n' : rest}`,
    );
    await Bun.sleep(20);
    socket.destroy();
    while (seen === null) await Bun.sleep(5);
    // Without any body there is nothing that could be half.
    if (rest === '') expect(seen).toBe('0 rows');
    else expect(seen).toMatchObject({ code: 'upload_broken' });
  });

  test.each([
    ['nonsense', 'line 1 of the body: the line is not JSON'],
    ['{"line":1,"record":{}}\n{"line":2}', 'line 2 of the body: missing column "record"'],
    ['{"line":"1","record":{}}', 'line 1 of the body: "line" is no whole number'],
    ['{"line":1,"record":[]}', 'line 1 of the body: "record" is no object'],
    [`{"line":1,"record":{"a":"${'x'.repeat(1_100_000)}"}}`, 'longer than'],
  ])('a body that is not made of rows is refused (%#)', async (body, message) => {
    const lines = (await (await post('ingest', body)).text()).trim().split('\n');
    expect(JSON.parse(lines.at(-1)!).error).toMatchObject({
      code: 'ingest_malformed',
      message: expect.stringContaining(message),
    });
  });
});

describe('the routes', () => {
  afterEach(() => {
    expect(logged).toEqual([]);
  });

  test('refuse wrong parameters before anything starts', async () => {
    const refused = async (path: string, body: string): Promise<unknown> => {
      const answer = await post(path, body);
      return [answer.status, answer.headers.get('Content-Type'), (await jsonOf(answer)).code];
    };
    const problem = 'application/problem+json';
    const invalid = [400, problem, 'parameters_invalid'];
    expect(await refused('reconcile', '{"hours":"2026-01-01"}')).toEqual(invalid);
    expect(await refused('reconcile', '{"hour":"soon"}')).toEqual(invalid);
    expect(await refused('dead-letters/redrive', '{"all":false}')).toEqual(invalid);
    expect(await refused('reconcile', '[')).toEqual([400, problem, 'body_not_json']);
    expect(await refused('reconcile', ' '.repeat(1_048_577))).toEqual([
      413,
      problem,
      'body_too_large',
    ]);
    expect(await refused('nothing', '')).toEqual([404, problem, 'path_unknown']);
    expect(admin.calls).toEqual([]);
  });

  test('ads come in as CSV or NDJSON', async () => {
    const upload = async (type: string): Promise<unknown> => {
      const headers = { 'Content-Type': type };
      const init = { unix: socketPath, method: 'POST', body: 'a,b\n', headers };
      return (await (await fetch('http://ledger/v1/admin/ads', init)).text()).trim().split('\n');
    };
    const progress = '{"progress":{"message":"checking","done":4}}';
    expect(await upload('text/csv')).toEqual([progress, '{"result":{"bytes":4,"format":"csv"}}']);
    expect(await upload('application/x-ndjson')).toEqual([
      progress,
      '{"result":{"bytes":4,"format":"ndjson"}}',
    ]);
    expect(await upload('')).toEqual([progress, '{"result":{"bytes":4}}']);
  });

  test('on the API port the same actions need an admin token', async () => {
    const { send } = setUpApi();
    const init = { method: 'POST', body: '{}' };
    expect((await send('/v1/admin/reconcile', init, null)).status).toBe(401);
    expect((await send('/v1/admin/reconcile', init, 'reader')).status).toBe(403);
    const answer = await send('/v1/admin/reconcile', init, 'admin');
    expect((await answer.text()).trim().split('\n')).toEqual([
      '{"progress":{"message":"recounting","done":1,"total":2}}',
      '{"result":{"hours":[],"finalUntilMs":7200000}}',
    ]);
    expect((await send('/v1/admin/ads', init, 'admin')).status).toBe(404);
  });
});
