import { join } from 'node:path';
import { openDeadLetters } from '../../src/counter/sqlite/dead-letters.ts';
import { tempDir } from '../support/temp-dir.ts';
import { deadLetterStoreSuite } from './dead-letter-store-suite.ts';

deadLetterStoreSuite('SQLite', () => {
  const folder = tempDir('dead-letter-store');
  const path = join(folder.path, 'dead-letters.sqlite');
  return {
    open: async () => openDeadLetters(path),
    remove: async () => folder.remove(),
  };
});
