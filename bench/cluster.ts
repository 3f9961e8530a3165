/** `npm run bench:cluster [-- kafka]`: what needs servers beside the product. Starts and ends them itself. */
import { cpus, totalmem } from 'node:os';
import { BUN, ROOT } from './support.ts';

const PARTS: Readonly<Record<string, readonly string[]>> = {
  kafka: ['bench/kafka-log.ts'],
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((part) => PARTS[part] === undefined);
if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(', ')}; there are ${Object.keys(PARTS).join(', ')}`);
  process.exit(1);
}
const [cpu] = cpus();
console.log(
  `${cpus().length} × ${cpu?.model.trim()}, ${(totalmem() / 1e9).toFixed(0)} GB, Bun ${Bun.version}`,
);
for (const part of wanted.length > 0 ? wanted : Object.keys(PARTS)) {
  const [file, ...args] = PARTS[part]!;
  const child = Bun.spawn([BUN, `${ROOT}/${file}`, ...args], {
    stdout: 'inherit',
    stderr: 'inherit',
  });
  if ((await child.exited) !== 0) process.exit(1);
}
