/** A browser for tests: Debian's Chromium, driven by playwright-core, which brings none of its own. */
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';

const PLACES = [
  process.env.CHROMIUM_PATH ?? '',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** Undefined when this machine has none: whoever asks says what is to be installed. */
export const BROWSER_PATH = PLACES.find((path) => path !== '' && existsSync(path));
export const NO_BROWSER = 'no Chromium here: apt-get install chromium, or set CHROMIUM_PATH';

export function launchBrowser(): Promise<Browser> {
  if (BROWSER_PATH === undefined) throw new Error(NO_BROWSER);
  // The tests may run as root, where Chromium's own sandbox does not start.
  return chromium.launch({ executablePath: BROWSER_PATH, args: ['--no-sandbox'] });
}

/** What a page complains about: errors, and what its Content-Security-Policy refused. */
export function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // A refusal that the page shows is not its fault.
    const isRefusal = /^Failed to load resource: .* status of 4\d\d/.test(message.text());
    if (message.type() === 'error' && !isRefusal) complaints.push(`console: ${message.text()}`);
  });
  page.on('requestfailed', (request) => {
    // A question that nobody waits for any more is taken back.
    const reason = request.failure()?.errorText ?? '';
    if (reason !== 'net::ERR_ABORTED') complaints.push(`${request.url()}: ${reason}`);
  });
  return complaints;
}
