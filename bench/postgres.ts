/** A private PostgreSQL with its default settings, in a folder of its own on a free loopback port. */

import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQL } from 'bun';

const DEBIAN_DIR = '/usr/lib/postgresql';
const START_TIMEOUT_MS = 30_000;

export interface PrivatePostgres {
  readonly url: string;
  connect(connections: number): { sql: SQL; version: string };
  stop(): Promise<void>;
}

/** Null when PostgreSQL is not installed. */
export async function startPostgres(): Promise<PrivatePostgres | null> {
  const bin = findBinaries();
  if (bin === null) return null;
  const number = /[\d.]+/.exec(run([join(bin, 'postgres'), '--version']))?.[0];
  const version = `PostgreSQL ${number}`;
  const dir = mkdtempSync(join(tmpdir(), 'clickledger-postgres-'));
  // PostgreSQL refuses to run as root; its package brings a user for it.
  const asRoot = process.getuid?.() === 0;
  if (asRoot) chownSync(dir, Number(run(['id', '-u', 'postgres'])), -1);
  const prefix = asRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--init-groups'] : [];
  const data = join(dir, 'data');
  run([...prefix, join(bin, 'initdb'), '-D', data, '-A', 'trust', '-U', 'postgres']);
  const port = await freePort();
  const server = Bun.spawn(
    [
      ...prefix,
      join(bin, 'postgres'),
      '-D',
      data,
      '-p',
      String(port),
      '-h',
      '127.0.0.1',
      '-k',
      dir,
    ],
    { stdout: 'ignore', stderr: 'ignore' },
  );
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const stop = async (): Promise<void> => {
    // PostgreSQL's "fast" shutdown: it does not wait for clients.
    server.kill('SIGINT');
    await server.exited;
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    await untilReady(url);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url,
    stop,
    connect: (connections) => ({ version, sql: new SQL({ url, max: connections }) }),
  };
}

function findBinaries(): string | null {
  const onPath = Bun.which('initdb');
  if (onPath !== null) return join(onPath, '..');
  if (!existsSync(DEBIAN_DIR)) return null;
  const dirs = readdirSync(DEBIAN_DIR)
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(DEBIAN_DIR, version, 'bin'));
  return dirs.find((each) => existsSync(join(each, 'initdb'))) ?? null;
}

function run(command: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command);
  if (exitCode !== 0) throw new Error(`${command.join(' ')} failed: ${stderr}`);
  return stdout.toString().trim();
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

async function untilReady(url: string): Promise<void> {
  const deadlineMs = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const sql = new SQL({ url, max: 1 });
    try {
      await sql`SELECT 1`;
      return;
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
      await Bun.sleep(100);
    } finally {
      await sql.close();
    }
  }
}
