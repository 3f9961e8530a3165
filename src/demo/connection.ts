/**
 * One kept-alive HTTP/1.1 connection that sends one request at a time.
 *
 * Written here because the judge must know what happened to each request: a general client takes a
 * proxy from the environment and sends a request again, unasked, when a connection is lost. It reads
 * what the click service answers (a length, no chunks) and calls anything else a bug.
 */
import { connect, type Socket } from 'node:net';
import { assert } from '../platform/errors.ts';

export interface Answer {
  readonly status: number;
  /** Of a redirect. */
  readonly location: string | null;
}

/** The connection ended before the answer was complete: nobody knows what became of the request. */
export class ConnectionLost extends Error {}

interface Waiting {
  readonly isHead: boolean;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

export class HttpConnection {
  readonly #host: string;
  readonly #port: number;
  #socket: Socket | null = null;
  #waiting: Waiting | null = null;
  #received = '';

  constructor(base: URL) {
    this.#host = base.hostname;
    this.#port = Number(base.port === '' ? '80' : base.port);
  }

  /** Connects first when there is no connection, or when the last one was lost or closed. */
  send(method: 'GET' | 'HEAD', target: string, headers: Readonly<Record<string, string>>) {
    assert(this.#waiting === null, 'two requests at a time on one connection');
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const host = `Host: ${this.#host}:${this.#port}\r\n`;
    return new Promise<Answer>((resolve, reject) => {
      this.#waiting = { isHead: method === 'HEAD', resolve, reject };
      this.#socket ??= this.#connect();
      this.#socket.write(`${method} ${target} HTTP/1.1\r\n${host}${lines.join('')}\r\n`, 'latin1');
    });
  }

  close(): void {
    this.#socket?.destroy();
  }

  #connect(): Socket {
    const socket = connect({ host: this.#host.replace(/^\[|\]$/g, ''), port: this.#port });
    socket.setNoDelay(true);
    // Every byte is one character, so that lengths are those of the answer's header.
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => this.#onData(text));
    let why = 'the server closed the connection';
    socket.on('error', (error) => {
      why = error.message;
    });
    socket.on('close', () => {
      if (this.#socket === socket) this.#onLost(why);
    });
    return socket;
  }

  #onLost(why: string): void {
    const waiting = this.#waiting;
    this.#socket = null;
    this.#waiting = null;
    this.#received = '';
    waiting?.reject(new ConnectionLost(why));
  }

  #onData(text: string): void {
    this.#received += text;
    const waiting = this.#waiting;
    const headEnd = this.#received.indexOf('\r\n\r\n');
    if (waiting === null || headEnd < 0) return;
    const head = this.#received.slice(0, headEnd + 2);
    const end = headEnd + 4 + (waiting.isHead ? 0 : bodyLength(head));
    if (this.#received.length < end) return;
    this.#received = this.#received.slice(end);
    this.#waiting = null;
    if (/^connection: *close/im.test(head)) {
      this.#socket?.destroy();
      this.#socket = null;
      this.#received = '';
    }
    waiting.resolve({
      status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? '0'),
      location: /^location: *(.*?)\r$/im.exec(head)?.[1] ?? null,
    });
  }
}

function bodyLength(head: string): number {
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  assert(length !== undefined, `an answer without a length: ${head.split('\r\n')[0]}`);
  return Number(length);
}
