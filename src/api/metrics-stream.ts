/**
 * All rows of a metrics query as one answer of lines (NDJSON): `{"meta":…}`, a line a row, and
 * `{"end":{"rows":n}}`. An answer without that last line was cut off. When the query fails on the way,
 * an `{"error":…}` line says so, and there is no `end`.
 *
 * Owns: how many such answers go out at a time. Does not own: the rows (`metrics.ts`).
 *
 * N1 A page is read only when the lines of the one before have been taken, so a reader that is slow,
 *    or stands still, costs one page of memory. The server closes a connection that stands still.
 * N2 When the caller goes away, no further page is read, and the answer's place is free at once.
 * N3 Every answer gives its place back exactly once: at its end, its failure, or its caller's going.
 */

import type { AllRows, AnswerRow } from './metrics.ts';
import { frameJson, rowJson } from './metrics-format.ts';
import { type ErrorLog, Problem, toProblem } from './problem.ts';

export const NDJSON = 'application/x-ndjson';

/** Rows of a page that is read at once: bounds the memory of an answer. */
export const STREAM_PAGE_ROWS = 20_000;
/** Rows that go out in one piece. */
const CHUNK_ROWS = 1_000;

const MAX_STREAMS = 16;
const MAX_STREAMS_OF_TOKEN = 4;

/** The places of answers that are being sent. */
export class StreamPlaces {
  readonly #ofToken = new Map<string, number>();
  #taken = 0;

  /** Takes a place; returns what gives it back. */
  take(tokenId: string): () => void {
    const own = this.#ofToken.get(tokenId) ?? 0;
    if (own >= MAX_STREAMS_OF_TOKEN) {
      throw tooMany(429, `This token has ${own} streamed answers under way, which is the most.`);
    }
    if (this.#taken >= MAX_STREAMS) {
      throw tooMany(503, `There are ${this.#taken} streamed answers under way, which is the most.`);
    }
    this.#ofToken.set(tokenId, own + 1);
    this.#taken += 1;
    let isFree = false;
    return () => {
      if (isFree) return;
      isFree = true;
      this.#taken -= 1;
      const left = this.#ofToken.get(tokenId)! - 1;
      if (left === 0) this.#ofToken.delete(tokenId);
      else this.#ofToken.set(tokenId, left);
    };
  }

  get taken(): number {
    return this.#taken;
  }
}

function tooMany(status: 429 | 503, detail: string): Problem {
  return new Problem(status, 'too_many_streams', detail, {
    hint: 'Wait until one has ended, or ask for pages of JSON or CSV.',
    headers: { 'Retry-After': '10' },
  });
}

interface StreamOptions {
  readonly free: () => void;
  /** The request's: a caller that goes before the body is begun cancels nothing. */
  readonly signal: AbortSignal;
  readonly log: ErrorLog;
  /** What is being done, for the log. */
  readonly doing: string;
}

export function streamRows(all: AllRows, options: StreamOptions): ReadableStream {
  const { free, signal, log, doing } = options;
  if (signal.aborted) free();
  else signal.addEventListener('abort', free, { once: true });
  const pieces = piecesOf(all, (error) => {
    const { code, detail, more } = toProblem(error, log, doing);
    return line({ error: { code, message: detail, hint: more.hint } });
  });
  const leave = (): void => {
    signal.removeEventListener('abort', free);
    free();
  };
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await pieces.next();
        if (value !== undefined) controller.enqueue(encoder.encode(value));
        if (done !== true) return;
        leave();
        controller.close();
      },
      async cancel() {
        leave();
        await pieces.return();
      },
    },
    { highWaterMark: 1 },
  );
}

async function* piecesOf(
  all: AllRows,
  failed: (error: unknown) => string,
): AsyncGenerator<string, void> {
  yield line({ meta: frameJson(all) });
  let rows = 0;
  try {
    for await (const page of all.pages) {
      for (let first = 0; first < page.length; first += CHUNK_ROWS) {
        yield linesOf(page.slice(first, first + CHUNK_ROWS));
      }
      rows += page.length;
    }
  } catch (error) {
    yield failed(error);
    return;
  }
  yield line({ end: { rows } });
}

function linesOf(rows: readonly AnswerRow[]): string {
  return rows.map((row) => line(rowJson(row))).join('');
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
