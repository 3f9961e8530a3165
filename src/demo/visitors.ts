/** Who clicks: browsers as they occur in the wild, from networks of several countries. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { Random } from './random.ts';

/** User agents with rising sums of how often each is seen; the last sum is the whole. */
export interface UserAgents {
  readonly texts: readonly string[];
  readonly sums: readonly number[];
}

const dataSchema = z.array(z.object({ userAgent: z.string().min(1), weight: z.number() }));

/**
 * The data of the package `user-agents`. Its own generator takes no seed, so the file that it draws
 * from is read instead.
 */
export function loadUserAgents(): UserAgents {
  const main = createRequire(import.meta.url).resolve('user-agents');
  const file = join(dirname(main), 'user-agents.json');
  const weights = new Map<string, number>();
  for (const { userAgent, weight } of dataSchema.parse(JSON.parse(readFileSync(file, 'utf8')))) {
    weights.set(userAgent, (weights.get(userAgent) ?? 0) + weight);
  }
  let sum = 0;
  const sums = [...weights.values()].map((weight) => {
    sum += weight;
    return sum;
  });
  return { texts: [...weights.keys()], sums };
}

export function pickUserAgent({ texts, sums }: UserAgents, random: Random): string {
  const point = random.fraction() * sums.at(-1)!;
  const at = sums.findIndex((sum) => sum > point);
  return texts[at]!;
}

/** Networks of consumer providers that the country database knows; `#` becomes a host. */
export const NETWORKS: readonly (readonly [country: string, address: string])[] = [
  ['US', '73.15.20.#'],
  ['US', '24.0.10.#'],
  ['US', '2600:1700:1::#'],
  ['DE', '91.10.20.#'],
  ['DE', '2003:c0:1::#'],
  ['FR', '90.10.20.#'],
  ['FR', '2a01:e34:1::#'],
  ['GB', '81.128.4.#'],
  ['JP', '126.10.20.#'],
  ['BR', '177.32.5.#'],
  ['IN', '117.200.3.#'],
  ['AU', '1.128.4.#'],
  ['CA', '24.48.3.#'],
  ['PL', '83.10.4.#'],
  ['ES', '80.24.2.#'],
  ['IT', '79.10.3.#'],
  ['SE', '78.64.2.#'],
  ['MX', '187.190.2.#'],
  ['KR', '175.192.3.#'],
  ['ZA', '41.0.4.#'],
];

export interface Visitor {
  readonly userAgent: string;
  readonly country: string;
  readonly address: string;
}

export function pickVisitor(userAgents: UserAgents, random: Random): Visitor {
  const [country, network] = random.pick(NETWORKS);
  const address = network.replace('#', String(1 + random.below(250)));
  return { userAgent: pickUserAgent(userAgents, random), country, address };
}

/** Programs that fetch a link to show a preview of it, when somebody pastes it. */
export const PREVIEWERS: readonly string[] = [
  'WhatsApp/2.24.10.81 A',
  'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
  'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
  'Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)',
  'TelegramBot (like TwitterBot)',
  'Twitterbot/1.0',
];

/** How browsers have said, over the years, that a load is only speculative. */
export const SPECULATIVE_HEADERS: readonly Readonly<Record<string, string>>[] = [
  { 'Sec-Purpose': 'prefetch' },
  { 'Sec-Purpose': 'prefetch;prerender' },
  { Purpose: 'prefetch' },
  { 'X-Moz': 'prefetch' },
  { 'X-Purpose': 'preview' },
];
