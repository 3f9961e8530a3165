/** What the benchmarks share: temporary folders, child processes, medians, ports. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const ROOT = join(import.meta.dir, '..');
export const BUN = process.execPath;

export async function withTempDir<T>(use: (dir: string) => Promise<T>): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'clickledger-bench-'));
  try {
    return await use(dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The value that `share` of the sorted values lie at or below. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function freePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}

export async function waitFor(
  what: string,
  ready: () => Promise<boolean>,
  { withinMs = 60_000, everyMs = 50 } = {},
): Promise<void> {
  const deadlineMs = performance.now() + withinMs;
  while (performance.now() < deadlineMs) {
    if (await ready().catch(() => false)) return;
    await Bun.sleep(everyMs);
  }
  throw new Error(`${what} did not become ready within ${withinMs / 1_000} s`);
}

export const respondsTo = (url: string, status: number) => async (): Promise<boolean> =>
  (await fetch(url, { redirect: 'manual' })).status === status;

export async function withChild<T>(
  command: readonly string[],
  use: (pid: number) => Promise<T>,
): Promise<T> {
  const child = Bun.spawn([...command], { stdin: 'pipe', stdout: 'ignore', stderr: 'inherit' });
  try {
    return await use(child.pid);
  } finally {
    child.kill('SIGTERM');
    await child.exited;
  }
}

/** Ids of the children of this process whose command line has the word. */
export function childrenWith(word: string): number[] {
  const lists = readdirSync('/proc/self/task').map((task) =>
    readFileSync(`/proc/self/task/${task}/children`, 'utf8'),
  );
  const pids = lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
  return pids.filter((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(word),
  );
}

/** Resident memory of a process in bytes, and the most it has had. */
export async function memoryOf(pid: number): Promise<{ rssBytes: number; peakBytes: number }> {
  const status = await Bun.file(`/proc/${pid}/status`).text();
  const kilobytes = (key: string): number =>
    Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return { rssBytes: kilobytes('VmRSS'), peakBytes: kilobytes('VmHWM') };
}

/** Processor time of a process so far, all its threads. The kernel counts in hundredths of a second. */
export async function cpuMsOf(pid: number): Promise<number> {
  const stat = await Bun.file(`/proc/${pid}/stat`).text();
  // The name in parentheses may hold spaces; after it `utime` and `stime` are the 12th and 13th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;
export const thousands = (value: number): string => Math.round(value).toLocaleString('en-US');

export function heading(text: string): void {
  console.log(`\n## ${text}\n`);
}
