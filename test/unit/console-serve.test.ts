/** What is served at `/console/`, to whom, and what is said when it cannot be made. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleConsole } from '../../src/console/bundle.ts';
import { consoleFeature } from '../../src/console/serve.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { setUpApi } from '../support/api.ts';

const APP = join(import.meta.dir, '../../src/console/app');
const withConsole = (bundle = bundleConsole) => setUpApi({ features: [consoleFeature(bundle)] });

test('the page needs no token, names only files beside it, and its policy lets in nothing else', async () => {
  const { send } = withConsole();
  const page = await send('/console/', {}, null);
  expect(page.status).toBe(200);
  const policy = page.headers.get('Content-Security-Policy')!;
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toContain('unsafe');
  const html = await page.text();
  expect(html).not.toMatch(/(?:src|href)="(?:https?:|\/\/)|style="|<script>/);
  const names = [...html.matchAll(/(?:src|href)="([^":]+)"/g)].map((match) => match[1]!);
  expect(names.length).toBe(3);
  for (const name of names) {
    const file = await send(`/console/${name}`, {}, null);
    expect(file.status).toBe(200);
    expect(file.headers.get('Cache-Control')).toContain('immutable');
    expect(file.headers.get('Content-Type')).toMatch(/^text\/(javascript|css)/);
  }
});

test('a browser that takes gzip gets it, and it is the same file', async () => {
  const { send } = withConsole();
  const html = await (await send('/console/', {}, null)).text();
  const path = `/console/${/src="(app-[^"]+)"/.exec(html)![1]}`;
  const zipped = await send(path, { headers: { 'Accept-Encoding': 'br, gzip' } }, null);
  expect(zipped.headers.get('Content-Encoding')).toBe('gzip');
  const plain = await (await send(path, {}, null)).text();
  const unzipped = Bun.gunzipSync(new Uint8Array(await zipped.arrayBuffer()));
  expect(new TextDecoder().decode(unzipped)).toBe(plain);
});

test('only named files are served: no path leads out of the console', async () => {
  const { send } = withConsole();
  for (const path of ['serve.ts', '..%2fserve.ts', 'app/main.tsx', '%2e%2e/package.json', 'x.js']) {
    expect((await send(`/console/${path}`, {}, null)).status).toBe(404);
  }
});

test('text of others can only get into the page as text', () => {
  const sources = [...new Bun.Glob('**/*.{ts,tsx}').scanSync(APP)];
  expect(sources.length).toBeGreaterThan(30);
  const found = sources.filter((path) =>
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/i.test(
      readFileSync(join(APP, path), 'utf8'),
    ),
  );
  expect(found).toEqual([]);
});

test('/console leads to /console/, relative to where a proxy has put it', async () => {
  const answer = await withConsole().send('/console', {}, null);
  expect(answer.status).toBe(302);
  expect(answer.headers.get('Location')).toBe('console/');
});

test('the root sends a browser to the console and answers programs with JSON', async () => {
  const { send } = withConsole();
  const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
  const browser = await send('/', { headers: { Accept: accept } }, null);
  expect(browser.headers.get('Location')).toBe('console/');
  for (const headers of [{}, { Accept: '*/*' }, { Accept: 'application/json' }]) {
    expect((await send('/', { headers }, null)).headers.get('Content-Type')).toContain('json');
  }
});

test('a bundle that fails is told with what to do, and the next request tries again', async () => {
  let tries = 0;
  const { send, logged } = withConsole(async () => {
    tries += 1;
    if (tries > 1) return bundleConsole();
    throw new LedgerError('console_unbuilt', 'no console', { kind: 'retry', hint: 'Run npm ci.' });
  });
  const failed = await send('/console/', {}, null);
  expect(failed.status).toBe(503);
  expect(await failed.json()).toMatchObject({ code: 'console_unbuilt', hint: 'Run npm ci.' });
  expect(logged.length).toBe(1);
  expect((await send('/console/', {}, null)).status).toBe(200);
  expect((await send('/console/', {}, null)).status).toBe(200);
  expect(tries).toBe(2);
});
