/** Pages of the console in a browser, with somebody signed in, and what tests ask of them. */
import { expect } from 'bun:test';
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import { systemClock } from '../../src/platform/clock.ts';
import { complaintsOf } from './browser.ts';
import type { ConsoleWorld } from './console-world.ts';
import { eventually } from './product.ts';

/** A browser that says that it is driven by a program would not be billed. */
const USER_AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36';
const SHOWN_MS = 20_000;
const DAY_MS = 86_400_000;

export type Look = NonNullable<Parameters<Browser['newContext']>[0]>;

export interface Rows {
  readonly rows: readonly {
    readonly bucket_start: string;
    readonly clicks: number;
    readonly final: boolean;
  }[];
}

export const sum = ({ rows }: Rows): number =>
  rows.reduce((total, { clicks }) => total + clicks, 0);

/** A range that stands still while a test looks at it: all of what the world has. */
export function wholeRange(): { from: string; to: string } {
  const day = (offset: number): string =>
    new Date(systemClock() + offset * DAY_MS).toISOString().slice(0, 10);
  return { from: `${day(-2)}T00:00`, to: `${day(2)}T00:00` };
}

export const rangeQuery = (more: Record<string, string> = {}): string =>
  String(new URLSearchParams({ range: 'custom', ...wholeRange(), tz: 'UTC', ...more }));

export class ConsolePages {
  readonly #browser: Browser;
  readonly #world: ConsoleWorld;
  #contexts: BrowserContext[] = [];
  #complaints: string[][] = [];

  constructor(browser: Browser, world: ConsoleWorld) {
    this.#browser = browser;
    this.#world = world;
  }

  async newPage(look: Look = {}): Promise<Page> {
    const context = await this.#browser.newContext({
      timezoneId: 'Europe/Berlin',
      userAgent: USER_AGENT,
      viewport: { width: 1280, height: 900 },
      ...look,
    });
    context.setDefaultTimeout(SHOWN_MS);
    this.#contexts.push(context);
    const page = await context.newPage();
    this.#complaints.push(complaintsOf(page));
    return page;
  }

  /** A page with somebody signed in, at a view, which may still be loading. */
  async open(view: string, token: string, look: Look = {}): Promise<Page> {
    const page = await this.newPage(look);
    await page.addInitScript((text) => sessionStorage.setItem('clickledger.token', text), token);
    await page.goto(`${this.#world.product.apiUrl}/console/#/${view}`);
    return page;
  }

  async at(view: string, token: string, look: Look = {}): Promise<Page> {
    const page = await this.open(view, token, look);
    await settled(page);
    return page;
  }

  asReader(view: string, look: Look = {}): Promise<Page> {
    return this.at(view, this.#world.readToken, look);
  }

  asAdmin(view: string, look: Look = {}): Promise<Page> {
    return this.at(view, this.#world.adminToken, look);
  }

  /** Closes what was opened; returns what its pages complained about. */
  async close(): Promise<string[]> {
    for (const context of this.#contexts) await context.close();
    const heard = this.#complaints.flat();
    this.#contexts = [];
    this.#complaints = [];
    return heard;
  }
}

export async function settled(page: Page): Promise<void> {
  await page.waitForSelector('.view h1');
  await page.waitForFunction(() => document.querySelector('.skeleton') === null);
}

/** To another view, as a link in the page does it. */
export async function goTo(page: Page, view: string): Promise<void> {
  await page.evaluate((hash) => {
    location.hash = `/${hash}`;
  }, view);
  await settled(page);
}

export async function textOf(locator: Locator): Promise<string> {
  return ((await locator.textContent()) ?? '').trim();
}

export async function shown(page: Page, id: string): Promise<number> {
  return Number((await textOf(page.getByTestId(id))).replaceAll(',', ''));
}

export async function shows(page: Page, id: string, value: number): Promise<void> {
  const isShown = async (): Promise<boolean> => (await shown(page, id)) === value;
  await eventually(`${id} shows ${value}`, isShown, SHOWN_MS);
}

/** What the API answers to the reader. */
export async function ask<T>(
  { product, readToken }: ConsoleWorld,
  path: string,
  params: Record<string, string> = {},
): Promise<T> {
  const response = await fetch(`${product.apiUrl}${path}?${new URLSearchParams(params)}`, {
    headers: { Authorization: `Bearer ${readToken}` },
  });
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}
