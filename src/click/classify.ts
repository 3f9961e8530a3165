/**
 * The class of a click: only `click` can be billed. Checked in this order: the method, what the
 * browser says about its purpose, who the user agent is.
 */
import type { ClickClass } from '../event/click-event.ts';

/** Speculative loads, as Chrome, Safari and Firefox have named them over the years. */
const SPECULATIVE = /prefetch|prerender|preview/i;
const PURPOSE_HEADERS = ['sec-purpose', 'purpose', 'x-purpose', 'x-moz'] as const;

export function classify(method: string, headers: Headers, isPreview: boolean): ClickClass {
  if (method === 'HEAD') return 'head';
  for (const name of PURPOSE_HEADERS) {
    const value = headers.get(name);
    if (value !== null && SPECULATIVE.test(value)) return 'prefetch';
  }
  return isPreview ? 'preview' : 'click';
}
