/**
 * The clicks of the last hour, as they happen: by stream, or by asking every few seconds where no
 * stream is to be had. The stream is tried again now and then.
 */
import { useEffect, useState } from 'preact/hooks';
import type { Clock } from '../../../platform/clock.ts';
import type { ApiClient, Params } from '../api/client.ts';
import { readLive } from '../api/live.ts';
import { asApiError } from '../api/problem.ts';
import type { MetricsAnswer } from '../api/types.ts';

export const LIVE_MINUTES = 60;
const POLL_MS = 5_000;
const POLLS_BETWEEN_STREAMS = 6;
const MINUTE_MS = 60_000;

export interface Live {
  readonly total: number | null;
  readonly way: 'stream' | 'polling' | 'connecting' | 'lost';
}

interface Follow {
  readonly api: ApiClient;
  readonly clock: Clock;
  readonly params: Params;
  readonly signal: AbortSignal;
  readonly tell: (live: Live) => void;
}

export function useLive(api: ApiClient, clock: Clock, params: Params): Live {
  const [live, setLive] = useState<Live>({ total: null, way: 'connecting' });
  const key = JSON.stringify(params);
  // the key stands for the parameters.
  useEffect(() => {
    const abort = new AbortController();
    setLive({ total: null, way: 'connecting' });
    const tell = (next: Live): void => {
      if (!abort.signal.aborted) setLive(next);
    };
    void follow({ api, clock, params, signal: abort.signal, tell });
    return () => abort.abort();
  }, [api, clock, key]);
  return live;
}

async function follow(asked: Follow): Promise<void> {
  const { api, params, signal, tell } = asked;
  while (!signal.aborted) {
    let worked = false;
    try {
      const query = { params: { ...params, minutes: LIVE_MINUTES }, signal };
      await readLive(api, query, ({ total }) => {
        worked = true;
        tell({ total, way: 'stream' });
      });
    } catch (error) {
      if (signal.aborted || asApiError(error).status === 401) return;
    }
    // A stream that worked ends after an hour, or with the server, and comes back soon.
    const polls = worked ? 1 : POLLS_BETWEEN_STREAMS;
    for (let poll = 0; poll < polls && !signal.aborted; poll++) {
      await askOnce(asked);
      await pause(POLL_MS, signal);
    }
  }
}

async function askOnce({ api, clock, params, signal, tell }: Follow): Promise<void> {
  const toMs = Math.floor(clock() / MINUTE_MS) * MINUTE_MS + MINUTE_MS;
  const span = {
    from: new Date(toMs - LIVE_MINUTES * MINUTE_MS).toISOString(),
    to: new Date(toMs).toISOString(),
  };
  try {
    const answer = await api.get<MetricsAnswer>('/v1/ads/metrics', {
      params: { ...params, ...span, granularity: 'total', group_by: 'none' },
      signal,
    });
    tell({ total: answer.rows.reduce((sum, row) => sum + row.clicks, 0), way: 'polling' });
  } catch {
    tell({ total: null, way: 'lost' });
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
