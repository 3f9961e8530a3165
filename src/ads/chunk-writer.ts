/**
 * Writes rows of a source into the catalog, in transactions that are short enough to stand beside
 * other work of the thread.
 */
import { adOfRecord } from './import-row.ts';
import type { Ad, AdCatalog, RefusedRow } from './port.ts';
import type { SourceRow } from './source.ts';

/** About 20 ms of work. */
const CHUNK_ROWS = 2_000;

interface StateToKeep {
  readonly text: string;
  /** Called when it is kept. */
  readonly written: () => void;
}

export class ChunkWriter {
  readonly #catalog: AdCatalog;
  readonly #chunkRows: number;

  constructor(catalog: AdCatalog, chunkRows = CHUNK_ROWS) {
    this.#catalog = catalog;
    this.#chunkRows = chunkRows;
  }

  /** `stateAfter` says what to keep along with a chunk. */
  async write(
    rows: readonly SourceRow[],
    round: number,
    stateAfter: (chunk: readonly SourceRow[], isLast: boolean) => StateToKeep | undefined,
  ): Promise<void> {
    for (let at = 0; at < rows.length; at += this.#chunkRows) {
      const chunk = rows.slice(at, at + this.#chunkRows);
      const state = stateAfter(chunk, at + this.#chunkRows >= rows.length);
      const { put, remove, refused } = sorted(chunk);
      await this.#catalog.apply({
        put,
        remove,
        refused: { rows: refused, round },
        ...(state === undefined ? {} : { syncState: state.text }),
      });
      state?.written();
      await otherWork();
    }
  }

  async remove(adIds: readonly string[]): Promise<void> {
    for (let at = 0; at < adIds.length; at += this.#chunkRows) {
      await this.#catalog.apply({ put: [], remove: adIds.slice(at, at + this.#chunkRows) });
      await otherWork();
    }
  }
}

/** Sorted by id: the catalog takes neighbours faster than ads from everywhere. */
function sorted(rows: readonly SourceRow[]): {
  put: Ad[];
  remove: string[];
  refused: RefusedRow[];
} {
  const put: Ad[] = [];
  const remove: string[] = [];
  const refused: RefusedRow[] = [];
  for (const row of rows) {
    if (row.isDeleted) {
      remove.push(row.adId);
      continue;
    }
    const checked = adOfRecord(row.record);
    if (checked.ok) put.push(checked.ad);
    else refused.push({ adId: row.adId, reason: checked.reason });
  }
  put.sort((one, other) => (one.adId < other.adId ? -1 : one.adId > other.adId ? 1 : 0));
  return { put, remove, refused };
}

const otherWork = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
