/** Acts of commands, of the socket and of tokens are in one audit log, which commands list and check. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openAuditLog } from '../../src/auth/sqlite/audit-log.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { cleanUp, Product } from '../support/product.ts';

let product: Product;
let control: string;
beforeAll(async () => {
  product = await Product.create();
  control = dataPaths(product.dataDir).control;
});
afterAll(cleanUp);

/** Actor, action and how it ended, the oldest first. */
async function acts(): Promise<string[][]> {
  const audit = openAuditLog({ path: control, clock: () => 0 });
  const entries = await audit.list({ limit: 100 });
  await audit.close();
  return entries
    .map(({ actor, action, outcome, code }) => [actor, action, code ?? outcome])
    .toReversed();
}

test('whoever acts, and in whatever way, it is in the log', async () => {
  await product.do('key', 'create', 'k1');
  const token = (await product.do('token', 'create', '--admin')).trim();
  const tokenId = token.split('_')[1]!;
  expect((await product.run('key', 'retire', 'k1')).code).toBe(1);
  const ads = join(product.dataDir, 'ads.csv');
  writeFileSync(ads, 'ad_id,advertiser_id,campaign_id,target_url\na1,adv,c,nowhere\n');
  expect((await product.run('ads', 'import', ads)).code).toBe(1);
  await product.do('reconcile');
  const asCommand = [
    ['cli', 'keys.create', 'ok'],
    ['cli', 'tokens.create', 'ok'],
    ['cli', 'keys.retire', 'last_active_key'],
    ['cli', 'ads.import', 'import_invalid'],
    ['cli', 'reconcile', 'ok'],
  ];
  expect(await acts()).toEqual(asCommand);

  await product.start();
  await product.do('reconcile');
  const headers = { Authorization: `Bearer ${token}` };
  const made = await fetch(`${product.apiUrl}/v1/admin/keys`, { method: 'POST', headers });
  expect(made.status).toBe(201);
  expect(await acts()).toEqual([
    ...asCommand,
    ['socket', 'reconcile', 'ok'],
    [tokenId, 'keys.create', 'ok'],
  ]);
  await product.stop();

  const listed = await product.do('audit', 'list');
  expect(listed).toContain('refused (last_active_key)');
  expect(listed).not.toContain(token);
}, 120_000);

test('a log that was changed or cut behind its back ends "audit verify" with 1', async () => {
  const printed = await product.do('audit', 'verify');
  const [, head] = /^head (\d+:[0-9a-f]{64})$/m.exec(printed)!;
  await product.do('audit', 'verify', '--head', head!);
  expect((await product.run('audit', 'verify', '--head', 'x')).stderr).toContain('is no head');
  const db = new Database(control);
  db.run('DROP TRIGGER audit_keeps_lines');
  db.run('DELETE FROM audit WHERE line = (SELECT max(line) FROM audit)');
  db.close();
  expect((await product.run('audit', 'verify')).code).toBe(0);
  const cut = await product.run('audit', 'verify', '--head', head!);
  expect([cut.code, cut.stdout]).toEqual([1, expect.stringContaining('were noted')]);
}, 60_000);
