/**
 * The ledger's admin actions from another process, over the unix socket of the running ledger.
 *
 * An action whose last line does not arrive throws `ledger_lost`: it may have happened or not. All
 * actions can be repeated, so that is what the caller is told to do.
 */
import { connect } from 'node:net';
import { LedgerError } from '../platform/errors.ts';
import type { DeadLetterView, LedgerAdmin, Progress } from './admin-port.ts';

interface Call {
  readonly socketPath: string;
  readonly path: string;
  readonly body: string | ReadableStream<Uint8Array>;
}

export function connectAdmin(socketPath: string): LedgerAdmin {
  const get = <T>(path: string): Promise<T> => getJson<T>(socketPath, path);
  const act = <T>(path: string, body: object, progress: Progress): Promise<T> =>
    runAction<T>({ socketPath, path, body: JSON.stringify(body) }, progress);
  return {
    status: () => get('status'),
    reconcile: ({ hourMs, untilMs }, progress) =>
      act('reconcile', { hour: toIso(hourMs), until: toIso(untilMs) }, progress),
    ingest: (rows, progress) => upload({ socketPath, path: 'ingest', rows }, progress),
    verdicts: (rows, progress) => upload({ socketPath, path: 'verdicts', rows }, progress),
    deadLetters: async ({ limit, waitingOnly }) => {
      const path = `dead-letters?limit=${limit}&waiting=${waitingOnly}`;
      return (await get<{ deadLetters: DeadLetterView[] }>(path)).deadLetters;
    },
    deadLetter: (id) => get(`dead-letters/${encodeURIComponent(id)}`),
    redrive: (which) => act('dead-letters/redrive', which, () => undefined),
    verify: (progress) => act('verify', {}, progress),
    rebuild: (progress) => act('rebuild', {}, progress),
  };
}

/** Whether something listens there; a socket file that a killed ledger left behind does not. */
export function isLedgerRunning(socketPath: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path: socketPath });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (cause: Error & { code?: string }) => {
      if (cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED') return resolve(false);
      const message = `${socketPath} cannot be opened: ${cause.message}`;
      const hint = 'Run the command as the user that runs the ledger.';
      reject(new LedgerError('ledger_no_access', message, { hint, cause }));
    });
  });
}

interface Upload {
  readonly socketPath: string;
  readonly path: string;
  readonly rows: AsyncIterable<object> | Iterable<object>;
}

async function* each(rows: Upload['rows']): AsyncGenerator<object> {
  yield* rows;
}

async function upload<T>({ socketPath, path, rows }: Upload, progress: Progress): Promise<T> {
  // What is wrong with the rows' own source is told as it was thrown, not as a broken connection.
  let failure: { readonly error: unknown } | null = null;
  const iterator = each(rows);
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        let text = '';
        while (text.length < UPLOAD_CHUNK_LENGTH) {
          const next = await iterator.next();
          if (next.done === true) {
            if (text !== '') controller.enqueue(encoder.encode(text));
            return controller.close();
          }
          text += `${JSON.stringify(next.value)}\n`;
        }
        controller.enqueue(encoder.encode(text));
      } catch (error) {
        failure = { error };
        controller.error(error);
      }
    },
  });
  try {
    return await runAction<T>({ socketPath, path, body }, progress);
  } catch (error) {
    throw failure === null ? error : (failure as { error: unknown }).error;
  } finally {
    await iterator.return(undefined);
  }
}

const UPLOAD_CHUNK_LENGTH = 64 * 1024;

async function getJson<T>(socketPath: string, path: string): Promise<T> {
  const response = await send(socketPath, path, { method: 'GET' });
  return (await lost(response.json())) as T;
}

async function runAction<T>({ socketPath, path, body }: Call, progress: Progress): Promise<T> {
  const abort = new AbortController();
  try {
    const { signal } = abort;
    const response = await send(socketPath, path, { method: 'POST', body, signal });
    return await lastLine<T>(response, progress);
  } finally {
    // The answer is known; an upload that still runs has nobody who reads it.
    abort.abort();
  }
}

async function send(
  socketPath: string,
  path: string,
  init: BunFetchRequestInit,
): Promise<Response> {
  let response: Response;
  try {
    const url = `http://ledger/v1/admin/${path}`;
    response = await fetch(url, { ...init, unix: socketPath, timeout: false });
  } catch (cause) {
    const message = `the ledger does not answer at ${socketPath}`;
    const hint = 'Is it running? "clickledger up" starts it.';
    throw new LedgerError('ledger_unreachable', message, { kind: 'retry', hint, cause });
  }
  if (response.ok) return response;
  const problem = (await lost(response.json())) as WireError & { detail?: string };
  const kind = response.status === 503 ? 'retry' : 'refuse';
  throw toLedgerError({ ...problem, message: problem.detail, kind });
}

interface WireError {
  readonly code?: string;
  readonly kind?: 'refuse' | 'retry';
  readonly message?: string | undefined;
  readonly hint?: string;
}

interface WireLine {
  readonly progress?: { readonly message: string; readonly done?: number; readonly total?: number };
  readonly result?: unknown;
  readonly error?: WireError;
}

async function lastLine<T>(response: Response, progress: Progress): Promise<T> {
  for await (const text of linesOf(response)) {
    const line = JSON.parse(text) as WireLine;
    if (line.error !== undefined) throw toLedgerError(line.error);
    if (line.result !== undefined) return line.result as T;
    if (line.progress !== undefined) {
      progress(line.progress.message, line.progress.done, line.progress.total);
    }
  }
  throw lostError();
}

/** Lines that a line feed ends, whatever their length, without the blank ones. */
async function* linesOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  let rest = '';
  for (;;) {
    const chunk = await lost(reader.read());
    if (chunk.done) return;
    const lines = (rest + decoder.decode(chunk.value, { stream: true })).split('\n');
    rest = lines.pop()!;
    for (const line of lines) if (line !== '') yield line;
  }
}

async function lost<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (cause) {
    throw lostError(cause);
  }
}

function lostError(cause?: unknown): LedgerError {
  return new LedgerError('ledger_lost', 'the ledger went away before it had answered', {
    kind: 'retry',
    hint: 'Look at its status, then run the command again: doing it twice changes nothing.',
    cause,
  });
}

function toLedgerError({ code, kind, message, hint }: WireError): LedgerError {
  return new LedgerError(code ?? 'unknown', message ?? 'the ledger refused without a reason', {
    kind: kind ?? 'refuse',
    ...(hint === undefined ? {} : { hint }),
  });
}

function toIso(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
