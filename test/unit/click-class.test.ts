import { describe, expect, test } from 'bun:test';
import { Agents, deviceByHints } from '../../src/click/agent.ts';
import { classify } from '../../src/click/classify.ts';

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';
const agents = new Agents();

describe('previews and programs', () => {
  test.each([
    'WhatsApp/2',
    'WhatsApp/2.23.20.0 A',
    'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
    'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
    'Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)',
    'TelegramBot (like TwitterBot)',
    'Twitterbot/1.0',
    'LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)',
    'Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com',
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0',
    'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36',
    'Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0)',
    'Rocket.Chat/6.2',
    'curl/8.5.0',
    'python-requests/2.31',
  ])('%s is a preview', (userAgent) => {
    expect(agents.of(userAgent).isPreview).toBe(true);
  });

  test.each([
    CHROME,
    IPHONE,
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/430.0.0.29.101]',
    'Mozilla/5.0 (iPhone; CPU iPhone OS 16_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/20A362 Instagram 270.0.0.13.83',
    'Mozilla/5.0 (iPhone; CPU iPhone OS 16_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [LinkedInApp]/9.27',
    'Mozilla/5.0 (iPhone; CPU iPhone OS 16_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Safari Line/13.1.0',
    'Mozilla/5.0 (Linux; Android 12; Pixel 6) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/100 Mobile Safari/537.36;KAKAOTALK 2409870',
    'Mozilla/5.0 (Linux; Android 10; CUBOT NOTE 20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/100 Mobile Safari/537.36',
    'Mozilla/5.0 (iPhone; CPU iPhone OS 16_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [Pinterest/iOS]',
    '',
  ])('a person with the browser %p is not a preview', (userAgent) => {
    expect(agents.of(userAgent).isPreview).toBe(false);
  });

  test('a user agent of a megabyte is answered fast and not kept', () => {
    expect(new Agents().of(`${CHROME} ${'x'.repeat(1_000_000)}`).device).toBe('desktop');
  });
});

describe('the class', () => {
  const of = (method: string, headers: Record<string, string>, isPreview = false) =>
    classify(method, new Headers(headers), isPreview);

  test.each([
    ['Sec-Purpose', 'prefetch'],
    ['Sec-Purpose', 'prefetch;prerender'],
    ['Sec-Purpose', 'prefetch;anonymous-client-ip'],
    ['Purpose', 'prefetch'],
    ['Purpose', 'PreFetch'],
    ['X-Moz', 'prefetch'],
    ['x-purpose', 'preview'],
    ['SEC-PURPOSE', 'PRERENDER'],
  ])('%s: %s is a prefetch (A5)', (name, value) => {
    expect(of('GET', { [name]: value })).toBe('prefetch');
  });

  test('a HEAD is a head, whoever sends it (A1, A2, A3)', () => {
    expect(of('HEAD', {})).toBe('head');
    expect(of('HEAD', { 'sec-purpose': 'prefetch' }, true)).toBe('head');
  });

  test('a preview that prefetches is a prefetch, other purposes are clicks', () => {
    expect(of('GET', { purpose: 'prefetch' }, true)).toBe('prefetch');
    expect(of('GET', {}, true)).toBe('preview');
    expect(of('GET', { purpose: 'navigate', 'x-moz': '' })).toBe('click');
  });
});

describe('the device', () => {
  test.each([
    [CHROME, 'desktop'],
    [IPHONE, 'mobile'],
    [
      'Mozilla/5.0 (iPad; CPU OS 15_0 like Mac OS X) AppleWebKit/605.1.15 Version/15.0 Mobile/15E148 Safari/604.1',
      'tablet',
    ],
    [
      'Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 Version/6.0 TV Safari/537.36',
      'other',
    ],
    ['something', 'other'],
    ['', 'other'],
  ])('the user agent %p is %s', (userAgent, device) => {
    expect(agents.of(userAgent).device).toBe(device as never);
  });

  test.each([
    ['?1', '"Android"', 'mobile'],
    ['?1', null, 'mobile'],
    ['?0', '"Android"', 'tablet'],
    ['?0', '"Windows"', 'desktop'],
    ['?0', '"macOS"', 'desktop'],
    ['?0', '"Chrome OS"', 'desktop'],
    ['?0', null, null],
    ['?0', '"Unknown"', null],
    [null, '"Windows"', null],
    ['yes', '"Windows"', null],
  ])('the hints %p and %p say %p', (mobile, platform, device) => {
    expect(deviceByHints(mobile, platform)).toBe(device as never);
  });
});
