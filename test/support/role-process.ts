/**
 * One role as a process of its own, run and ended as an operator does, or as fate does.
 *
 * Processes are ended by their id, never by name, at the latest when the test process ends; those that
 * are frozen then are ended too.
 */
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './product.ts';

export type RoleName =
  | 'click'
  | 'catalog'
  | 'counter'
  | 'archiver'
  | 'reconciler'
  | 'api'
  | 'shipper';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const READY_MS = 120_000;
const ANSWER_MS = 5_000;
/** Longer than the grace that any role has. */
const STOP_MS = 60_000;

const running = new Set<RoleProcess>();
process.on('exit', () => {
  for (const each of running) each.killNow();
});

export interface RoleOptions {
  /** For people who read a failure. */
  readonly name: string;
  readonly role: RoleName;
  readonly args: readonly string[];
  readonly env: () => Record<string, string>;
  /** Where it says how it is. */
  readonly url: string;
  readonly logPath: string;
}

export interface Stopped {
  readonly code: number;
  readonly tookMs: number;
}

export class RoleProcess {
  readonly name: string;
  readonly role: RoleName;
  readonly url: string;
  /** Exit codes of times that it ended without being told to. */
  readonly endedByItself: number[] = [];
  readonly #options: RoleOptions;
  #process: Bun.Subprocess | null = null;
  #isFrozen = false;

  constructor(options: RoleOptions) {
    this.#options = options;
    this.name = options.name;
    this.role = options.role;
    this.url = options.url;
    running.add(this);
  }

  /** Under the name, and on the folder and ports, that it had before. */
  start(): void {
    const { args, env, logPath } = this.#options;
    mkdirSync(dirname(logPath), { recursive: true });
    const log = openSync(logPath, 'a');
    const child = Bun.spawn([process.execPath, MAIN, ...args], {
      env: env(),
      stdin: 'ignore',
      stdout: log,
      stderr: log,
    });
    closeSync(log);
    this.#process = child;
    this.#isFrozen = false;
    void child.exited.then((code) => {
      if (this.#process !== child) return;
      this.#process = null;
      this.endedByItself.push(code);
    });
  }

  get isRunning(): boolean {
    return this.#process !== null;
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  get output(): string {
    return readFileSync(this.#options.logPath, 'utf8');
  }

  /** Waits until it does its work. */
  ready(withinMs = READY_MS): Promise<void> {
    return this.says(/^200/, withinMs);
  }

  /** Waits until it says so of itself. */
  async says(words: RegExp, withinMs = READY_MS): Promise<void> {
    let said = '';
    try {
      await eventually(
        `${this.name} says ${words}`,
        async () => {
          if (!this.isRunning) throw new Error(`${this.name} has ended`);
          said = await this.readiness();
          return words.test(said);
        },
        withinMs,
      );
    } catch (error) {
      throw new Error(`${String(error)}; it says: ${said}\n${this.output.slice(-4_000)}`);
    }
  }

  /** `200 ready`, or 503 with what it waits for; `no answer` when it gives none. */
  async readiness(): Promise<string> {
    try {
      const response = await this.#get('/readyz');
      return `${response.status} ${(await response.text()).trim()}`;
    } catch {
      return 'no answer';
    }
  }

  /** The sum of a metric's samples that have these labels; not a number while it gives no answer. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    try {
      const text = await (await this.#get('/metrics')).text();
      return sumOfSamples(text, `clickledger_${name}`, labels);
    } catch {
      return Number.NaN;
    }
  }

  #get(path: string): Promise<Response> {
    return fetch(`${this.url}${path}`, { signal: AbortSignal.timeout(ANSWER_MS) });
  }

  /** SIGKILL; returns when the process is gone. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.killNow();
    await child?.exited;
  }

  killNow(): void {
    const child = this.#process;
    this.#process = null;
    child?.kill('SIGCONT');
    child?.kill('SIGKILL');
  }

  freeze(): void {
    this.#process?.kill('SIGSTOP');
    this.#isFrozen = true;
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
    this.#isFrozen = false;
  }

  /** SIGTERM, as a service manager sends it. */
  async stop(): Promise<Stopped> {
    const child = this.#process;
    if (child === null) throw new Error(`${this.name} does not run:\n${this.output}`);
    this.#process = null;
    const askedMs = performance.now();
    child.kill('SIGTERM');
    const code = await Promise.race([child.exited, Bun.sleep(STOP_MS).then(() => null)]);
    if (code !== null) return { code, tookMs: performance.now() - askedMs };
    child.kill('SIGKILL');
    throw new Error(`${this.name} did not stop:\n${this.output.slice(-4_000)}`);
  }

  async dispose(): Promise<void> {
    await this.kill();
    running.delete(this);
  }
}

export function sumOfSamples(
  text: string,
  name: string,
  labels: Readonly<Record<string, string>>,
): number {
  let sum = 0;
  for (const [, given = '', value] of text.matchAll(
    new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'),
  )) {
    const isMeant = Object.entries(labels).every(([label, is]) =>
      given.includes(`${label}="${is}"`),
    );
    if (isMeant) sum += Number(value);
  }
  return sum;
}
