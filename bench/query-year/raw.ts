/**
 * Asks the raw clicks, in a process of its own: `raw.ts <year's folder>`, statements as JSON on
 * standard input. Times are of the engine and of reading its answer, without HTTP.
 */
import { closeChdbClient, openChdbClient } from '../../src/warehouse/chdb/client.ts';
import { BUN, ROOT } from '../support.ts';
import { warehousePath } from './year.ts';

export type RawRow = readonly (number | string)[];
export interface RawAnswer {
  readonly ms: number;
  readonly cpuMs: number;
  readonly rows: readonly RawRow[];
}

export async function askRaw(dir: string, statements: readonly string[]): Promise<RawAnswer[]> {
  const child = Bun.spawn([BUN, `${ROOT}/bench/query-year/raw.ts`, dir], {
    stdin: new Blob([JSON.stringify(statements)]),
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const text = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error('the raw clicks could not be asked');
  return JSON.parse(text) as RawAnswer[];
}

if (import.meta.main) {
  const client = openChdbClient(warehousePath(process.argv[2]!));
  const answers: RawAnswer[] = [];
  for (const query of (await Bun.stdin.json()) as string[]) {
    const before = process.cpuUsage();
    const startedMs = performance.now();
    const result = await client.query({ query, format: 'JSONCompactEachRow' });
    const rows = await result.json<RawRow>();
    const ms = performance.now() - startedMs;
    const cpu = process.cpuUsage(before);
    answers.push({ ms, cpuMs: (cpu.user + cpu.system) / 1000, rows });
  }
  await closeChdbClient(client);
  await Bun.write(Bun.stdout, JSON.stringify(answers));
  process.exit(0);
}
