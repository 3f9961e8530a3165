/**
 * `npm run bench [-- click product catch-up recount baseline catalog query sizes]`: the figures that the README quotes,
 * measured in one run. Each part prints its targets beside what it measured.
 */
import { type Parts, runParts } from './run-parts.ts';

const PARTS: Parts = {
  click: ['bench/click-path.ts'],
  product: ['bench/whole-product.ts', '60'],
  'catch-up': ['bench/catch-up.ts', '3000000'],
  recount: ['bench/recount.ts', '10000000'],
  baseline: ['bench/baseline-update.ts'],
  catalog: ['bench/catalog-sync.ts', '1000000'],
  query: ['bench/query-year.ts'],
  sizes: ['bench/sizes.ts'],
};

await runParts(PARTS, process.argv.slice(2));
