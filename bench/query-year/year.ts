/** The folder of a generated year, and the note in it that says that it is finished. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ONE_SERVER } from '../../src/warehouse/sql/layout.ts';
import { createTables } from '../../src/warehouse/sql/schema.ts';
import { BUN, ROOT } from '../support.ts';
import { DATA_VERSION, type YearOptions } from './model.ts';

/** The year ends at a fixed date: with a TTL the engine would drop it by the machine's clock. */
export const NO_TTL = { minuteTtlDays: 0, hourTtlDays: 0 };

export interface TableSize {
  readonly table: string;
  readonly rows: number;
  readonly bytes: number;
  readonly parts: number;
}

export interface Year extends YearOptions {
  readonly productSeconds: number;
  readonly rawSeconds: number;
  readonly tables: readonly TableSize[];
}

export const warehousePath = (dir: string): string => join(dir, 'warehouse');
const notePath = (dir: string): string => join(dir, 'year.json');

export function writeYear(dir: string, year: Year): void {
  writeFileSync(notePath(dir), JSON.stringify(year));
}

/** The year below `root`, made now unless a finished one of the same options lies there. */
export async function openYear(
  root: string,
  options: YearOptions,
): Promise<{ dir: string; year: Year; reused: boolean }> {
  // A year in tables of another layout is another year.
  const tables = Bun.hash.crc32(createTables(ONE_SERVER, new Set()).join('\n')).toString(16);
  const version = `tables-${tables}-data${DATA_VERSION}`;
  const dir = join(root, `${version}-seed${options.seed}-scale${options.scale}`);
  const reused = existsSync(notePath(dir));
  if (!reused) {
    rmSync(dir, { recursive: true, force: true });
    mkdirSync(dir, { recursive: true });
    const command = [BUN, `${ROOT}/bench/query-year/generate.ts`, dir, JSON.stringify(options)];
    const child = Bun.spawn(command, { stdout: 'inherit', stderr: 'inherit' });
    if ((await child.exited) !== 0) throw new Error('the year could not be generated');
  }
  return { dir, year: JSON.parse(readFileSync(notePath(dir), 'utf8')) as Year, reused };
}
