/**
 * An HTTP proxy in front of an S3 server that does to requests what networks and servers do.
 *
 * Faults are taken from a list, one for each request that `applies` picks, until the list is empty.
 * The `Host` header stays as the client signed it.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Fault =
  | 'none'
  /** The connection breaks before the server has seen the request. */
  | 'reset'
  /** The server has done it, and the answer is lost. */
  | 'answer lost'
  | '500'
  | '503'
  | '429'
  /** Nothing happens for longer than the client waits; then it is done after all. */
  | 'late'
  /** Nothing ever happens. */
  | 'hangs'
  /** The answer breaks off in the middle of its body. */
  | 'answer cut'
  /** One bit of the answer's body is another one. */
  | 'answer damaged'
  /** One bit of the request's body is another one. */
  | 'request damaged'
  /** Something on the way answers for the server. */
  | 'stranger';

export interface Seen {
  readonly method: string;
  readonly url: string;
}

export class S3FaultProxy {
  faults: Fault[] = [];
  applies: (seen: Seen) => boolean = () => true;
  /** Requests whose conditions the server seems not to see: what failed because of one has worked. */
  ignoresConditions: (seen: Seen) => boolean = () => false;
  /** Answers "not implemented" to every request that has a condition. */
  refusesConditions = false;
  readonly seen: Seen[] = [];
  readonly #upstreamPort: number;
  readonly #lateMs: number;
  readonly #server = createServer((incoming, answer) => {
    const taken = this.#take(incoming, answer).catch(() => answer.destroy());
    this.#running.add(taken);
    taken.finally(() => this.#running.delete(taken));
  });
  readonly #running = new Set<Promise<unknown>>();

  private constructor(upstreamPort: number, lateMs: number) {
    this.#upstreamPort = upstreamPort;
    this.#lateMs = lateMs;
  }

  static async start(upstreamPort: number, lateMs: number): Promise<S3FaultProxy> {
    const proxy = new S3FaultProxy(upstreamPort, lateMs);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Waits until what is under way, also late, has arrived at the server. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #take(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const seen = { method: incoming.method ?? '', url: incoming.url ?? '' };
    this.seen.push(seen);
    const fault = this.applies(seen) ? (this.faults.shift() ?? 'none') : 'none';
    if (fault === 'reset') return void incoming.socket.destroy();
    const body = await bytesOf(incoming);
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = incoming.headers;
    if (this.refusesConditions && (ifMatch || ifNoneMatch)) return refuse(answer, 501);
    if (fault === '500' || fault === '503' || fault === '429') return refuse(answer, Number(fault));
    if (fault === 'stranger') return void answer.writeHead(200).end('<html>Please log in</html>');
    if (fault === 'hangs') return;
    if (fault === 'late') await Bun.sleep(this.#lateMs);
    if (fault === 'request damaged') flipBit(body);
    const upstream = await this.#forward(incoming, body);
    if (fault === 'answer lost' || fault === 'late') return void incoming.socket.destroy();
    if (fault === 'answer damaged') flipBit(upstream.body);
    if (upstream.status === 412 && this.ignoresConditions(seen)) return pretend(answer);
    answer.writeHead(upstream.status, upstream.headers);
    if (fault === 'answer cut' && upstream.body.length > 0) {
      answer.write(upstream.body.subarray(0, upstream.body.length >> 1));
      return void setTimeout(() => incoming.socket.destroy(), 5);
    }
    answer.end(upstream.body);
  }

  async #forward(incoming: IncomingMessage, body: Buffer) {
    const { method, url, headers } = incoming;
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = { ...headers, 'content-length': String(body.length), connection: 'close' };
      const options = { host: '127.0.0.1', port: this.#upstreamPort, method, path: url };
      request({ ...options, headers: sent, agent: false }, resolve)
        .on('error', reject)
        .end(body);
    });
    const { statusCode: status = 0, headers: given } = response;
    const { connection: _, 'transfer-encoding': __, ...kept } = given;
    return { status, headers: kept, body: await bytesOf(response) };
  }
}

function refuse(answer: ServerResponse, status: number): void {
  const codes: Record<number, string> = { 500: 'InternalError', 501: 'NotImplemented' };
  const code = codes[status] ?? 'SlowDown';
  const xml = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>not now</Message></Error>`;
  answer.writeHead(status, { 'Content-Type': 'application/xml' }).end(xml);
}

/** The answer to a put or a completion that has overwritten the object. */
function pretend(answer: ServerResponse): void {
  const xml = '<CompleteMultipartUploadResult><ETag>"tag"</ETag></CompleteMultipartUploadResult>';
  answer.writeHead(200, { ETag: '"tag"', 'Content-Type': 'application/xml' }).end(xml);
}

function flipBit(bytes: Buffer): void {
  if (bytes.length > 0) bytes[bytes.length >> 1]! ^= 1;
}

async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
