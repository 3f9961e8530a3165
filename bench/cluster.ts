/** `npm run bench:cluster [-- kafka]`: what needs servers beside the product. Starts and ends them itself. */
import { type Parts, runParts } from './run-parts.ts';

const PARTS: Parts = {
  kafka: ['bench/kafka-log.ts'],
};

await runParts(PARTS, process.argv.slice(2));
