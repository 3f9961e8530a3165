import { join } from 'node:path';
import { openDisputes } from '../../src/disputes/sqlite/store.ts';
import { tempDir } from '../support/temp-dir.ts';
import { disputeStoreSuite } from './dispute-store-suite.ts';

disputeStoreSuite('SQLite', () => {
  const folder = tempDir('dispute-store');
  const path = join(folder.path, 'control.sqlite');
  return {
    open: async (options) => openDisputes({ path, ...options }),
    remove: async () => folder.remove(),
  };
});
