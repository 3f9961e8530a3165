/** Runs the parts of a benchmark that the command line names, or all of them, one after the other. */
import { cpus, totalmem } from 'node:os';
import { BUN, ROOT } from './support.ts';

/** By name: a file below the project's root, and its arguments. */
export type Parts = Readonly<Record<string, readonly string[]>>;

export async function runParts(parts: Parts, wanted: readonly string[]): Promise<void> {
  const unknown = wanted.filter((part) => parts[part] === undefined);
  if (unknown.length > 0) {
    console.error(`unknown: ${unknown.join(', ')}; there are ${Object.keys(parts).join(', ')}`);
    process.exit(1);
  }
  const [cpu] = cpus();
  console.log(
    `${cpus().length} × ${cpu?.model.trim()}, ${(totalmem() / 1e9).toFixed(0)} GB, Bun ${Bun.version}`,
  );
  for (const part of wanted.length > 0 ? wanted : Object.keys(parts)) {
    const [file, ...args] = parts[part]!;
    // A process each: one part's memory must not be another's.
    const child = Bun.spawn([BUN, `${ROOT}/${file}`, ...args], {
      stdout: 'inherit',
      stderr: 'inherit',
    });
    if ((await child.exited) !== 0) process.exit(1);
  }
}
