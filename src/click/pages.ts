/**
 * Every answer that is not a redirect: short plain text, never a byte of the request in it, so there
 * is nothing to inject into.
 */
import type { ClickReason } from './metrics.ts';

export type RefusalReason = Exclude<
  ClickReason,
  | 'redirected_click'
  | 'redirected_head'
  | 'redirected_prefetch'
  | 'redirected_preview'
  | 'given_away'
>;

interface Page {
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const TRY_AGAIN: Page = {
  status: 503,
  text: 'This link cannot be opened right now. Please try again in a moment.',
  headers: { 'Retry-After': '1' },
};

const PAGES: Readonly<Record<RefusalReason, Page>> = {
  malformed: {
    status: 400,
    text: 'This ad link is not complete. It needs imp, ad and sig once each, with every placeholder filled in; sig is base64url without padding.',
  },
  html_escaped: {
    status: 400,
    text: 'This ad link was escaped for HTML once too often: it reads "&amp;" where "&" belongs. Whoever placed the ad has to correct the link.',
  },
  repeated_parameter: {
    status: 400,
    text: 'This ad link names imp, ad, sig or kid more than once.',
  },
  bad_signature: { status: 403, text: 'This ad link is not genuine.' },
  unknown_ad: { status: 404, text: 'This ad does not exist.' },
  bad_target: { status: 404, text: 'This ad leads nowhere: its target is not a web address.' },
  not_found: { status: 404, text: 'There is nothing here.' },
  method: {
    status: 405,
    text: 'An ad link can only be opened with GET or HEAD.',
    headers: { Allow: 'GET, HEAD' },
  },
  url_too_long: { status: 414, text: 'This ad link is too long.' },
  log_unavailable: TRY_AGAIN,
  log_failed: TRY_AGAIN,
  internal: TRY_AGAIN,
};

const COMMON_HEADERS = {
  'Content-Type': 'text/plain; charset=utf-8',
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  // The page's own address holds a signed link.
  'Referrer-Policy': 'no-referrer',
} as const;

export function refusal(reason: RefusalReason, isHead: boolean): Response {
  const page = PAGES[reason];
  return new Response(isHead ? null : `${page.text}\n`, {
    status: page.status,
    headers: { ...COMMON_HEADERS, ...page.headers },
  });
}

/** Its status and headers are copied into each redirect; faster than building both anew. */
const REDIRECT = new Response(null, { status: 302, headers: { 'Cache-Control': 'no-store' } });

/** Only what a browser needs: each header costs time on the hottest path. */
export function redirect(location: string): Response {
  const response = new Response(null, REDIRECT);
  response.headers.set('Location', location);
  return response;
}
