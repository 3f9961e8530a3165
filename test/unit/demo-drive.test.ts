import { afterEach, describe, expect, test } from 'bun:test';
import { createServer, type Socket } from 'node:net';
import { Archiver } from '../../src/archive/archiver.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import { openGeo } from '../../src/click/geo.ts';
import { DEMO_ADS } from '../../src/demo/ads.ts';
import { readArchiveImpressions } from '../../src/demo/archive-impressions.ts';
import { type DriveProgress, driveTraffic } from '../../src/demo/drive.ts';
import { formatTable, isClean, judge } from '../../src/demo/judge.ts';
import { isBillable, lateRows, planTraffic } from '../../src/demo/plan.ts';
import { loadUserAgents } from '../../src/demo/visitors.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { ingestRows } from '../../src/ingest/ingest.ts';
import { HeldLog, KEY, MapAds, setUpClicks } from '../support/click.ts';
import { MemoryLog } from '../support/memory-log.ts';
import { tempDir } from '../support/temp-dir.ts';

const NOW_MS = Date.UTC(2026, 5, 1, 12, 34, 56);
const userAgents = loadUserAgents();
const plan = (clicks: number, seed = 11) =>
  planTraffic({ seed, clicks, ads: DEMO_ADS, nowMs: NOW_MS, userAgents });

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** The real click service on a real port. */
async function serveClicks(log = new HeldLog()) {
  log.answerAtOnce = true;
  const ads = new MapAds(...DEMO_ADS);
  const geo = await openGeo();
  const config = { trustedProxies: 1 };
  const clicks = setUpClicks({ ads, geo, log, config, clock: () => NOW_MS });
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request, peer) => clicks.service.fetch(request, peer),
  });
  closers.push(() => server.stop(true));
  return { ...clicks, geo, baseUrl: `http://127.0.0.1:${server.port}` };
}

/** A server that is no HTTP server: what happens to the bytes of a connection is up to the test. */
async function serveBytes(
  onBytes: (socket: Socket, connection: number) => unknown,
): Promise<string> {
  let connections = 0;
  const server = createServer((socket) => {
    const connection = connections++;
    socket.on('error', () => {});
    socket.on('data', () => onBytes(socket, connection));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}`;
}

const answerText = (status: string, headers: string) => `HTTP/1.1 ${status}\r\n${headers}\r\n`;
const FOUND = answerText('302 Found', 'Location: https://x.example/\r\nContent-Length: 0\r\n');
const BUSY = `${answerText('503 Service Unavailable', 'Content-Length: 4\r\n')}busy`;

/** What the recount must find: distinct impressions of class click, per ad. */
function recount(events: readonly ClickEvent[]): Map<string, number> {
  const seen = new Set<string>();
  const counts = new Map<string, number>();
  for (const event of events) {
    if (event.class !== 'click' || seen.has(event.impressionId)) continue;
    seen.add(event.impressionId);
    counts.set(event.adId, (counts.get(event.adId) ?? 0) + 1);
  }
  return counts;
}

describe('driving the plan at the click service', () => {
  test('gets the planned answer to every request, and what was acknowledged is what is archived', async () => {
    const { requests, late } = plan(1_500);
    const { log, ads, geo, baseUrl } = await serveClicks();
    const progress: DriveProgress[] = [];
    const result = await driveTraffic({
      baseUrl,
      requests,
      key: KEY,
      concurrency: 16,
      onProgress: (each) => progress.push(each),
    });
    expect(result.unexpected).toEqual([]);
    expect({
      ...result,
      answered: undefined,
      acknowledged: result.acknowledged.size,
    }).toMatchObject({
      acknowledged: requests.filter(({ kind }) => kind === 'click').length,
      inDoubt: new Map(),
      resent: 0,
      unexpectedCount: 0,
    });
    expect(progress.at(-1)).toMatchObject({ sent: requests.length, total: requests.length });

    const countries = new Map(
      requests
        .filter(({ kind }) => kind === 'head')
        .map(({ impressionId, country }) => [impressionId, country]),
    );
    const heads = log.events.filter((event) => event.class === 'head');
    expect(heads.map((event) => event.country)).toEqual(
      heads.map((event) => countries.get(event.impressionId)!),
    );
    for (const kind of ['head', 'prefetch', 'preview'] as const) {
      const planned = requests.filter((request) => request.kind === kind).length;
      expect(log.events.filter((event) => event.class === kind)).toHaveLength(planned);
    }

    const folder = tempDir('demo');
    closers.push(folder.remove);
    const taken = await ingestRows({
      rows: lateRows(late),
      ads,
      log,
      geo,
      clock: () => NOW_MS,
      config: { maxSkewMs: 0, storeAddress: 'truncated' },
      spoolDir: folder.path,
      progress: () => {},
    });
    expect(taken).toEqual({ taken: late.length });

    const archive = await archiveOf(log.events, `${folder.path}/archive`);
    const final = recount(log.events);
    const evidence = { ...result, ads: DEMO_ADS, ingested: late, live: final, final, archive };
    const rows = judge(evidence);
    expect(formatTable(rows)).toContain('total');
    expect(isClean(rows)).toBe(true);
    expect(rows.reduce((sum, row) => sum + row.sent, 0)).toBe(1_500);

    const lostOne = new Map(archive);
    lostOne.delete(requests.find(({ kind }) => kind === 'click')!.impressionId);
    expect(isClean(judge({ ...evidence, archive: lostOne }))).toBe(false);
  });

  test('keeps clicks in doubt apart when the log refuses them', async () => {
    const { requests } = plan(100);
    const log = new HeldLog();
    const { baseUrl } = await serveClicks(log);
    const append = log.append.bind(log);
    log.append = (bytes, length, done) => {
      if (log.events.length % 2 === 0) append(bytes, length, done);
      else append(bytes, length, () => done(new Error('disk')));
    };
    const result = await driveTraffic({ baseUrl, requests, key: KEY });
    const clicked = requests.filter(({ kind }) => isBillable(kind)).map((r) => r.impressionId);
    expect(result.inDoubt.size).toBeGreaterThan(0);
    expect(new Set([...result.acknowledged.keys(), ...result.inDoubt.keys()])).toEqual(
      new Set(clicked),
    );
    expect([...result.inDoubt.keys()].filter((id) => result.acknowledged.has(id))).toEqual([]);
    expect(result.unexpectedCount).toBeGreaterThanOrEqual(result.inDoubt.size);
    expect(result.unexpected[0]).toContain('status 503, not 302');
  });
});

describe('driving the plan at a server that fails', () => {
  const clicksOnly = plan(40).requests.filter(({ kind }) => kind === 'click');

  const drive = async (onBytes: (socket: Socket, connection: number) => unknown, concurrency = 4) =>
    driveTraffic({
      baseUrl: await serveBytes(onBytes),
      requests: clicksOnly,
      key: KEY,
      concurrency,
    });

  test('sends a request once more when its connection is lost', async () => {
    const result = await drive((socket, connection) => {
      if (connection === 0) socket.destroy();
      else socket.write(FOUND);
    }, 1);
    expect(result.resent).toBe(1);
    expect(result.acknowledged.size).toBe(clicksOnly.length);
    expect(result.unexpectedCount).toBe(0);
  });

  test('gives a request up after the second loss and acknowledges nothing', async () => {
    for (const lose of [
      (socket: Socket) => socket.destroy(),
      (socket: Socket) => socket.end(FOUND.slice(0, 30)),
    ]) {
      const result = await drive(lose);
      expect(result.resent).toBe(clicksOnly.length);
      expect(result.acknowledged.size).toBe(0);
      expect(result.inDoubt.size).toBe(clicksOnly.length);
      expect(result.unexpected[0]).toContain('no answer, twice');
    }
  });

  test('does not take a 503 or a redirect to nowhere for an acknowledgement', async () => {
    for (const text of [BUSY, answerText('302 Found', 'Content-Length: 0\r\n')]) {
      const result = await drive((socket) => socket.write(text));
      expect(result.acknowledged.size).toBe(0);
      expect(result.unexpectedCount).toBe(clicksOnly.length);
    }
  });

  test('reads an answer that comes in pieces', async () => {
    const result = await drive((socket) => {
      socket.write(FOUND.slice(0, 30), () => setImmediate(() => socket.write(FOUND.slice(30))));
    });
    expect(result.acknowledged.size).toBe(clicksOnly.length);
  });

  test('connects again when the server closes after each answer', async () => {
    const once = FOUND.replace('Content-Length', 'Connection: close\r\nContent-Length');
    const result = await drive((socket) => socket.end(once));
    expect(result.acknowledged.size).toBe(clicksOnly.length);
    expect(result.resent).toBe(0);
  });
});

async function archiveOf(events: readonly ClickEvent[], dir: string) {
  const store = await openFolderStore({ dir });
  const reader = new MemoryLog();
  reader.append(0, events, NOW_MS);
  const archiver = new Archiver({
    reader,
    store,
    manifest: await loadManifest(store),
    clock: () => NOW_MS,
    rotateMs: 1_000,
    rotateRecords: 500,
    maxSkewMs: 600_000,
    onEntry: () => {},
    onError: (error) => {
      throw error;
    },
  });
  await archiver.flush();
  return readArchiveImpressions(store);
}
