/** `npm run bench:cluster [-- counter outage]`: what needs servers beside the product. Starts and ends them itself. */
import { type Parts, runParts } from './run-parts.ts';

const PARTS: Parts = {
  kafka: ['bench/kafka-log.ts'],
  publish: ['bench/cluster/publish.ts'],
  click: ['bench/cluster/click.ts'],
  counter: ['bench/cluster/counter.ts', '--clickhouse'],
  takeover: ['bench/cluster/takeover.ts'],
  outage: ['bench/cluster/outage.ts', '--counters', '1'],
  'outage-two': ['bench/cluster/outage.ts', '--counters', '2'],
  'outage-live': ['bench/cluster/outage.ts', '--counters', '2', '--live'],
  sizes: ['bench/sizes.ts'],
};

await runParts(PARTS, process.argv.slice(2));
