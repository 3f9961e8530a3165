/**
 * A load generator of its own process: HTTP/1.1 over kept-alive loopback connections, one request in
 * flight on each. Bounded in time. Prints one JSON line.
 *
 *   bun bench/load.ts '{"port":8080,"connections":64,"seconds":5,"requests":[…]|{signed:…},"rate":0}'
 *
 * `rate` 0: as fast as answers come (closed loop). Otherwise that many requests a second are started
 * on schedule (open loop) and a request's time counts from when it was due, so that a stall shows.
 */

import { quantile } from './support.ts';
import { ImpressionSource, type SignedTraffic } from './traffic.ts';

export interface LoadOptions {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  /** Requests a second; 0: closed loop. */
  readonly rate: number;
  /** Left out: the constant request `GET /`. */
  readonly signed?: SignedTraffic;
}

export interface LoadResult {
  readonly sent: number;
  readonly redirected: number;
  readonly other: number;
  readonly failed: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

const MAX_SAMPLES = 4_000_000;

interface Connection {
  socket: Bun.Socket<undefined> | null;
  dueMs: number;
  busy: boolean;
}

class Load {
  readonly #options: LoadOptions;
  readonly #next: () => Buffer;
  readonly #latencies = new Float64Array(MAX_SAMPLES);
  readonly #idle: Connection[] = [];
  readonly #waiting: number[] = [];
  #samples = 0;
  #sent = 0;
  #redirected = 0;
  #other = 0;
  #failed = 0;
  #stopped = false;

  constructor(options: LoadOptions, next: () => Buffer) {
    this.#options = options;
    this.#next = next;
  }

  async run(): Promise<LoadResult> {
    const { connections, seconds, rate } = this.#options;
    const all = await Promise.all(Array.from({ length: connections }, () => this.#connect()));
    const startedMs = performance.now();
    if (rate === 0) for (const connection of all) this.#send(connection, performance.now());
    else this.#idle.push(...all);
    const pace = rate === 0 ? null : setInterval(() => this.#pace(startedMs), 1);
    await Bun.sleep(seconds * 1000);
    this.#stopped = true;
    if (pace !== null) clearInterval(pace);
    const elapsedMs = performance.now() - startedMs;
    const done = this.#redirected + this.#other;
    for (let i = 0; i < 200 && all.some((each) => each.busy); i++) await Bun.sleep(10);
    for (const connection of all) connection.socket?.end();
    const sorted = this.#latencies.subarray(0, this.#samples).sort();
    return {
      sent: this.#sent,
      redirected: this.#redirected,
      other: this.#other,
      failed: this.#failed,
      perSecond: (done / elapsedMs) * 1000,
      p50Ms: quantile(sorted, 0.5),
      p99Ms: quantile(sorted, 0.99),
      maxMs: sorted.at(-1) ?? Number.NaN,
    };
  }

  /** Starts every request that is due by now; those without a free connection wait with their time. */
  #pace(startedMs: number): void {
    const nowMs = performance.now();
    const due = Math.floor(((nowMs - startedMs) / 1000) * this.#options.rate);
    let planned = this.#sent + this.#waiting.length;
    for (; planned < due; planned++) {
      const dueMs = startedMs + (planned / this.#options.rate) * 1000;
      const connection = this.#idle.pop();
      if (connection === undefined) this.#waiting.push(dueMs);
      else this.#send(connection, dueMs);
    }
  }

  #send(connection: Connection, dueMs: number): void {
    connection.dueMs = dueMs;
    connection.busy = true;
    this.#sent++;
    connection.socket?.write(this.#next());
  }

  #answered(connection: Connection, data: Buffer): void {
    // '3' of "HTTP/1.1 302"; answers are small and come whole on loopback.
    if (data[9] === 0x33) this.#redirected++;
    else this.#other++;
    const nowMs = performance.now();
    if (this.#samples < MAX_SAMPLES) this.#latencies[this.#samples++] = nowMs - connection.dueMs;
    connection.busy = false;
    if (this.#stopped) return;
    const dueMs = this.#options.rate === 0 ? nowMs : this.#waiting.shift();
    if (dueMs === undefined) this.#idle.push(connection);
    else this.#send(connection, dueMs);
  }

  async #connect(): Promise<Connection> {
    const connection: Connection = { socket: null, dueMs: 0, busy: false };
    connection.socket = await Bun.connect({
      hostname: '127.0.0.1',
      port: this.#options.port,
      socket: {
        data: (_socket, data) => this.#answered(connection, data),
        close: () => {
          if (!this.#stopped) this.#failed++;
          connection.busy = false;
        },
        error: () => {},
      },
    });
    return connection;
  }
}

if (import.meta.main) {
  const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
  const constant = Buffer.from(`GET / HTTP/1.1\r\nHost: localhost:${options.port}\r\n\r\n`);
  const source = options.signed && new ImpressionSource(options.signed, options.port);
  const result = await new Load(options, source ? () => source.next() : () => constant).run();
  source?.save();
  console.log(JSON.stringify(result));
  process.exit(0);
}

/** Runs the generator in a process of its own, so that it does not slow the measured one's loop. */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const child = Bun.spawn([process.execPath, import.meta.path, JSON.stringify(options)], {
    stdout: 'pipe',
    stderr: 'inherit',
  });
  return JSON.parse(await new Response(child.stdout).text()) as LoadResult;
}
