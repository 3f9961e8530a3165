import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openTokenRows, openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import { ROOT } from '../support/source-tree.ts';
import { tempDir } from '../support/temp-dir.ts';
import { tokenStoreSuite } from './token-store-suite.ts';

tokenStoreSuite('SQLite', () => {
  const folder = tempDir('token-store');
  const path = join(folder.path, 'control.sqlite');
  const module = JSON.stringify(join(ROOT, 'src/auth/sqlite/tokens.ts'));
  return {
    open: async (clock) => openTokenStore({ path, clock }),
    openRows: async () => openTokenRows(path),
    contents: async () =>
      ['', '-wal'].map((end) => readFileSync(`${path}${end}`, 'latin1')).join(''),
    child: {
      open: `const { openTokenStore } = await import(${module});
        const store = openTokenStore({ path: ${JSON.stringify(path)}, clock: () => 5 });`,
      close: 'await store.close();',
    },
    remove: folder.remove,
  };
});
