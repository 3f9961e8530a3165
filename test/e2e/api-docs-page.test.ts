/** The page that shows the API's description: its files, and what a browser makes of them. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { BROWSER_PATH, complaintsOf, launchBrowser, NO_BROWSER } from '../support/browser.ts';
import { openWholeApi } from '../support/whole-api.ts';

let api: Awaited<ReturnType<typeof openWholeApi>>;
beforeAll(async () => {
  api = await openWholeApi();
}, 60_000);
afterAll(() => api.close());

describe('the files', () => {
  test.each(['/docs', '/docs/docs.js', '/docs/docs.css', '/docs/schema.js', '/openapi.json'])(
    '%s is served with a strict policy, and again only when it changed',
    async (path) => {
      const answer = await api.send(path, null);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('Cache-Control')).toBe('no-cache');
      const policy = answer.headers.get('Content-Security-Policy')!;
      expect(policy).toStartWith("default-src 'none'; script-src 'self'; style-src 'self'");
      expect(policy).not.toContain('unsafe');
      const etag = answer.headers.get('ETag')!;
      const again = await api.send(path, null, { headers: { 'If-None-Match': `"x", W/${etag}` } });
      expect([again.status, await again.text()]).toEqual([304, '']);
      expect((await api.send(path, null, { headers: { 'If-None-Match': '"x"' } })).status).toBe(
        200,
      );
    },
  );

  test.each([
    '/docs/../openapi.ts',
    '/docs/..%2fopenapi.ts',
    '/docs/%2e%2e/openapi.ts',
    '/docs/index.html',
    '/docs/docs.js/',
    '/docs//etc/passwd',
  ])('%s is nothing', async (path) => {
    expect((await api.send(path, null)).status).toBe(404);
  });

  test('the page holds no code and no style of its own, and names no other host', async () => {
    const page = await (await api.send('/docs', null)).text();
    expect(page).not.toMatch(/<script(?![^>]*src=)|<style|\son\w+=|style=/);
    for (const path of ['/docs', '/docs/docs.js', '/docs/docs.css', '/docs/schema.js']) {
      expect(await (await api.send(path, null)).text()).not.toMatch(/https?:|\/\/[a-z]/);
    }
  });
});

if (BROWSER_PATH === undefined) process.stderr.write(`docs page: ${NO_BROWSER}\n`);

describe.skipIf(BROWSER_PATH === undefined)('in a browser', () => {
  let browser: Browser;
  let server: Bun.Server<undefined>;
  let page: Page;
  let complaints: string[];
  beforeAll(async () => {
    browser = await launchBrowser();
    server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (req) => api.app.fetch(req, {}) });
    page = await browser.newPage();
    complaints = complaintsOf(page);
    await page.goto(`${server.url}docs`);
    await page.waitForSelector('article');
  }, 60_000);
  afterAll(async () => {
    await browser.close();
    await server.stop(true);
  });

  test('every operation is there, found by name, and opened by its address', async () => {
    expect(await page.locator('article').count()).toBe(api.operations.length);
    await page.fill('#find', 'audit/check');
    expect(await page.locator('article:visible').count()).toBe(1);
    await page.fill('#find', '');
    await page.goto('about:blank');
    await page.goto(`${server.url}docs#get_v1_ads_metrics`);
    const opened = page.locator('#get_v1_ads_metrics');
    await opened.locator('h4', { hasText: 'Parameters' }).waitFor();
    expect(await opened.textContent()).toContain('from');
    expect(await opened.textContent()).toContain('rows[].clicks');
    expect(complaints).toEqual([]);
  });

  test('a GET is sent with the token, and its answer shown as text', async () => {
    const name = '<img src=x onerror="document.title=1">';
    const { token } = await api.tokens.create({ scope: 'admin' }, { name });
    await page.goto(`${server.url}docs#get_v1_admin_tokens`);
    await page.reload();
    await page.fill('#token', token);
    const operation = page.locator('#get_v1_admin_tokens');
    await operation.locator('button', { hasText: 'Send' }).click();
    const shown = operation.locator('pre', { hasText: 'GET /v1/admin/tokens' });
    await shown.waitFor();
    expect(await shown.textContent()).toContain('onerror=');
    expect(await page.title()).toBe('ClickLedger API');
    expect(await page.evaluate('sessionStorage.length + localStorage.length')).toBe(1);
    expect(complaints).toEqual([]);
  });

  test('nobody is kept out by how it is made (axe)', async () => {
    for (const details of await page.locator('details').all()) {
      await details.evaluate('each => { each.open = true; }');
    }
    // The policy keeps foreign code out of the page, so the check is brought in by the debugger.
    await page.evaluate(axe.source);
    const { violations } = (await page.evaluate('axe.run()')) as {
      violations: { id: string; nodes: { html: string }[] }[];
    };
    expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
  });
});
