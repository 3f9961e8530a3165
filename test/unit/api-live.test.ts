/** The hub of live streams: when it asks the warehouse, what it tells whom, and when a stream ends. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { LiveHub, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_TOKEN } from '../../src/api/live.ts';
import type { LiveClient } from '../../src/api/live-client.ts';
import type { LiveFilter } from '../../src/api/live-counts.ts';
import { Problem } from '../../src/api/problem.ts';
import { FakeWarehouse } from '../support/api.ts';

const NOW_MS = Date.UTC(2026, 2, 10, 12, 34, 56);
const MINUTE_MS = 60_000;
const FILTER: LiveFilter = { advertiserId: 'adv-1', adIds: undefined, minutes: 60 };

let warehouse: FakeWarehouse;
let hub: LiveHub;
let state: {
  nowMs: number;
  elapsedMs: number;
  changes: number;
  asOfMs: number;
  finalUntilMs: number;
  isRebuilding: boolean;
  logged: unknown[];
};

beforeEach(() => {
  warehouse = new FakeWarehouse();
  state = {
    nowMs: NOW_MS,
    elapsedMs: 0,
    changes: 1,
    asOfMs: NOW_MS - 1_000,
    finalUntilMs: 0,
    isRebuilding: false,
    logged: [],
  };
  hub = new LiveHub({
    warehouse,
    clock: () => state.nowMs,
    elapsedMs: () => state.elapsedMs,
    changes: () => state.changes,
    asOfMs: () => state.asOfMs,
    finalUntilMs: () => state.finalUntilMs,
    isRebuilding: () => state.isRebuilding,
    log: (error) => state.logged.push(error),
  });
});
afterEach(() => hub.close());

const clicks = (...ads: [string, number][]): void => {
  warehouse.page = {
    rows: ads.map(([adId, count]) => ({
      bucketStart: undefined,
      adId,
      campaignId: undefined,
      country: undefined,
      device: undefined,
      clicks: count,
    })),
    next: undefined,
  };
};

/** Reads what a stream has, in the background. */
class Reading {
  text = '';
  isDone = false;
  readonly client: LiveClient;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(client: LiveClient) {
    this.client = client;
    this.#reader = client.stream.getReader();
    void this.#read();
  }

  async #read(): Promise<void> {
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) break;
      this.text += new TextDecoder().decode(value);
    }
    this.isDone = true;
  }

  events(): Record<string, unknown>[] {
    return [...this.text.matchAll(/^event: counts\ndata: (.*)$/gm)].map((match) =>
      JSON.parse(match[1]!),
    );
  }
}

const watch = (
  filter: Partial<LiveFilter> = {},
  tokenId = 't1',
  isAllowed = async () => true,
): Reading => new Reading(hub.watch({ ...FILTER, ...filter }, { tokenId, isAllowed }));

/** Lets queries and streams do what they have to. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

async function seconds(count: number): Promise<void> {
  for (let second = 0; second < count; second++) {
    state.elapsedMs += 1_000;
    hub.tick();
    await settle();
  }
}

test('a stream begins with the numbers of the window, and says what they are', async () => {
  clicks(['a', 3], ['b', 2]);
  state.finalUntilMs = NOW_MS - 34 * MINUTE_MS - 56_000;
  const stream = watch({ minutes: 5 });
  await settle();
  expect(stream.text).toStartWith('retry: 2000\n\n');
  expect(stream.events()).toEqual([
    {
      as_of: '2026-03-10T12:34:55.000Z',
      final_until: '2026-03-10T12:00:00.000Z',
      from: '2026-03-10T12:30:00.000Z',
      to: '2026-03-10T12:35:00.000Z',
      total: 5,
      ads: [
        { ad_id: 'a', clicks: 3 },
        { ad_id: 'b', clicks: 2 },
      ],
      truncated: false,
    },
  ]);
  expect(warehouse.asked).toMatchObject([
    {
      query: { advertiserId: 'adv-1', adIds: undefined, granularity: 'total', groupBy: ['ad'] },
      finalUntilMs: state.finalUntilMs,
    },
  ]);
});

test('nothing is asked and nothing told while nothing has changed', async () => {
  const stream = watch();
  await settle();
  await seconds(10);
  expect(warehouse.asked).toHaveLength(1);
  expect(stream.events()).toHaveLength(1);
});

test('a change is asked for within a second, once, and told when the numbers moved', async () => {
  clicks(['a', 1]);
  const stream = watch();
  await settle();
  state.changes += 5;
  clicks(['a', 2]);
  await seconds(3);
  expect(warehouse.asked).toHaveLength(2);
  // Rows of somebody else: asked, and nothing to tell.
  state.changes++;
  await seconds(3);
  expect(warehouse.asked).toHaveLength(3);
  expect(stream.events().map(({ total }) => total)).toEqual([1, 2]);
});

test('clicks leave the window as time goes on; an empty window is not asked for again', async () => {
  clicks(['a', 1]);
  const stream = watch();
  await settle();
  clicks();
  state.nowMs += MINUTE_MS;
  await seconds(1);
  expect(stream.events().map(({ total, to }) => [total, to])).toEqual([
    [1, '2026-03-10T12:35:00.000Z'],
    [0, '2026-03-10T12:36:00.000Z'],
  ]);
  state.nowMs += MINUTE_MS;
  await seconds(1);
  expect(warehouse.asked).toHaveLength(2);
});

test('an hour that turns final is told even when its numbers stay', async () => {
  clicks(['a', 1]);
  const stream = watch();
  await settle();
  state.finalUntilMs = NOW_MS - 34 * MINUTE_MS - 56_000;
  await seconds(1);
  expect(stream.events().map(({ final_until }) => final_until)).toEqual([
    null,
    '2026-03-10T12:00:00.000Z',
  ]);
});

test('who watches the same shares one query, in whatever order ads are named', async () => {
  clicks(['a', 1]);
  const streams = [
    watch({ adIds: ['a', 'b'] }),
    watch({ adIds: ['b', 'a'] }, 't2'),
    watch({ adIds: ['a', 'b'], advertiserId: 'adv-2' }, 't3'),
  ];
  await settle();
  expect(warehouse.asked.map(({ query }) => query.advertiserId)).toEqual(['adv-1', 'adv-2']);
  // Who comes later is told at once, without a query.
  streams.push(watch({ adIds: ['a', 'b'] }, 't4'));
  await settle();
  expect(warehouse.asked).toHaveLength(2);
  expect(streams.map((stream) => stream.events().length)).toEqual([1, 1, 1, 1]);
});

test('queries run one after the other, however many streams wait', async () => {
  let running = 0;
  let most = 0;
  const release: (() => void)[] = [];
  warehouse.metrics = async () => {
    most = Math.max(most, ++running);
    await new Promise<void>((resolve) => release.push(resolve));
    running--;
    return { rows: [], next: undefined };
  };
  for (let n = 0; n < 4; n++) watch({ minutes: n + 1 }, `t${n}`);
  await settle();
  // A slow warehouse is not asked again for what it has not answered.
  await seconds(5);
  for (let n = 0; n < 4; n++) {
    expect(release).toHaveLength(n + 1);
    release[n]!();
    await settle();
  }
  expect([most, release.length]).toEqual([1, 4]);
});

test('more ads than an event holds are cut, and the total has them all', async () => {
  clicks(['a', 5], ['b', 4]);
  warehouse.page = { ...warehouse.page, next: ['x'] };
  const whole = { ...warehouse.page.rows[0]!, adId: undefined, clicks: 11 };
  const page = warehouse.metrics.bind(warehouse);
  warehouse.metrics = async (query, finalUntilMs) =>
    query.groupBy.length === 0 ? { rows: [whole], next: undefined } : page(query, finalUntilMs);
  const stream = watch();
  await settle();
  expect(stream.events()).toMatchObject([{ total: 11, truncated: true }]);
});

describe('as_of', () => {
  test('moves on with unchanged numbers, told with the heartbeat and without a query', async () => {
    const stream = watch();
    await settle();
    await seconds(14);
    state.asOfMs += 14_000;
    expect(stream.events()).toHaveLength(1);
    await seconds(1);
    expect(stream.text).toEndWith(
      `\n\n: \n\nevent: counts\n${stream.text.split('event: counts\n').at(-1)}`,
    );
    expect(stream.events().map(({ as_of }) => as_of)).toEqual([
      '2026-03-10T12:34:55.000Z',
      '2026-03-10T12:35:09.000Z',
    ]);
    expect(warehouse.asked).toHaveLength(1);
  });

  test('stands still while nothing is counted, and the stream stays (D8)', async () => {
    const stream = watch();
    await settle();
    state.changes++;
    warehouse.failure = new Error('the warehouse is away');
    await seconds(60);
    expect(stream.events()).toHaveLength(1);
    expect(stream.text.match(/^: $/gm)).toHaveLength(4);
    // Told to the operator once, not once a second.
    expect(state.logged).toEqual([warehouse.failure]);
    warehouse.failure = null;
    clicks(['a', 1]);
    state.asOfMs += 60_000;
    await seconds(1);
    expect(stream.events().at(-1)).toMatchObject({ total: 1, as_of: '2026-03-10T12:35:55.000Z' });
  });

  test('and numbers stand still while the warehouse is built again', async () => {
    clicks(['a', 5]);
    const stream = watch();
    await settle();
    state.isRebuilding = true;
    state.changes++;
    state.finalUntilMs = 0;
    state.asOfMs = 0;
    clicks();
    await seconds(20);
    expect(stream.events()).toHaveLength(1);
    state.isRebuilding = false;
    clicks(['a', 5], ['b', 1]);
    await seconds(1);
    expect(stream.events().map(({ total }) => total)).toEqual([5, 6]);
  });
});

test('a client that does not read costs one event, and gets the newest when it does', async () => {
  clicks(['a', 0]);
  const slow = hub.watch(FILTER, { tokenId: 't1', isAllowed: async () => true });
  await settle();
  for (let n = 1; n <= 100; n++) {
    state.changes++;
    clicks(['a', n]);
    await seconds(1);
  }
  const reading = new Reading(slow);
  await settle();
  expect(reading.events().map(({ total }) => total)).toEqual([100]);
  state.changes++;
  clicks(['a', 101]);
  await seconds(1);
  expect(reading.events().map(({ total }) => total)).toEqual([100, 101]);
});

describe('a stream ends', () => {
  test('within a minute after its token was revoked; one that cannot be checked stays', async () => {
    let answer = (): boolean => true;
    const stream = watch({}, 't1', async () => answer());
    await seconds(29);
    answer = () => {
      throw new Error('busy');
    };
    await seconds(10);
    expect([stream.isDone, hub.connections]).toEqual([false, 1]);
    answer = () => false;
    await seconds(30);
    expect([stream.isDone, hub.connections]).toEqual([true, 0]);
  });

  test('after an hour, with the time to come again', async () => {
    const stream = watch();
    state.elapsedMs += 3_599_000;
    hub.tick();
    await settle();
    expect(stream.isDone).toBe(false);
    await seconds(1);
    expect(stream.isDone).toBe(true);
    expect(stream.text).toEndWith('retry: 2000\n\n');
  });

  test('when the process stops, and none begins after that', async () => {
    const stream = watch();
    await settle();
    await hub.close();
    await settle();
    expect(stream.isDone).toBe(true);
    expect(() => watch()).toThrow(Problem);
  });

  test('when its client goes, and its place is free again', async () => {
    const client = hub.watch(FILTER, { tokenId: 't1', isAllowed: async () => true });
    await client.stream.cancel();
    client.leave();
    client.end();
    expect(hub.connections).toBe(0);
    state.changes++;
    await seconds(5);
    expect(warehouse.asked.length).toBeLessThanOrEqual(1);
  });
});

test('streams are bounded for each token, and in all', () => {
  const problem = (run: () => unknown): [number, string] => {
    try {
      run();
    } catch (error) {
      if (error instanceof Problem) return [error.status, error.code];
      throw error;
    }
    throw new Error('it was taken');
  };
  for (let n = 0; n < MAX_CONNECTIONS_PER_TOKEN; n++) watch({}, 'greedy');
  expect(problem(() => watch({}, 'greedy'))).toEqual([429, 'live_streams_of_token']);
  for (let n = MAX_CONNECTIONS_PER_TOKEN; n < MAX_CONNECTIONS; n++) watch({}, `t${n}`);
  expect(problem(() => watch({}, 'other'))).toEqual([503, 'live_streams_full']);
  expect(hub.connections).toBe(MAX_CONNECTIONS);
});
