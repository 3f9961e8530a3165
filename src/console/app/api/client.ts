/**
 * Asks the API, with the token in a header and never in an address.
 *
 * A token that is refused ends the session at once, whichever request found out.
 */
import { readLines } from './lines.ts';
import { ApiError, isAbort, problemOf, unreachable } from './problem.ts';

export type Params = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface Ask {
  readonly params?: Params;
  readonly signal?: AbortSignal | undefined;
  readonly accept?: string;
}

export interface Send extends Ask {
  readonly body?: BodyInit;
  readonly type?: string;
}

export interface ActionProgress {
  readonly message: string;
  readonly done?: number;
  readonly total?: number;
}

interface ActionLine {
  readonly progress?: ActionProgress;
  readonly result?: object;
  readonly error?: { code: string; message: string; hint?: string };
}

export class ApiClient {
  readonly #token: string;
  readonly #onRefused: () => void;

  constructor(token: string, onRefused: () => void) {
    this.#token = token;
    this.#onRefused = onRefused;
  }

  async get<T>(path: string, ask: Ask = {}): Promise<T> {
    return (await (await this.fetch('GET', path, ask)).json()) as T;
  }

  async post<T>(path: string, body: object): Promise<T> {
    const send = { body: JSON.stringify(body), type: 'application/json' };
    return (await (await this.fetch('POST', path, send)).json()) as T;
  }

  async remove(path: string): Promise<void> {
    await this.fetch('DELETE', path);
  }

  /** A long action: tells its progress, returns its result; one that is cut off has failed. */
  async action<T>(path: string, send: Send, onProgress: (p: ActionProgress) => void): Promise<T> {
    const response = await this.fetch('POST', path, send);
    for await (const line of readLines(response)) {
      if (line.trim() === '') continue;
      const { progress, result, error } = JSON.parse(line) as ActionLine;
      if (progress !== undefined) onProgress(progress);
      if (error !== undefined) throw new ApiError(200, error.code, error.message, error.hint);
      if (result !== undefined) return result as T;
    }
    throw new ApiError(
      0,
      'answer_cut_off',
      'The connection broke before the action was over.',
      'It may have been done all the same, and can be repeated.',
    );
  }

  async fetch(method: string, path: string, send: Send = {}): Promise<Response> {
    const headers = new Headers({ Authorization: `Bearer ${this.#token}` });
    headers.set('Accept', send.accept ?? 'application/json');
    if (send.type !== undefined) headers.set('Content-Type', send.type);
    const init: RequestInit = { method, headers, cache: 'no-store', credentials: 'omit' };
    if (send.body !== undefined) init.body = send.body;
    if (send.signal !== undefined) init.signal = send.signal;
    const response = await fetch(addressOf(path, send.params), init).catch((error: unknown) => {
      throw isAbort(error) ? error : unreachable();
    });
    if (response.ok) return response;
    if (response.status === 401) this.#onRefused();
    throw await problemOf(response);
  }
}

/** Relative to `/console/`, so that the console also works below a path of a proxy. */
export function addressOf(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || (Array.isArray(value) && value.length === 0)) continue;
    query.set(name, Array.isArray(value) ? value.join(',') : String(value));
  }
  const text = query.toString();
  return `..${path}${text === '' ? '' : `?${text}`}`;
}
