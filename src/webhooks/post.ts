/**
 * Sends one body to one URL and says what came back.
 *
 * Redirects are not followed, no proxy of the environment is used, and of an answer at most 1 KB is
 * read. Where private addresses are refused, the address that was checked is the one that is connected
 * to: a name is not looked up a second time, which could give another answer.
 */
import { lookup as lookUp } from 'node:dns/promises';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { monotonicMs } from '../platform/clock.ts';
import { isPublicAddress } from './addresses.ts';

export interface PostOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly timeoutMs: number;
  readonly allowPrivate: boolean;
  readonly signal: AbortSignal;
}

export interface PostResult {
  /** Null when there was no answer. */
  readonly status: number | null;
  readonly latencyMs: number;
  /** Null after a 2xx. */
  readonly error: string | null;
}

export type Post = (url: string, options: PostOptions) => Promise<PostResult>;

const MAX_ANSWER_BYTES = 1_024;
const MAX_ERROR_LENGTH = 200;

export const post: Post = (url, options) => {
  const startedMs = monotonicMs();
  return new Promise((resolve) => {
    let request: ClientRequest | undefined;
    const finish = (status: number | null, error: string | null): void => {
      clearTimeout(timer);
      options.signal.removeEventListener('abort', onStop);
      request?.destroy();
      resolve({ status, error, latencyMs: Math.round(monotonicMs() - startedMs) });
    };
    const onStop = (): void => finish(null, 'stopped');
    const timer = setTimeout(
      () => finish(null, `no answer within ${options.timeoutMs} ms`),
      options.timeoutMs,
    );
    options.signal.addEventListener('abort', onStop);
    if (options.signal.aborted) return onStop();
    try {
      request = open(url, options);
    } catch (error) {
      return finish(null, errorText(error));
    }
    request.on('error', (error) => finish(null, errorText(error)));
    request.on('response', (answer) => readAnswer(answer, finish));
    request.end(options.body);
  });
};

function open(url: string, { headers, body, allowPrivate }: PostOptions): ClientRequest {
  const { protocol, hostname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  if (!allowPrivate && isIP(host) !== 0 && !isPublicAddress(host)) throw privateAddress(host);
  return (protocol === 'https:' ? httpsRequest : httpRequest)(url, {
    method: 'POST',
    headers: { ...headers, 'Content-Length': String(Buffer.byteLength(body)) },
    // A connection of its own: one that a receiver has closed meanwhile would fail an attempt.
    agent: false,
    ...(allowPrivate ? {} : { lookup: lookupPublic }),
  });
}

const lookupPublic: LookupFunction = (hostname, options, done) => {
  lookUp(hostname, { all: true }).then(
    (addresses) => {
      const other = addresses.find(({ address }) => !isPublicAddress(address));
      if (other !== undefined) return done(privateAddress(hostname), '');
      if (options.all === true) return done(null, addresses);
      const first = addresses[0]!;
      return done(null, first.address, first.family);
    },
    (error: NodeJS.ErrnoException) => done(error, ''),
  );
};

function privateAddress(host: string): Error {
  return new Error(`${host} has an address that is not public (webhooks.allow_private is false)`);
}

/** A 2xx is an answer by its status alone; of others the first bytes may say what is wrong. */
function readAnswer(
  answer: IncomingMessage,
  finish: (status: number | null, error: string | null) => void,
): void {
  const status = answer.statusCode ?? 0;
  if (status >= 200 && status < 300) {
    finish(status, null);
    return;
  }
  const chunks: Buffer[] = [];
  let size = 0;
  const end = (): void => finish(status, answerText(status, Buffer.concat(chunks)));
  answer.on('data', (chunk: Buffer) => {
    if (size >= MAX_ANSWER_BYTES) return;
    chunks.push(chunk.subarray(0, MAX_ANSWER_BYTES - size));
    size += chunk.length;
    if (size >= MAX_ANSWER_BYTES) end();
  });
  answer.on('end', end);
  answer.on('error', end);
}

function answerText(status: number, body: Buffer): string {
  if (status >= 300 && status < 400) return 'a redirect, which is not followed';
  return plainText(body.toString('utf8'));
}

function errorText(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  return plainText(message === undefined || message === '' ? (code ?? 'failed') : message);
}

/** One line, without control characters: it is shown in lists and logs. */
function plainText(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, MAX_ERROR_LENGTH);
}
