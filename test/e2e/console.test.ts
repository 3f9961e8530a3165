/** The console in a browser, against the product as it runs: what it shows is what the API answers. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { BROWSER_PATH, launchBrowser, NO_BROWSER } from '../support/browser.ts';
import {
  ask,
  ConsolePages,
  goTo,
  type Rows,
  rangeQuery,
  settled,
  shown,
  shows,
  sum,
  textOf,
  wholeRange,
} from '../support/console-pages.ts';
import { ADVERTISER, type ConsoleWorld, consoleWorld, QUIET_AD } from '../support/console-world.ts';
import { cleanUp, eventually } from '../support/product.ts';

const AXE = readFileSync(Bun.resolveSync('axe-core/axe.min.js', import.meta.dir), 'utf8');

const READER_VIEWS = ['clicks', 'evidence?ad=spring-sale-1', 'statements', 'disputes', 'hours'];
const ADMIN_VIEWS = [
  `clicks?adv=${ADVERTISER}`,
  'restatements?range=7d',
  'pipeline',
  'dead-letters',
  'ads',
  'access',
  'webhooks',
  'actions',
  'audit',
];

if (BROWSER_PATH === undefined) process.stderr.write(`console tests are skipped: ${NO_BROWSER}\n`);

describe.skipIf(BROWSER_PATH === undefined)('the console', () => {
  let world: ConsoleWorld;
  let browser: Browser;
  let landing: Bun.Server<undefined>;
  let link = '';
  let pages: ConsolePages;

  beforeAll(async () => {
    landing = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => landingPage(request, link),
    });
    world = await consoleWorld(`${landing.url}landing?imp={impression_id}`);
    browser = await launchBrowser();
    pages = new ConsolePages(browser, world);
  }, 120_000);
  afterEach(async () => expect(await pages.close()).toEqual([]));
  afterAll(async () => {
    await browser?.close();
    await landing?.stop(true);
    await cleanUp();
    world?.remove();
  });

  test('a browser is sent to the console from the root, a program gets JSON', async () => {
    const { apiUrl } = world.product;
    const json = await fetch(apiUrl, { redirect: 'manual' });
    expect(((await json.json()) as { name: string }).name).toBe('ClickLedger API');
    const page = await pages.newPage();
    await page.goto(apiUrl);
    expect(page.url()).toBe(`${apiUrl}/console/`);
    expect(await page.title()).toBe('Sign in · ClickLedger');
  });

  test('signing in takes a keyboard only, and the token is in no address and outlives no tab', async () => {
    const page = await pages.newPage();
    await page.goto(`${world.product.apiUrl}/console/`);
    await page.waitForSelector('input[type=password]:focus');
    await page.keyboard.type(world.readToken);
    await page.keyboard.press('Enter');
    await settled(page);
    expect(await textOf(page.locator('h1'))).toBe('Clicks');
    expect(page.url()).not.toContain('clk_');
    expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain('clk_');
    await page.reload();
    await settled(page);
    for (let presses = 0; presses < 40; presses++) {
      await page.keyboard.press('Tab');
      if ((await page.evaluate(() => document.activeElement?.textContent)) === 'Sign out') break;
    }
    await page.keyboard.press('Enter');
    await page.waitForSelector('input[type=password]');
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  test('a token that is not valid is said to be so, and asked for again', async () => {
    const page = await pages.newPage();
    await page.goto(`${world.product.apiUrl}/console/`);
    await page.getByLabel('Access token').fill(`clk_${'0'.repeat(12)}_${'A'.repeat(43)}`);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This token is not valid.').waitFor();
    expect(await page.getByLabel('Access token').inputValue()).toBe('');
  });

  test('totals, final and live parts and every breakdown are those of the API', async () => {
    const page = await pages.asReader(`clicks?${rangeQuery()}`);
    const asked = { ...wholeRange(), timezone: 'UTC' };
    const hours = await ask<Rows>(world, '/v1/ads/metrics', {
      ...asked,
      granularity: 'hour',
      group_by: 'none',
    });
    await shows(page, 'range-total', sum(hours));
    const final = { rows: hours.rows.filter((row) => row.final) };
    await shows(page, 'final-total', sum(final));
    await shows(page, 'live-total', sum(hours) - sum(final));
    expect(sum(final)).toBeGreaterThan(100);
    expect(sum(hours) - sum(final)).toBeGreaterThan(0);
    for (const by of ['campaign', 'country', 'device', 'ad']) {
      const top = await ask<{ rows: { clicks: number }[] }>(world, '/v1/ads/top', {
        ...asked,
        by,
        limit: '8',
      });
      const table = page.getByRole('table', { name: `Clicks by ${by}` });
      const cells = await table.locator('tbody tr td.number:nth-last-child(2)').allInnerTexts();
      expect(cells.map(Number)).toEqual(top.rows.map(({ clicks }) => clicks));
    }
  });

  test('a click on a row narrows everything down, and its chip takes that back', async () => {
    const page = await pages.asReader(`clicks?${rangeQuery()}`);
    const all = await shown(page, 'range-total');
    await page.getByRole('button', { name: /^Germany/ }).click();
    const chip = page.getByRole('button', { name: /Country Germany, remove this filter/ });
    await chip.waitFor();
    const asked = {
      ...wholeRange(),
      timezone: 'UTC',
      country: 'DE',
      granularity: 'total',
      group_by: 'none',
    };
    const german = sum(await ask<Rows>(world, '/v1/ads/metrics', asked));
    expect(german).toBeLessThan(all);
    await shows(page, 'range-total', german);
    expect(page.url()).toContain('country=DE');
    await page.goBack();
    await shows(page, 'range-total', all);
    await page.goForward();
    await chip.click();
    await shows(page, 'range-total', all);
  });

  test('another time zone cuts other days, and they add up to the same total', async () => {
    const page = await pages.asReader(`clicks?${rangeQuery({ by: 'day' })}`);
    await page.getByLabel('Time zone').selectOption('Asia/Kolkata');
    await page.locator('.card p', { hasText: 'Asia/Kolkata' }).waitFor();
    const asked = {
      ...wholeRange(),
      timezone: 'Asia/Kolkata',
      granularity: 'day',
      group_by: 'none',
      fill: 'zero',
    };
    const days = await ask<Rows>(world, '/v1/ads/metrics', asked);
    await shows(page, 'range-total', sum(days));
    await page.getByText('Numbers as a table').first().click();
    const table = page.getByRole('table', { name: 'Clicks over time' });
    await table.locator('td.number').first().waitFor();
    const cells = await table.locator('td.number').allInnerTexts();
    expect(cells.map(Number)).toEqual(days.rows.map(({ clicks }) => clicks));
    expect(days.rows[0]!.bucket_start).toEndWith('+05:30');
  });

  test('the CSV that is downloaded has the rows that the API answers with', async () => {
    const page = await pages.asReader(`clicks?${rangeQuery({ by: 'hour', device: 'mobile' })}`);
    await page.getByRole('button', { name: 'Download CSV' }).click();
    await page.getByLabel('Campaign', { exact: true }).check();
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download', exact: true }).click();
    const saved = readFileSync(await (await downloading).path(), 'utf8');
    const asked = {
      ...wholeRange(),
      timezone: 'UTC',
      granularity: 'hour',
      group_by: 'ad,campaign',
      device: 'mobile',
    };
    const response = await fetch(
      `${world.product.apiUrl}/v1/ads/metrics?${new URLSearchParams(asked)}`,
      { headers: { Authorization: `Bearer ${world.readToken}`, Accept: 'text/csv' } },
    );
    expect(saved).toBe(await response.text());
    expect(saved.split('\n').length).toBeGreaterThan(20);
  });

  test('evidence lists every raw click of an ad, page by page, and counted ones are its clicks', async () => {
    const { final_until } = await ask<{ final_until: string }>(world, '/v1/hours', {
      ...wholeRange(),
    });
    const until = {
      range: 'custom',
      tz: 'UTC',
      from: wholeRange().from,
      to: final_until.slice(0, 16),
    };
    const page = await pages.asReader(`evidence?ad=spring-sale-1&${new URLSearchParams(until)}`);
    const table = page.getByRole('table', { name: 'Raw clicks of spring-sale-1' });
    const outcomes: string[] = [];
    for (let number = 1; ; number++) {
      await page.getByText(`Page ${number}`, { exact: true }).waitFor();
      await page.waitForFunction(() => document.querySelector('.loaded[aria-busy=true]') === null);
      outcomes.push(...(await table.locator('tbody .badge').allInnerTexts()));
      const next = page.getByRole('button', { name: 'Next' });
      if (await next.isDisabled()) break;
      await next.click();
    }
    const asked = {
      ...wholeRange(),
      to: final_until,
      ad_ids: 'spring-sale-1',
      granularity: 'total',
      group_by: 'none',
    };
    const clicks = sum(await ask<Rows>(world, '/v1/ads/metrics', asked));
    expect(outcomes.filter((outcome) => outcome === 'Counted').length).toBe(clicks);
    expect(outcomes).toContain('Duplicate');
    await page.getByRole('button', { name: 'Previous' }).click();
  });

  test('the restatement of the late click is shown with before, after and cause', async () => {
    const page = await pages.asReader('restatements?range=7d');
    const row = page.getByRole('table', { name: 'Restatements' }).locator('tbody tr');
    expect(await row.count()).toBe(1);
    expect(await textOf(row)).toContain('spring-sale-1');
    expect(await textOf(row)).toContain('+1');
  });

  test('a dispute is opened by its advertiser and resolved by an operator; its text stays text', async () => {
    const reader = await pages.asReader(`disputes?open=new&ad=spring-sale-1&${rangeQuery()}`);
    const reason = 'Too many <img src=x onerror="document.title=1"> at night';
    await reader.getByLabel('What is wrong with these clicks?').fill(reason);
    await reader.getByRole('button', { name: 'Open dispute' }).click();
    await reader.getByRole('heading', { name: 'Dispute about spring-sale-1' }).waitFor();
    expect(await reader.getByText(reason).count()).toBe(1);
    const asked = {
      ...wholeRange(),
      ad_ids: 'spring-sale-1',
      granularity: 'total',
      group_by: 'none',
    };
    const clicks = sum(await ask<Rows>(world, '/v1/ads/metrics', asked));
    expect(await textOf(reader.locator('.stat-value').first())).toBe(String(clicks));

    const admin = await pages.asAdmin(new URL(reader.url()).hash.slice(2));
    await admin.getByRole('button', { name: 'Resolve' }).click();
    await admin.getByLabel('Resolution').selectOption('rejected');
    await admin.getByLabel('Note for the advertiser').fill('All of them are from the campaign.');
    await admin.getByRole('dialog').getByRole('button', { name: 'Resolve' }).click();
    await admin.getByText('Rejected').first().waitFor();
    await reader.reload();
    await reader.getByText('All of them are from the campaign.').waitFor();
    expect(await reader.getByRole('button', { name: 'Withdraw' }).count()).toBe(0);
  });

  test('a statement of a final month is made and saved as it is; one that is not final says why', async () => {
    const page = await pages.asReader('statements?tz=UTC');
    await page.getByLabel('Month').fill('2026-02');
    await page.getByRole('button', { name: 'Make statement' }).click();
    const file = page.getByRole('button', { name: /^CSV .* of 1 Feb 2026/ });
    const downloading = page.waitForEvent('download');
    await file.click();
    const download = await downloading;
    const { statements } = await ask<{ statements: { files: { csv: { sha256: string } } }[] }>(
      world,
      '/v1/statements',
    );
    const saved = new Bun.CryptoHasher('sha256').update(readFileSync(await download.path()));
    expect(saved.digest('hex')).toBe(statements[0]!.files.csv.sha256);
    expect(download.suggestedFilename()).toMatch(/^st_.+-v1\.csv$/);

    await page.getByLabel('Month').fill(wholeRange().to.slice(0, 7));
    await page.getByRole('button', { name: 'Make statement' }).click();
    expect(await textOf(page.getByRole('alert'))).toMatch(/final/);
  });

  test('a token is created, shown once, opens the console, and is refused as soon as it is revoked', async () => {
    const admin = await pages.asAdmin('access');
    await admin.getByLabel('Advertiser id').fill(ADVERTISER);
    await admin.getByLabel('Name (optional)').fill('for the test');
    await admin.getByRole('button', { name: 'Create token' }).click();
    const token = await textOf(admin.getByTestId('secret'));
    expect(token).toStartWith('clk_');
    const reader = await pages.at(`clicks?${rangeQuery()}`, token);
    expect(await shown(reader, 'range-total')).toBeGreaterThan(0);

    const row = admin.getByRole('row', { name: /for the test/ });
    await row.getByRole('button', { name: /^Revoke/ }).click();
    await admin.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await row.getByText('Revoked').waitFor();
    await reader.getByText('This token is not valid.').waitFor();
    await admin.reload();
    await settled(admin);
    expect(await admin.content()).not.toContain(token);
  });

  test('a catalog with a wrong line is refused with the line, a right one is imported', async () => {
    const page = await pages.asAdmin('ads');
    const ad = {
      ad_id: 'new-1',
      advertiser_id: 'fabrikam',
      campaign_id: 'c',
      target_url: 'https://shop.example/',
    };
    const upload = (text: string) => ({
      name: 'ads.ndjson',
      mimeType: 'application/x-ndjson',
      buffer: Buffer.from(text),
    });
    await page.getByLabel('File').setInputFiles(upload(`${JSON.stringify(ad)}\n{"ad_id":"x"}`));
    await page.getByRole('button', { name: /^Import/ }).click();
    await page.getByText(/line 2:/).waitFor();
    await page.getByLabel('File').setInputFiles(upload(JSON.stringify(ad)));
    await page.getByRole('button', { name: /^Import/ }).click();
    await page.getByText('1 ads: 1 added').waitFor();
    await page.getByRole('rowheader', { name: 'new-1' }).waitFor();
  });

  test('the pipeline shows the clicks that the workers took, and verify finds no difference', async () => {
    const page = await pages.asAdmin('pipeline');
    await page.getByText('1 of 1 workers answer').waitFor();
    await page.getByText('All is well.').waitFor();
    await page.getByRole('link', { name: 'Recount and verify' }).click();
    await page.getByRole('button', { name: 'Verify everything' }).click();
    await page.getByText('all as in the archive.').waitFor();
  });

  test('a dead letter is shown and redriven', async () => {
    const page = await pages.open('pipeline', world.adminToken);
    const letter = {
      id: '0-7',
      partition: 0,
      offset: 7,
      appendedAtMs: 1,
      reason: 'undecodable',
      redrivenAtMs: null,
      sizeBytes: 2,
    };
    let redriven: unknown;
    await page.route('**/v1/admin/dead-letters?*', (route) =>
      route.fulfill({ json: { deadLetters: [letter] } }),
    );
    await page.route('**/v1/admin/dead-letters/0-7', (route) =>
      route.fulfill({ json: { ...letter, bytes: 'AAE=', event: null } }),
    );
    await page.route('**/v1/admin/dead-letters/redrive', (route) => {
      redriven = route.request().postDataJSON();
      return route.fulfill({
        body: '{"progress":{"message":"appending"}}\n\n{"result":{"redriven":1}}\n',
      });
    });
    await goTo(page, 'dead-letters');
    await page.getByRole('button', { name: 'Show record 0-7' }).click();
    await page.getByText('AAE=').waitFor();
    await page.getByRole('button', { name: 'Redrive this one' }).click();
    await page.getByText('1 appended to the log again.').waitFor();
    expect(redriven).toEqual({ id: '0-7' });
  });

  test('a refusal is shown with its hint and can be tried again; what was shown before stays', async () => {
    const page = await pages.asReader(`clicks?${rangeQuery()}`);
    const total = await shown(page, 'range-total');
    const problem = {
      code: 'warehouse_unavailable',
      detail: 'The warehouse is away.',
      hint: 'Wait a little.',
    };
    await page.route('**/v1/ads/metrics*', (route) =>
      route.fulfill({ status: 429, json: problem }),
    );
    await page.getByLabel('Buckets').selectOption('day');
    await page.getByText('The warehouse is away.').waitFor();
    await page.getByText('Wait a little.').waitFor();
    expect(await shown(page, 'range-total')).toBe(total);
    await page.unroute('**/v1/ads/metrics*');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('The warehouse is away.').waitFor({ state: 'detached' });
  });

  test('a reader gets to no page of the operators', async () => {
    const page = await pages.asReader('access');
    await page.getByText('There is no such page for this token.').waitFor();
    expect(await page.getByRole('link', { name: 'Pipeline' }).count()).toBe(0);
  });

  test('final hours show what was live and what is final, as the API has it', async () => {
    const { hours } = await ask<{ hours: { drift: { live: number; final: number } | null }[] }>(
      world,
      '/v1/hours',
      wholeRange(),
    );
    const known = hours.flatMap(({ drift }) => (drift === null ? [] : [drift])).reverse();
    expect(known.length).toBeGreaterThan(3);
    const page = await pages.asReader(`hours?${rangeQuery()}`);
    const rows = await page.getByRole('row').filter({ hasText: 'Final' }).all();
    const cells = await Promise.all(
      rows.slice(1).map((row) => row.getByRole('cell').allInnerTexts()),
    );
    const shown = cells.map((row) => row.slice(-2).join(' ')).filter((text) => text !== '– –');
    expect(shown).toEqual(known.map(({ live, final }) => `${live} ${final}`));
  });

  test('dark and light follow the system, and the switch overrules it until it is set back', async () => {
    const ground = (page: Page) =>
      page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const page = await pages.asReader('hours', { colorScheme: 'dark' });
    const dark = await ground(page);
    await page.getByLabel('Colours').selectOption('light');
    const light = await ground(page);
    expect(light).not.toBe(dark);
    await page.reload();
    await settled(page);
    expect(await ground(page)).toBe(light);
    await page.getByLabel('Colours').selectOption('system');
    expect(await ground(page)).toBe(dark);
  });

  test('no view is wider than a screen of 360 px', async () => {
    const phone = { viewport: { width: 360, height: 740 } };
    const wide: string[] = [];
    for (const [views, token] of [
      [READER_VIEWS, world.readToken],
      [ADMIN_VIEWS, world.adminToken],
    ] as const) {
      const page = await pages.at(views[0]!, token, phone);
      for (const view of views) {
        await goTo(page, view);
        if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth))
          wide.push(view);
      }
    }
    expect(wide).toEqual([]);
  });

  async function violationsOf(page: Page, view: string): Promise<string[]> {
    await goTo(page, view);
    await page.evaluate(AXE);
    return page.evaluate(async (name) => {
      const { axe } = globalThis as unknown as {
        axe: { run(): Promise<{ violations: Violation[] }> };
      };
      interface Violation {
        id: string;
        impact: string;
        nodes: { html: string }[];
      }
      const { violations } = await axe.run();
      return violations.map(
        ({ id, impact, nodes }) => `${name}: ${id} (${impact}) ${nodes[0]?.html}`,
      );
    }, view);
  }

  for (const colorScheme of ['light', 'dark'] as const) {
    test(`axe finds nothing to complain about in any view, ${colorScheme}`, async () => {
      const found: string[] = [];
      const reader = await pages.asReader(READER_VIEWS[0]!, { colorScheme });
      for (const view of READER_VIEWS) found.push(...(await violationsOf(reader, view)));
      const admin = await pages.asAdmin(ADMIN_VIEWS[0]!, { colorScheme });
      for (const view of ADMIN_VIEWS) found.push(...(await violationsOf(admin, view)));
      expect(found).toEqual([]);
    }, 180_000);
  }

  test('one user clicks an ad, twice, goes back, reloads and clicks again: the number rises by exactly one', async () => {
    const dashboard = await pages.asReader(`clicks?ad=${QUIET_AD}&range=7d`);
    await shows(dashboard, 'live-total-hour', 0);
    expect(await shown(dashboard, 'range-total')).toBe(0);
    const signed = [
      'sign',
      '--imp',
      'imp-browser',
      '--ad',
      QUIET_AD,
      '--base',
      world.product.clickUrl,
    ];
    link = (await world.product.do(...signed)).trim();

    const user = await pages.newPage();
    const adPage = `${landing.url}ad`;
    await user.goto(adPage);
    await user.getByRole('link', { name: 'Buy now' }).dblclick();
    await user.waitForURL(`${landing.url}landing?imp=imp-browser`);
    await shows(dashboard, 'live-total-hour', 1);
    await user.goBack();
    await user.getByRole('link', { name: 'Buy now' }).click();
    await user.waitForURL(/landing/);
    await user.reload();
    await user.goto(link);
    await user.waitForURL(/landing/);

    await eventually('every request is counted', async () => {
      const { partitions, outcomes } = await world.product.admin.status();
      const waiting = partitions.some(({ backlog }) => backlog > 0);
      return !waiting && outcomes.duplicate! >= 2;
    });
    await shows(dashboard, 'range-total', 1);
    const total = { ad_ids: QUIET_AD, ...wholeRange(), granularity: 'total', group_by: 'none' };
    expect(sum(await ask<Rows>(world, '/v1/ads/metrics', total))).toBe(1);
    expect(await shown(dashboard, 'live-total-hour')).toBe(1);
  });
});

function landingPage(request: Request, link: string): Response {
  const body =
    new URL(request.url).pathname === '/ad'
      ? `<a href="${Bun.escapeHTML(link)}">Buy now</a>`
      : 'Thank you';
  const html = `<!doctype html><html lang="en"><title>Shop</title><link rel="icon" href="data:,"><body>${body}`;
  return new Response(html, { headers: { 'Content-Type': 'text/html; charset=utf-8' } });
}
