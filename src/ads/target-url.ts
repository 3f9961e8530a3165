/**
 * Which targets an ad may have, and the bytes that `Location` carries for them.
 *
 * The text itself is judged and kept, never a parser's normal form of it: `new URL` trims, drops
 * tabs and turns backslashes into slashes, so what it accepts is not what would be sent.
 */

/** Longest `Location` of a target before macros and passed-on parameters: proxies refuse 8 KiB. */
export const MAX_TARGET_BYTES = 4096;

export type TargetCheck = { readonly ok: true } | { readonly ok: false; readonly reason: string };

const SCHEME = /^https?:\/\//i;
/** C0, DEL, C1, and the two separators that some parsers take for line ends. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
/** Userinfo, a backslash, an escape, a macro or white space before the path: the host would lie. */
const AUTHORITY_REFUSED = /[@\\%{}\s]/;
const AUTHORITY_END = /[/?#]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII starts at NUL
const ASCII = /^[\u0000-\u007f]*$/;

/** Only absolute `http:` and `https:` URLs with a host and nothing that could hide it. */
export function checkTargetUrl(raw: string): TargetCheck {
  if (raw.length > MAX_TARGET_BYTES) return tooLong();
  if (CONTROL.test(raw)) return refused('it holds a control or line-separator character');
  if (!raw.isWellFormed()) return refused('it is not valid Unicode');
  const scheme = SCHEME.exec(raw);
  if (scheme === null) return refused('it must start with http:// or https://');
  if (raw.endsWith(' ')) return refused('it ends with a space');
  const authority = authorityOf(raw, scheme[0].length);
  if (authority === '') return refused('it has no host');
  if (AUTHORITY_REFUSED.test(authority)) {
    return refused(
      'its host part holds user information, a backslash, an escape, a macro or a space',
    );
  }
  const url = URL.parse(raw);
  if (url === null || url.hostname === '') return refused('its host or port is not valid');
  return locationBytes(raw).length > MAX_TARGET_BYTES ? tooLong() : { ok: true };
}

function refused(reason: string): TargetCheck {
  return { ok: false, reason };
}

function tooLong(): TargetCheck {
  return refused(`it is longer than ${MAX_TARGET_BYTES} bytes`);
}

function authorityOf(raw: string, start: number): string {
  const length = raw.slice(start).search(AUTHORITY_END);
  return length < 0 ? raw.slice(start) : raw.slice(start, start + length);
}

/**
 * The bytes of `Location` for an accepted target: as they are, but for raw spaces (`%20`), other
 * non-ASCII (its UTF-8, percent-encoded) and a non-ASCII host, which only works as its IDNA form.
 */
export function locationBytes(target: string): string {
  if (ASCII.test(target)) return encodeUnsafe(target);
  const start = target.indexOf('//') + 2;
  const authority = authorityOf(target, start);
  if (ASCII.test(authority)) return encodeUnsafe(target);
  const host = URL.parse(target)?.host ?? authority;
  return target.slice(0, start) + host + encodeUnsafe(target.slice(start + authority.length));
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
const UNSAFE_IN_HEADER = /[\u0000-\u0020\u007f-\u{10ffff}]+/gu;

/** Percent-encodes what a header may not carry; everything else, `%` included, stays. */
function encodeUnsafe(text: string): string {
  return text.replace(UNSAFE_IN_HEADER, (run) => encodeURIComponent(run.toWellFormed()));
}

/** Characters of path, query and fragment that header and URL take as they are; by character code. */
const PLAIN_REST = tableOf("A-Za-z0-9-._~!$&'()*+,;=:@/?#%");
const PLAIN_HOST = tableOf('a-z0-9.-');
const SCHEMES = ['https://', 'http://'] as const;

function tableOf(set: string): Uint8Array {
  const table = new Uint8Array(128);
  const pattern = new RegExp(`[${set.replace('-._', '\\-._').replace('.-', '.\\-')}]`);
  for (let code = 0; code < table.length; code++) {
    if (pattern.test(String.fromCharCode(code))) table[code] = 1;
  }
  return table;
}

function allIn(table: Uint8Array, text: string, from: number, to: number): boolean {
  // Codes above the table read undefined, which is not 1.
  for (let at = from; at < to; at++) if (table[text.charCodeAt(at)] !== 1) return false;
  return true;
}

/**
 * Whether a target is surely good and is its own `Location`: no macro, nothing to encode. Narrower
 * than `checkTargetUrl` on purpose: whatever it lets through, that one does too. By hand and not by
 * pattern, because every click asks.
 */
export function isPlainTarget(target: string): boolean {
  if (target.length > MAX_TARGET_BYTES) return false;
  const scheme = SCHEMES.find((each) => target.startsWith(each));
  if (scheme === undefined) return false;
  let hostEnd = scheme.length;
  while (hostEnd < target.length && PLAIN_HOST[target.charCodeAt(hostEnd)] === 1) hostEnd++;
  if (hostEnd < target.length && !'/?#'.includes(target[hostEnd]!)) return false;
  return (
    isPlainHost(target.slice(scheme.length, hostEnd)) &&
    allIn(PLAIN_REST, target, hostEnd, target.length)
  );
}

/** Labels between single dots that neither begin nor end with a hyphen, the last of letters. */
function isPlainHost(host: string): boolean {
  let labelStart = true;
  for (let at = 0; at < host.length; at++) {
    const code = host.charCodeAt(at);
    const isDot = code === 0x2e;
    if (labelStart && (isDot || code === 0x2d)) return false;
    // Two hyphens may be an IDNA label, which needs a look at it.
    if (code === 0x2d && (host[at + 1] === '-' || host[at + 1] === '.')) return false;
    labelStart = isDot;
  }
  const top = host.length - host.lastIndexOf('.') - 1;
  if (top < 2 || top === host.length) return false;
  for (let at = host.length - top; at < host.length; at++) {
    const code = host.charCodeAt(at);
    if (code < 0x61 || code > 0x7a) return false;
  }
  return host.length <= 253;
}

export interface MacroValues {
  readonly impressionId: string;
  readonly adId: string;
  readonly campaignId: string;
  readonly country: string;
  readonly device: string;
  /** ms UTC of the click. */
  readonly timestampMs: number;
}

type Fill = (values: MacroValues) => string;

const MACROS: ReadonlyMap<string, Fill> = new Map([
  ['{impression_id}', (values) => encodeURIComponent(values.impressionId)],
  ['{ad_id}', (values) => encodeURIComponent(values.adId)],
  ['{campaign_id}', (values) => encodeURIComponent(values.campaignId)],
  ['{country}', (values) => encodeURIComponent(values.country)],
  ['{device}', (values) => encodeURIComponent(values.device)],
  ['{timestamp}', (values) => String(values.timestampMs)],
]);
const MACRO_PATTERN = /(\{(?:impression_id|ad_id|campaign_id|country|device|timestamp)\})/;

/**
 * Prepares an accepted target once, so that a click only joins strings. Text in braces that is no
 * macro stays. A macro cannot stand in scheme or host: `checkTargetUrl` refuses braces there.
 */
export function compileTarget(target: string): Fill {
  const parts = locationBytes(target).split(MACRO_PATTERN);
  const [head = ''] = parts;
  if (parts.length === 1) return () => head;
  // `split` with one group: macros stand at the odd places, the text after each follows it.
  const fills = parts.filter((_, at) => at % 2 === 1).map((macro) => MACROS.get(macro)!);
  const texts = parts.filter((_, at) => at % 2 === 0);
  return (values) => {
    let out = head;
    for (let at = 0; at < fills.length; at++) out += fills[at]!(values) + texts[at + 1]!;
    return out;
  };
}

/**
 * Adds the click's other parameters, as they came, to a location's query. `a=` and `a` stay
 * different, order and duplicates stay, and a fragment stays behind the query.
 */
export function appendQuery(location: string, rawQueryParts: readonly string[]): string {
  const added = rawQueryParts
    .filter((part) => part !== '')
    .map((part) => encodeUnsafe(part).replaceAll('#', '%23'))
    .join('&');
  if (added === '') return location;
  const hash = location.indexOf('#');
  const base = hash < 0 ? location : location.slice(0, hash);
  const fragment = hash < 0 ? '' : location.slice(hash);
  return base + joinerAfter(base) + added + fragment;
}

function joinerAfter(base: string): string {
  if (!base.includes('?')) return '?';
  return base.endsWith('?') || base.endsWith('&') ? '' : '&';
}
