import { openFolderStore } from '../../src/archive/folder/store.ts';
import { tempDir } from '../support/temp-dir.ts';
import { objectStoreSuite } from './object-store-suite.ts';

objectStoreSuite('folder', async () => {
  const dir = tempDir('store');
  const open = () => openFolderStore({ dir: dir.path });
  return { store: await open(), reopen: open, remove: async () => dir.remove() };
});
