/** Starts, kills and restarts the test server of `clickhouse-http.ts`, and makes it misbehave. */
import { fileURLToPath } from 'node:url';
import type { ClickHouseServer } from '../../src/warehouse/clickhouse/client.ts';
import { tempDir } from './temp-dir.ts';

export interface Fault {
  /**
   * `reset-before`, `reset-after`: the connection breaks before, or after, the statement ran.
   * `page`: a proxy answers 503 with a page. `exception`: the engine refuses with `code`.
   * `slow`: the answer comes after `delayMs`.
   */
  readonly kind: 'reset-before' | 'reset-after' | 'page' | 'exception' | 'slow';
  /** A part of the statement's text. */
  readonly match: string;
  readonly times: number;
  readonly code?: number;
  readonly delayMs?: number;
}

export interface Seen {
  /** The statement's beginning, without its rows. */
  readonly query: string;
  /** Digest of the rows that came with it; empty when none did. */
  readonly rows: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly failed: boolean;
}

export const USER = 'ledger';
export const PASSWORD = 'secret of the tests';

const SCRIPT = fileURLToPath(new URL('clickhouse-http.ts', import.meta.url));

const servers = new Set<TestClickHouse>();
process.on('exit', () => {
  for (const server of servers) server.kill();
});

export class TestClickHouse {
  readonly #dir = tempDir('clickhouse');
  #process: Bun.Subprocess<'pipe', 'pipe', 'inherit'> | null = null;
  #port = 0;

  static async start(): Promise<TestClickHouse> {
    const server = new TestClickHouse();
    servers.add(server);
    await server.start();
    return server;
  }

  /** On the data, and the port, that it had before. */
  async start(): Promise<void> {
    const child = Bun.spawn([process.execPath, SCRIPT, this.#dir.path, String(this.#port)], {
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    });
    this.#process = child;
    let text = '';
    for await (const chunk of child.stdout) {
      text += new TextDecoder().decode(chunk);
      const ready = /^ready (\d+)$/m.exec(text);
      if (ready === null) continue;
      this.#port = Number(ready[1]);
      return;
    }
    throw new Error('the test server did not start');
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  options(more: Partial<ClickHouseServer> = {}): ClickHouseServer {
    return {
      url: this.url,
      database: 'clickledger',
      username: USER,
      password: PASSWORD,
      cluster: '',
      replicated: false,
      requestTimeoutMs: 60_000,
      maxOpenConnections: 4,
      ...more,
    };
  }

  /** SIGKILL; returns when the process is gone. */
  async crash(): Promise<void> {
    const child = this.#process;
    this.kill();
    await child?.exited;
  }

  /** Accepts connections and answers nothing, as a machine that hangs. */
  freeze(): void {
    this.#process?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
  }

  kill(): void {
    this.#process?.kill('SIGKILL');
    this.#process = null;
  }

  async fail(fault: Fault): Promise<void> {
    await fetch(`${this.url}/faults`, { method: 'POST', body: JSON.stringify(fault) });
  }

  /** What came in since the start, oldest first. */
  async statements(match: string): Promise<Seen[]> {
    const all = (await (await fetch(`${this.url}/statements`)).json()) as Seen[];
    return all.filter(({ query }) => query.includes(match));
  }

  async dispose(): Promise<void> {
    await this.crash();
    servers.delete(this);
    this.#dir.remove();
  }
}
