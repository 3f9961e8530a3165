/**
 * A private PostgreSQL on a free loopback port, in a temporary folder and as an unprivileged user.
 *
 * It is stopped by its own process id, at the latest when the test process ends. Where PostgreSQL is
 * not installed and this is root on Debian, its package is installed; elsewhere `postgresMissing` says
 * why tests that need it are skipped.
 */
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import { freePort } from './product.ts';
import { tempDir } from './temp-dir.ts';

const DEBIAN_DIR = '/usr/lib/postgresql';
const START_MS = 60_000;
const SUPERUSER = 'postgres';

const running = new Set<TestPostgres>();
process.on('exit', () => {
  for (const each of running) each.kill();
});

/** Why there is no PostgreSQL here, or null when there is. Installs it where it can. */
export function postgresMissing(): string | null {
  if (binaries() === null) install();
  return binaries() === null ? 'PostgreSQL is not installed and cannot be installed here' : null;
}

function install(): void {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || Bun.which('apt-get') === null) return;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const apt = (...args: string[]): boolean =>
    Bun.spawnSync(['apt-get', '-q', ...args], { env, stdout: 'ignore' }).exitCode === 0;
  const packages = ['install', '-y', '--no-install-recommends', 'postgresql'];
  if (!apt(...packages) && apt('update')) apt(...packages);
}

/** The newest version's folder of programs. */
function binaries(): string | null {
  if (existsSync(DEBIAN_DIR)) {
    const dirs = readdirSync(DEBIAN_DIR)
      .sort((one, other) => Number(other) - Number(one))
      .map((version) => join(DEBIAN_DIR, version, 'bin'));
    const found = dirs.find((each) => existsSync(join(each, 'initdb')));
    if (found !== undefined) return found;
  }
  const onPath = Bun.which('initdb');
  return onPath === null || Bun.which('postgres') === null ? null : join(onPath, '..');
}

export class TestPostgres {
  readonly port: number;
  readonly version: string;
  readonly #bin: string;
  readonly #home = tempDir('postgres');
  #server: Bun.Subprocess | null = null;
  #clients: SQL[] = [];

  private constructor(bin: string, port: number) {
    this.#bin = bin;
    this.port = port;
    this.version = run([join(bin, 'postgres'), '--version']);
    running.add(this);
  }

  /** A fresh cluster, started. With `tls` it has a certificate of its own making for 127.0.0.1. */
  static async create(options: { tls?: boolean } = {}): Promise<TestPostgres> {
    const bin = binaries();
    if (bin === null) throw new Error('PostgreSQL is not installed');
    const postgres = new TestPostgres(bin, await freePort());
    postgres.#initialise();
    if (options.tls === true) postgres.#makeCertificate();
    await postgres.start();
    return postgres;
  }

  get url(): string {
    return this.urlOf(SUPERUSER);
  }

  urlOf(user: string, database = 'postgres'): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  /** Makes an empty database; returns where it is. */
  async database(name: string): Promise<string> {
    const sql = new SQL(this.url, { max: 1 });
    await sql.unsafe(`CREATE DATABASE ${name}`);
    await sql.close();
    return this.urlOf(SUPERUSER, name);
  }

  get #dataDir(): string {
    return join(this.#home.path, 'cluster', 'data');
  }

  /** PostgreSQL refuses to run as root; its package brings a user for it. */
  get #asUser(): readonly string[] {
    if (process.getuid?.() !== 0) return [];
    return ['setpriv', '--reuid=postgres', '--regid=postgres', '--init-groups'];
  }

  #initialise(): void {
    const cluster = join(this.#home.path, 'cluster');
    mkdirSync(cluster, { mode: 0o700 });
    if (process.getuid?.() === 0) {
      const id = (flag: string): number => Number(run(['id', flag, 'postgres']));
      chownSync(this.#home.path, id('-u'), id('-g'));
      chownSync(cluster, id('-u'), id('-g'));
    }
    const options = ['-D', this.#dataDir, '-A', 'trust', '-U', SUPERUSER, '--no-sync'];
    run([...this.#asUser, join(this.#bin, 'initdb'), ...options, '-E', 'UTF8']);
  }

  get certificate(): string {
    return join(this.#home.path, 'cluster', 'server.crt');
  }

  #makeCertificate(): void {
    const key = join(this.#home.path, 'cluster', 'server.key');
    const files = ['-keyout', key, '-out', this.certificate];
    const names = ['-subj', '/CN=postgres', '-addext', 'subjectAltName=IP:127.0.0.1'];
    const kind = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
    run([...this.#asUser, 'openssl', ...kind, ...files, ...names, '-days', '2']);
  }

  async start(): Promise<void> {
    const { port } = this;
    const socketDir = join(this.#home.path, 'cluster');
    const where = ['-p', String(port), '-h', '127.0.0.1', '-k', socketDir];
    const options = ['-F', '-c', 'max_connections=100', '-c', 'shared_buffers=64MB'];
    if (existsSync(this.certificate)) {
      const key = join(socketDir, 'server.key');
      options.push('-c', 'ssl=on', '-c', `ssl_cert_file=${this.certificate}`);
      options.push('-c', `ssl_key_file=${key}`);
    }
    this.#server = Bun.spawn(
      [...this.#asUser, join(this.#bin, 'postgres'), '-D', this.#dataDir, ...where, ...options],
      { stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' },
    );
    await this.#untilReady();
  }

  async #untilReady(): Promise<void> {
    const untilMs = performance.now() + START_MS;
    for (;;) {
      const sql = new SQL(this.url, { max: 1 });
      try {
        await sql`SELECT 1`;
        return;
      } catch (error) {
        if (performance.now() > untilMs || this.#server?.exitCode !== null) throw error;
        await Bun.sleep(50);
      } finally {
        await sql.close();
      }
    }
  }

  /** PostgreSQL's "immediate" stop: to its clients the machine is gone. */
  async stop(): Promise<void> {
    this.thaw();
    await this.#closeClients();
    this.#server?.kill('SIGQUIT');
    await this.#server?.exited;
    this.#server = null;
  }

  /** All of its processes stand still: connections stay, and nothing answers. */
  freeze(): void {
    // The server first, so that it starts no process that is not seen here.
    for (let stopped = 0, pids = this.#pids(); stopped < pids.length; pids = this.#pids()) {
      for (const pid of pids.slice(0, stopped + 1)) signal(pid, 'SIGSTOP');
      if (pids.slice(0, stopped + 1).every(standsStill)) stopped++;
    }
  }

  thaw(): void {
    for (const pid of this.#pids()) signal(pid, 'SIGCONT');
  }

  /** The server, and those that it has started for its clients. */
  #pids(): readonly number[] {
    const pid = this.#server?.pid;
    if (pid === undefined) return [];
    const { stdout } = Bun.spawnSync(['pgrep', '-P', String(pid)]);
    return [pid, ...stdout.toString().trim().split('\n').filter(Boolean).map(Number)];
  }

  /** A client of the test's own; closed when the server stops. */
  connect(max = 2): SQL {
    const sql = new SQL(this.url, { max });
    this.#clients.push(sql);
    return sql;
  }

  async #closeClients(): Promise<void> {
    await Promise.all(this.#clients.map((each) => each.close({ timeout: 0 })));
    this.#clients = [];
  }

  kill(): void {
    this.thaw();
    this.#server?.kill('SIGQUIT');
  }

  async dispose(): Promise<void> {
    await this.stop();
    running.delete(this);
    this.#home.remove();
  }
}

/** A process that has ended by itself meanwhile needs none. */
function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  if (existsSync(`/proc/${pid}`)) process.kill(pid, name);
}

function standsStill(pid: number): boolean {
  const status = `/proc/${pid}/status`;
  return existsSync(status) && /^State:\s+T/m.test(readFileSync(status, 'utf8'));
}

function run(command: readonly string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command]);
  if (exitCode !== 0) throw new Error(`${command.join(' ')} failed: ${stderr}`);
  return stdout.toString().trim();
}
