/**
 * How every request of the click service ended, as plain counters.
 *
 * Each request counts under exactly one reason, so the reasons sum to the requests (those that
 * `opsFetch` answered apart).
 */
import type { ClickClass } from '../event/click-event.ts';
import { LatencyCounts } from '../platform/latency-counts.ts';

export const CLICK_REASONS = [
  'redirected_click',
  'redirected_head',
  'redirected_prefetch',
  'redirected_preview',
  'malformed',
  'html_escaped',
  'repeated_parameter',
  'bad_signature',
  'unknown_ad',
  'bad_target',
  'method',
  'url_too_long',
  'log_unavailable',
  'log_failed',
  'given_away',
  'internal',
  'not_found',
] as const;
export type ClickReason = (typeof CLICK_REASONS)[number];

export const REDIRECTED: Readonly<Record<ClickClass, ClickReason>> = {
  click: 'redirected_click',
  head: 'redirected_head',
  prefetch: 'redirected_prefetch',
  preview: 'redirected_preview',
};

export interface ClickMetrics {
  outcome(reason: ClickReason): void;
  /**
   * A client address was taken from the request. A large share of private ones says that
   * `trustedProxies` is too low: the proxy's own address is taken for the client's.
   */
  address(isPrivate: boolean): void;
  /** A redirect was answered, this long after its request was taken. */
  redirected(latencyMs: number): void;
  /** The configured header held no usable address and the peer's was taken instead. */
  forwardedInvalid(): void;
}

export const REDIRECT_BOUNDS_MS = [
  0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 250, 1_000, 5_000,
] as const;

/** Counts in plain fields; whoever exports metrics reads them. */
export class ClickCounters implements ClickMetrics {
  readonly outcomes = Object.fromEntries(CLICK_REASONS.map((reason) => [reason, 0])) as Record<
    ClickReason,
    number
  >;
  addresses = 0;
  addressesPrivate = 0;
  xffInvalid = 0;
  readonly redirects = new LatencyCounts(REDIRECT_BOUNDS_MS);

  outcome(reason: ClickReason): void {
    this.outcomes[reason] += 1;
  }

  address(isPrivate: boolean): void {
    this.addresses += 1;
    if (isPrivate) this.addressesPrivate += 1;
  }

  redirected(latencyMs: number): void {
    this.redirects.observe(latencyMs);
  }

  forwardedInvalid(): void {
    this.xffInvalid += 1;
  }
}
