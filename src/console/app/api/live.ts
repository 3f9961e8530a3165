/**
 * The running count: a stream of server-sent events read with `fetch`, because the browser's
 * `EventSource` cannot send the token. Where the stream is refused or breaks, the caller polls.
 */
import type { ApiClient, Params } from './client.ts';
import { readLines } from './lines.ts';

export interface LiveCounts {
  readonly as_of: string;
  readonly final_until: string | null;
  readonly total: number;
}

export interface LiveQuery {
  readonly params: Params;
  readonly signal: AbortSignal;
}

/** The server says something every 15 s; one that says nothing for so long is not there any more. */
const SILENCE_MS = 45_000;

/** Returns when the stream has ended; throws when it was refused or broke. */
export async function readLive(
  api: ApiClient,
  { params, signal }: LiveQuery,
  onCounts: (counts: LiveCounts) => void,
): Promise<void> {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  const both = AbortSignal.any([signal, silence.signal]);
  try {
    const ask = { params, signal: both, accept: 'text/event-stream' };
    const response = await api.fetch('GET', '/v1/live', ask);
    await readEvents(response, onCounts, () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
    });
  } finally {
    clearTimeout(timer);
  }
}

async function readEvents(
  response: Response,
  onCounts: (counts: LiveCounts) => void,
  onLine: () => void,
): Promise<void> {
  let event = '';
  let data = '';
  for await (const raw of readLines(response)) {
    onLine();
    const line = raw.replace(/\r$/, '');
    if (line === '') {
      if (data !== '' && (event === '' || event === 'counts')) {
        onCounts(JSON.parse(data) as LiveCounts);
      }
      event = '';
      data = '';
    } else if (line.startsWith('event:')) event = line.slice(6).trim();
    else if (line.startsWith('data:')) data += line.slice(5).trim();
  }
}
