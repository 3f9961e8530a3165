/**
 * `npm run bench [-- click product catch-up recount baseline catalog query]`: the figures that the README quotes,
 * measured in one run. Each part prints its targets beside what it measured.
 */
import { cpus, totalmem } from 'node:os';
import { BUN, ROOT } from './support.ts';

const PARTS: Readonly<Record<string, readonly string[]>> = {
  click: ['bench/click-path.ts'],
  product: ['bench/whole-product.ts', '60'],
  'catch-up': ['bench/catch-up.ts', '3000000'],
  recount: ['bench/recount.ts', '10000000'],
  baseline: ['bench/baseline-update.ts'],
  catalog: ['bench/catalog-sync.ts', '1000000'],
  query: ['bench/query-year.ts'],
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
  // A process each: one part's memory must not be another's.
  const child = Bun.spawn([BUN, `${ROOT}/${file}`, ...args], {
    stdout: 'inherit',
    stderr: 'inherit',
  });
  if ((await child.exited) !== 0) process.exit(1);
}
