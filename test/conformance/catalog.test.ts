import { join } from 'node:path';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import { tempDir } from '../support/temp-dir.ts';
import { catalogSuite } from './catalog-suite.ts';

catalogSuite('LMDB', () => {
  const folder = tempDir('catalog');
  const dir = join(folder.path, 'catalog');
  return {
    open: () => openLmdbCatalog({ dir, readOnly: false }),
    openLookup: () => openLmdbCatalog({ dir, readOnly: true }),
    remove: folder.remove,
  };
});
