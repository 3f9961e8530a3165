/**
 * Reads the signed parameters from a request's URL, without `URL` or `URLSearchParams`: those cost
 * more than the signature check. Names and values are taken at the raw level; ids never hold a
 * character that needs percent-encoding, so nothing is decoded and nothing can fail to decode.
 */
import { isId } from '../event/click-event.ts';
import { CLICK_PATH } from '../signing/signature.ts';

export interface ClickParams {
  readonly imp: string;
  readonly ad: string;
  readonly sig: string;
  readonly kid: string | undefined;
}

export type ParseProblem = 'malformed' | 'html_escaped' | 'repeated_parameter';

const QUESTION_MARK = 63;
const EQUALS = 61;
const HTML_ESCAPE = 'amp;';
const OWN_NAMES = ['imp', 'ad', 'sig', 'kid'] as const;
/** 43 characters are right; other lengths are a wrong signature, not a malformed one. */
const SIGNATURE_PATTERN = /^[A-Za-z0-9_-]{1,128}$/;

/** Where the path begins. Bun leaves out scheme and host when the Host header is not usable. */
export function pathStart(url: string): number {
  if (url.startsWith('/')) return 0;
  const at = url.indexOf('/', 'http://'.length + 1);
  return at < 0 ? url.length : at;
}

export function isClickPath(url: string, pathAt: number): boolean {
  if (!url.startsWith(CLICK_PATH, pathAt)) return false;
  const after = pathAt + CLICK_PATH.length;
  return after === url.length || url.charCodeAt(after) === QUESTION_MARK;
}

/** The path alone, for everything that is not a click. */
export function pathOf(url: string, pathAt: number): string {
  const query = url.indexOf('?', pathAt);
  return query < 0 ? url.slice(pathAt) : url.slice(pathAt, query);
}

export function parseClick(url: string, pathAt: number): ClickParams | ParseProblem {
  let imp: string | undefined;
  let ad: string | undefined;
  let sig: string | undefined;
  let kid: string | undefined;
  const end = queryEnd(url, pathAt);
  let at = pathAt + CLICK_PATH.length + 1;
  while (at < end) {
    const stop = partEnd(url, at, end);
    if (isNamed(url, at, stop, 'imp')) {
      if (imp !== undefined) return 'repeated_parameter';
      imp = url.slice(at + 4, stop);
    } else if (isNamed(url, at, stop, 'ad')) {
      if (ad !== undefined) return 'repeated_parameter';
      ad = url.slice(at + 3, stop);
    } else if (isNamed(url, at, stop, 'sig')) {
      if (sig !== undefined) return 'repeated_parameter';
      sig = url.slice(at + 4, stop);
    } else if (isNamed(url, at, stop, 'kid')) {
      if (kid !== undefined) return 'repeated_parameter';
      kid = url.slice(at + 4, stop);
    } else if (isHtmlEscaped(url, at, stop)) {
      return 'html_escaped';
    }
    at = stop + 1;
  }
  if (imp === undefined || ad === undefined || sig === undefined) return 'malformed';
  if (!isId(imp) || !isId(ad) || !SIGNATURE_PATTERN.test(sig)) return 'malformed';
  if (kid !== undefined && !isId(kid)) return 'malformed';
  return { imp, ad, sig, kid };
}

/** The raw parameters that are not ours, in order, with duplicates, exactly as they were sent. */
export function otherParts(url: string, pathAt: number): string[] {
  const parts: string[] = [];
  const end = queryEnd(url, pathAt);
  let at = pathAt + CLICK_PATH.length + 1;
  while (at < end) {
    const stop = partEnd(url, at, end);
    if (stop > at && !OWN_NAMES.some((name) => isNamed(url, at, stop, name))) {
      parts.push(url.slice(at, stop));
    }
    at = stop + 1;
  }
  return parts;
}

/** A fragment is never sent by a browser; a client that sends one does not make it part of a value. */
function queryEnd(url: string, pathAt: number): number {
  const hash = url.indexOf('#', pathAt);
  return hash < 0 ? url.length : hash;
}

function partEnd(url: string, at: number, end: number): number {
  const stop = url.indexOf('&', at);
  return stop < 0 || stop > end ? end : stop;
}

/**
 * Whether the part `[at, stop)` is `name=…` or `name` alone. Compares characters by hand: it runs
 * several times a click, and `startsWith` takes three times as long.
 */
function isNamed(url: string, at: number, stop: number, name: string): boolean {
  const after = at + name.length;
  if (after > stop) return false;
  for (let i = 0; i < name.length; i++) {
    if (url.charCodeAt(at + i) !== name.charCodeAt(i)) return false;
  }
  return after === stop || url.charCodeAt(after) === EQUALS;
}

/** `&amp;imp=` taken literally: whoever placed the link escaped it for HTML once too often. */
function isHtmlEscaped(url: string, at: number, stop: number): boolean {
  let from = at;
  while (url.startsWith(HTML_ESCAPE, from)) from += HTML_ESCAPE.length;
  return from !== at && OWN_NAMES.some((name) => isNamed(url, from, stop, name));
}
