import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { openWebhookStore } from '../../src/webhooks/sqlite/store.ts';
import { tempDir } from '../support/temp-dir.ts';
import { webhookStoreSuite } from './webhook-store-suite.ts';

webhookStoreSuite('SQLite', () => {
  const folder = tempDir('webhook-store');
  const path = join(folder.path, 'control.sqlite');
  return {
    open: async () => openWebhookStore(path),
    loseOutbox: async () => {
      const db = new Database(path);
      db.run('DELETE FROM webhook_outbox');
      db.close();
    },
    remove: async () => folder.remove(),
  };
});

test('the file is for its user alone', async () => {
  const folder = tempDir('webhook-store');
  const path = join(folder.path, 'control.sqlite');
  const store = openWebhookStore(path);
  expect(statSync(path).mode & 0o077).toBe(0);
  await store.close();
  folder.remove();
});
