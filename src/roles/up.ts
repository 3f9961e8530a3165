/**
 * `clickledger up`: starts the click workers and the ledger (or, where roles run on their own, this
 * machine's share of them) as processes of their own, keeps them running, and stops them in order.
 *
 * U1 One `up` per data folder: a second one is refused before it touches anything.
 * U2 A process that ends on its own is started again, sooner the longer it ran before.
 * U3 Stopping first ends the click workers (they finish what they have taken), then the others.
 * U4 A worker whose supervisor is gone stops by itself: its standard input ends.
 */
import { mkdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { ensureFirstKey } from '../ads/keys.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { monotonicMs, shiftedClock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { takeLock } from '../platform/lock.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { withKeys } from './access.ts';
import { untilAborted } from './readiness.ts';

const RESTART_MIN_MS = 200;
const RESTART_MAX_MS = 10_000;
/** A process that ran this long has started well: its next restart is quick again. */
const SETTLED_MS = 10_000;
/** Beyond the drain time of a worker, and long enough for the ledger to finish a recount step. */
const STOP_GRACE_MS = 30_000;
/** A role may take its grace period twice: to finish, and to close. */
const graceMs = ({ control, role }: Config): number =>
  control.kind === 'sqlite' ? STOP_GRACE_MS : Math.max(STOP_GRACE_MS, 2 * role.drainMs + 5_000);
const MAIN = join(import.meta.dir, '..', 'main.ts');

/** Where both want a core, redirects come first: the ledger can be late by seconds, a redirect cannot. */
const LEDGER_NICENESS = 10;

interface ChildSpec {
  readonly name: string;
  /** 0 is usual; more gives way to others. */
  readonly niceness: number;
  readonly args: readonly string[];
  /** What it reads first: the configuration, whose secrets must not be on a command line. */
  readonly firstLine: string;
  /** How long it may take to stop. */
  readonly graceMs: number;
}

class Child {
  readonly spec: ChildSpec;
  readonly #logger: Logger;
  #process: Bun.Subprocess<'pipe', 'inherit', 'inherit'> | null = null;
  #stopping = false;
  #backoffMs = RESTART_MIN_MS;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(spec: ChildSpec, logger: Logger) {
    this.spec = spec;
    this.#logger = logger;
  }

  start(): void {
    const startedMs = monotonicMs();
    this.#process = Bun.spawn([process.execPath, MAIN, ...this.spec.args], {
      stdin: 'pipe',
      stdout: 'inherit',
      stderr: 'inherit',
    });
    this.#tell(this.#process.stdin);
    this.#giveWay(this.#process.pid);
    void this.#process.exited.then((code) => {
      if (this.#stopping) return;
      const ranMs = monotonicMs() - startedMs;
      this.#backoffMs =
        ranMs > SETTLED_MS ? RESTART_MIN_MS : Math.min(RESTART_MAX_MS, this.#backoffMs * 2);
      const { name } = this.spec;
      this.#logger.error({ child: name, code, restartInMs: this.#backoffMs }, `${name} has ended`);
      this.#timer = setTimeout(() => this.start(), this.#backoffMs);
    });
  }

  #tell(stdin: Bun.FileSink): void {
    stdin.write(`${this.spec.firstLine}\n`);
    // One that has ended already is started again, and told again.
    void Promise.resolve(stdin.flush()).catch(() => {});
  }

  /** Right after the start, so that the threads which come later inherit it. */
  #giveWay(pid: number): void {
    if (this.spec.niceness === 0) return;
    try {
      setPriority(pid, this.spec.niceness);
    } catch (error) {
      this.#logger.warn({ child: this.spec.name, err: error }, 'its priority cannot be lowered');
    }
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const child = this.#process;
    if (child === null || child.exitCode !== null) return;
    child.kill('SIGTERM');
    const stopped = await Promise.race([
      child.exited.then(() => true),
      Bun.sleep(this.spec.graceMs),
    ]);
    if (stopped === true) return;
    this.#logger.error({ child: this.spec.name }, 'did not stop in time and was killed');
    child.kill('SIGKILL');
    await child.exited;
  }
}

export async function runUp(
  config: Config,
  stop: AbortSignal,
  print: (line: string) => void,
): Promise<void> {
  const logger = createLogger(config.logLevel, 'up');
  const paths = dataPaths(config.dataDir);
  mkdirSync(paths.root, { recursive: true, mode: 0o700 });
  const lock = takeLock(paths.run, 'up', 'Another "clickledger up" runs on this data folder.');
  await requireFreePorts(config);
  await createFirstKey(config, logger, print);
  const workers = Array.from(
    { length: config.click.workers },
    (_, index) => new Child(childOf(config, { name: 'click', index, niceness: 0 }), logger),
  );
  const others = otherRoles(config).map((spec) => new Child(spec, logger));
  for (const child of [...others, ...workers]) child.start();
  for (const child of [...others, ...workers])
    logger.info({ pid: child.pid }, `started ${child.spec.name}`);
  print(`clicks  http://localhost:${config.click.port}/v1/c   (${workers.length} workers)`);
  print(`API     http://localhost:${config.api.port}/`);
  print(`data    ${paths.root}`);
  print('Stop with Ctrl-C.');
  await untilAborted(stop);
  logger.info('stopping');
  await Promise.all(workers.map((worker) => worker.stop())); // U3
  await Promise.all(others.map((other) => other.stop()));
  lock.release();
  logger.info('stopped');
}

function childOf(
  config: Config,
  role: { readonly name: string; readonly index?: number; readonly niceness: number },
): ChildSpec {
  const args = role.index === undefined ? [role.name] : [role.name, String(role.index)];
  return {
    name: args.join('-'),
    niceness: role.niceness,
    args: ['run-role', ...args, '--config-json', '-'],
    firstLine: JSON.stringify(config),
    graceMs: graceMs(config),
  };
}

/** Everything but the click workers: the ledger, or the roles that share its work with other machines. */
function otherRoles(config: Config): ChildSpec[] {
  const niceness = LEDGER_NICENESS;
  if (config.control.kind === 'sqlite') return [childOf(config, { name: 'ledger', niceness })];
  const counters = Array.from({ length: config.counter.workers }, (_, index) => index);
  const roles: { readonly name: string; readonly index?: number }[] = [
    { name: 'catalog' },
    ...counters.map((index) => ({ name: 'counter', index })),
    { name: 'archiver' },
    { name: 'reconciler' },
    { name: 'api' },
  ];
  return roles.map((role, at) => childOf(withRolePort(config, at), { ...role, niceness }));
}

/** Roles of one machine listen on ports that follow each other. */
function withRolePort(config: Config, at: number): Config {
  const { role } = config;
  return { ...config, role: { ...role, port: role.port === 0 ? 0 : role.port + at } };
}

/** The two-command start must be able to sign a link. */
async function createFirstKey(
  config: Config,
  logger: Logger,
  print: (line: string) => void,
): Promise<void> {
  const clock = shiftedClock(config.clockOffsetMs);
  try {
    const key = await withKeys(config, (keys) => ensureFirstKey(keys, clock));
    if (key !== null) print(`created the signing key ${key.kid}; see "clickledger key list"`);
  } catch (error) {
    // Clicks on links that this machine has keys for are taken all the same.
    if (!(error instanceof LedgerError) || error.kind !== 'retry') throw error;
    logger.warn({ err: error }, 'whether there is a signing key cannot be seen now');
  }
}

/**
 * Looks whether the ports are free, before children are started that would fail one by one. Click
 * workers share their port, so a stranger's shared socket on it would take clicks away unseen.
 */
async function requireFreePorts(config: Config): Promise<void> {
  const wanted = [
    { what: 'click', port: config.click.port, hostname: config.click.host },
    { what: 'api', port: config.api.port, hostname: config.api.host },
  ];
  for (const { what, port, hostname } of wanted) {
    if (port === 0) {
      throw new LedgerError('port_zero', `"up" needs a fixed ${what} port, not 0`, {
        hint: `Choose one with --${what}-port.`,
      });
    }
    try {
      Bun.listen({ hostname, port, exclusive: true, socket: { data() {} } }).stop(true);
    } catch (error) {
      throw new LedgerError('port_in_use', `port ${port} is in use`, {
        hint: `Choose another with --${what}-port, or stop what listens there.`,
        cause: error,
      });
    }
  }
}
