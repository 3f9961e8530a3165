/**
 * What the user agent tells: the kind of device, and whether it is a program that fetches links to
 * preview or index them.
 *
 * Parsing one user agent takes 30 µs, so results are cached by the whole text.
 */
import Bowser from 'bowser';
import { isbot } from 'isbot';
import { type Device, MAX_USER_AGENT_LENGTH } from '../event/click-event.ts';
import { BoundedCache } from './bounded-cache.ts';

export interface Agent {
  readonly device: Device;
  /** A link previewer, crawler or HTTP library: logged, never billed. */
  readonly isPreview: boolean;
}

const CACHED_AGENTS = 10_000;
const UNNAMED: Agent = { device: 'other', isPreview: false };

/**
 * Previewers that `isbot` does not know. In-app browsers must stay out of it: `Line/`, `KAKAOTALK`,
 * `Instagram`, `[LinkedInApp]` or `Slack/` in a browser's user agent is a person.
 */
const MORE_PREVIEWERS =
  /^WhatsApp\/|facebookexternalhit|Slackbot|Discordbot|TelegramBot|Twitterbot|LinkedInBot|SkypeUriPreview|Rocket\.Chat|^Microsoft Office\/|ms-office/i;

export class Agents {
  readonly #known = new BoundedCache<Agent>(CACHED_AGENTS);

  of(userAgent: string): Agent {
    if (userAgent === '') return UNNAMED;
    const known = this.#known.get(userAgent);
    if (known !== undefined) return known;
    // Over-long ones are cut, so that no text makes the patterns slow, and not kept: a cut text
    // would hold the whole of it in memory.
    if (userAgent.length > MAX_USER_AGENT_LENGTH) {
      return parseAgent(userAgent.slice(0, MAX_USER_AGENT_LENGTH));
    }
    const agent = parseAgent(userAgent);
    this.#known.set(userAgent, agent);
    return agent;
  }
}

function parseAgent(userAgent: string): Agent {
  return {
    device: deviceOf(userAgent),
    isPreview: isbot(userAgent) || MORE_PREVIEWERS.test(userAgent),
  };
}

function deviceOf(userAgent: string): Device {
  switch (Bowser.getParser(userAgent).getPlatformType(true)) {
    case 'desktop':
      return 'desktop';
    case 'mobile':
      return 'mobile';
    case 'tablet':
      return 'tablet';
    default:
      return 'other';
  }
}

/**
 * The device by client hints, which browsers that send them keep truthful while their user agent is
 * frozen; null when they do not say enough. Android without `mobile` is a tablet.
 */
export function deviceByHints(mobile: string | null, platform: string | null): Device | null {
  if (mobile === null) return null;
  if (mobile === '?1') return 'mobile';
  if (mobile !== '?0') return null;
  switch (platform) {
    case '"Windows"':
    case '"macOS"':
    case '"Linux"':
    case '"Chrome OS"':
    case '"Chromium OS"':
      return 'desktop';
    case '"Android"':
      return 'tablet';
    default:
      return null;
  }
}
