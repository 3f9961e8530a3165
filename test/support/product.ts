/**
 * The product as a user runs it: `clickledger up` on a folder of its own, in processes of its own.
 *
 * Every process that a test starts here is ended by `cleanUp`, also when the test failed, and at the
 * latest when the test process ends. Processes are killed by their id, never by name.
 */
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connectAdmin } from '../../src/api/admin-client.ts';
import type { LedgerAdmin } from '../../src/api/admin-port.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { tempDir } from './temp-dir.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const START_MS = 60_000;
const STOP_MS = 45_000;
const COMMAND_MS = 120_000;
const POLL_MS = 25;

export interface ProductOptions {
  readonly workers?: number;
  /** More settings, as `CLICKLEDGER_…` variables; commands get them too. */
  readonly env?: Readonly<Record<string, string>>;
  /** The data folder; a fresh one by default. */
  readonly dataDir?: string;
}

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type Role = 'click' | 'ledger';

const products = new Set<Product>();
process.on('exit', () => {
  for (const product of products) product.killAll();
});

/** Ends everything that tests started, and removes its folders. For `afterAll` and `afterEach`. */
export async function cleanUp(): Promise<void> {
  for (const product of products) await product.dispose();
}

export class Product {
  readonly dataDir: string;
  readonly clickPort: number;
  readonly apiPort: number;
  readonly #options: ProductOptions;
  readonly #home: { path: string; remove: () => void };
  #up: Bun.Subprocess | null = null;

  private constructor(options: ProductOptions, ports: readonly [number, number]) {
    this.#options = options;
    this.#home = tempDir('product');
    this.dataDir = options.dataDir ?? join(this.#home.path, 'data');
    [this.clickPort, this.apiPort] = ports;
    products.add(this);
  }

  /** Nothing is started yet: commands can be run on the folder first. */
  static async create(options: ProductOptions = {}): Promise<Product> {
    return new Product(options, [await freePort(), await freePort()]);
  }

  get clickUrl(): string {
    return `http://127.0.0.1:${this.clickPort}`;
  }

  get apiUrl(): string {
    return `http://127.0.0.1:${this.apiPort}`;
  }

  get admin(): LedgerAdmin {
    return connectAdmin(dataPaths(this.dataDir).adminSocket);
  }

  get upPid(): number {
    return this.#running().pid;
  }

  /** What `up` and its children have printed so far. */
  get output(): string {
    return readFileSync(this.#logPath, 'utf8');
  }

  get #logPath(): string {
    return join(this.#home.path, 'up.log');
  }

  #running(): Bun.Subprocess {
    if (this.#up === null) throw new Error('the product is not running');
    return this.#up;
  }

  /** The arguments of `up`, as a user would write them. */
  get upArguments(): string[] {
    const { workers = 1 } = this.#options;
    const flags = { 'click-port': this.clickPort, 'api-port': this.apiPort };
    const ports = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
    return ['up', '--data', this.dataDir, ...ports, '--click-workers', String(workers)];
  }

  /** Starts `up` and waits until both ports are ready. */
  async start(...more: string[]): Promise<void> {
    mkdirSync(this.#home.path, { recursive: true });
    const log = openSync(this.#logPath, 'a');
    this.#up = Bun.spawn([process.execPath, MAIN, ...this.upArguments, ...more], {
      env: this.#environment(),
      stdin: 'ignore',
      stdout: log,
      stderr: log,
    });
    closeSync(log);
    await this.ready();
  }

  /** Waits until clicks are taken, the API answers and every child runs. */
  async ready(): Promise<void> {
    const up = this.#running();
    await eventually('the product is ready', async () => {
      if (up.exitCode !== null) throw new Error(`"up" has ended:\n${this.output}`);
      const urls = [`${this.clickUrl}/readyz`, `${this.apiUrl}/readyz`];
      return (await Promise.all(urls.map(answers))).every((isReady) => isReady);
    });
  }

  /** Runs a command on the data folder, like a user in another terminal. */
  async run(...args: string[]): Promise<CommandResult> {
    return runCommand([...args, '--data', this.dataDir], this.#environment());
  }

  /** Runs a command that must succeed; returns what it printed. */
  async do(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args);
    if (code !== 0) throw new Error(`"${args.join(' ')}" ended with ${code}: ${stdout}${stderr}`);
    return stdout;
  }

  #environment(): Record<string, string> {
    return environment({
      CLICKLEDGER_LOG_LEVEL: 'warn',
      // Tests ask in a loop until something is so.
      CLICKLEDGER_API_RATE_LIMIT_PER_MINUTE: '0',
      ...this.#options.env,
    });
  }

  /** Ids of the running children of `up`, by what they do. */
  children(role: Role): number[] {
    if (this.#up === null || this.#up.exitCode !== null) return [];
    return childrenOf(this.#up.pid).filter((pid) => commandLine(pid).includes(role));
  }

  /** Kills one child as a crash would; returns its id, or null when none runs right now. */
  crash(role: Role, which = 0): number | null {
    const pids = this.children(role);
    const pid = pids[which % Math.max(1, pids.length)];
    if (pid === undefined) return null;
    kill(pid);
    return pid;
  }

  /** Kills `up` itself, and nothing else. */
  async crashUp(): Promise<void> {
    const up = this.#running();
    up.kill('SIGKILL');
    await up.exited;
    this.#up = null;
  }

  /** SIGTERM, as a service manager sends it; returns the exit code. */
  async stop(): Promise<number> {
    const up = this.#running();
    up.kill('SIGTERM');
    const late = Bun.sleep(STOP_MS).then(() => 'late' as const);
    const code = await Promise.race([up.exited, late]);
    if (code === 'late') throw new Error(`"up" did not stop:\n${this.output}`);
    this.#up = null;
    return code;
  }

  /** Kills all that still runs of it, at once. */
  killAll(): void {
    if (this.#up === null || this.#up.exitCode !== null) return;
    const pids = childrenOf(this.#up.pid);
    this.#up.kill('SIGKILL');
    for (const pid of pids) kill(pid);
  }

  async dispose(): Promise<void> {
    this.killAll();
    await this.#up?.exited;
    this.#up = null;
    products.delete(this);
    this.#home.remove();
  }
}

/** Runs `clickledger` with these arguments to its end. */
export async function runCommand(
  args: readonly string[],
  env: Record<string, string> = environment(),
): Promise<CommandResult> {
  const child = Bun.spawn([process.execPath, MAIN, ...args], {
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: COMMAND_MS,
    killSignal: 'SIGKILL',
  });
  const [stdout, stderr] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, stdout, stderr };
}

/** Starts a command that the test means to kill; what it says on the way is in `stderr`. */
export function startCommand(args: readonly string[], env = environment()) {
  return Bun.spawn([process.execPath, MAIN, ...args], {
    env,
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
    timeout: COMMAND_MS,
    killSignal: 'SIGKILL',
  });
}

/** The test's environment without settings of whoever runs it. */
export function environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('CLICKLEDGER_'));
  return { ...(Object.fromEntries(own) as Record<string, string>), ...more };
}

/** Waits until the condition holds; fails with what it was after `withinMs`. */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = START_MS,
): Promise<void> {
  const untilMs = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > untilMs) throw new Error(`waited in vain until ${what}`);
    await Bun.sleep(POLL_MS);
  }
}

export function isAlive(pid: number): boolean {
  try {
    // A process that has ended and was not waited for is no longer alive.
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

function childrenOf(pid: number): number[] {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`);
    const lists = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8'));
    return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number)).filter(isAlive);
  } catch {
    return [];
  }
}

/** The role is the argument after `run-role`. */
function commandLine(pid: number): string[] {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return args.slice(args.indexOf('run-role') + 1, args.indexOf('run-role') + 2);
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

function answers(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(2_000) }).then(
    (response) => response.ok,
    () => false,
  );
}
