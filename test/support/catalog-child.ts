/**
 * A second process on a catalog. `put <dir> <prefix> <count> <campaign>` imports ads;
 * `die <dir> <prefix> <count>` is killed in the middle of that.
 */
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { Ad } from '../../src/ads/port.ts';

const [command, dir, prefix, count, campaignId = 'camp-1'] = process.argv.slice(2);

function* ads(): Generator<Ad> {
  for (let at = 0; at < Number(count); at++) {
    if (command === 'die' && at === Number(count) - 1) process.kill(process.pid, 'SIGKILL');
    const targetUrl = `https://shop.example/${at}/${'x'.repeat(at % 700)}`;
    yield {
      adId: `${prefix}${at}`,
      advertiserId: 'adv-1',
      campaignId,
      targetUrl,
      passQuery: false,
    };
  }
}

const catalog = openLmdbCatalog({ dir: dir!, readOnly: false });
await catalog.putAll(ads());
await catalog.close();
