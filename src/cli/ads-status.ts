/** `clickledger ads status`: where the ads come from, how far that was read, and what was left out. */
import type { AdCatalog } from '../ads/port.ts';
import { readSyncState } from '../ads/sync-state.ts';
import type { Config } from '../config/schema.ts';
import { isoOrDash, table } from './context.ts';

const US_PER_MS = 1_000;

export function adsStatusText(
  catalog: AdCatalog,
  { config, limit }: { config: Config; limit: number },
): string {
  const lines = [`ads           ${catalog.count()}`];
  if (config.catalog.kind === 'local') return [...lines, 'come from     imports'].join('\n');
  lines.push('come from     PostgreSQL');
  const state = readSyncState(catalog.syncState());
  if (state === null) return [...lines, 'read          never'].join('\n');
  const newestMs = state.newestUs === null ? null : Math.floor(state.newestUs / US_PER_MS);
  const refused = catalog.refusedRows(limit);
  lines.push(
    `read          ${isoOrDash(state.syncedAtMs)} (noted once a minute)`,
    `newest row    ${isoOrDash(newestMs)}`,
    `compared      ${isoOrDash(state.loadedAtMs)}${loadText(state.load)}`,
    `rows left out ${refused.count}`,
  );
  if (state.heldRemovals > 0) {
    lines.push(
      `not removed   at least ${state.heldRemovals} ads without a row: more than catalog.postgres.max_removed_share`,
    );
  }
  if (refused.count === 0) return lines.join('\n');
  const rows = refused.rows.map(({ adId, reason }) => [adId, reason]);
  return [...lines, '', table(['ad_id', 'reason'], rows)].join('\n');
}

function loadText(load: { phase: string } | null): string {
  if (load === null) return '';
  return load.phase === 'pages' ? ', reading all rows now' : ', looking for removed rows now';
}
