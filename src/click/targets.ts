/**
 * From an ad's target to the bytes of `Location`.
 *
 * The import has checked the target already. It is checked again here, because whatever wrote the
 * catalog, this is the last place that can refuse to send a person to `javascript:`.
 */
import { appendQuery, checkTargetUrl, compileTarget, isPlainTarget } from '../ads/target-url.ts';
import type { ClickEvent } from '../event/click-event.ts';
import { BoundedCache } from './bounded-cache.ts';

/** Fills a target for one click and adds the parameters that are passed on. */
export type FillTarget = (event: ClickEvent, passedOn: readonly string[]) => string;

const CACHED_TARGETS = 5_000;

export class Targets {
  /** By the target's text, so that a changed ad can never get the target it had before. */
  readonly #known = new BoundedCache<{ readonly fill: FillTarget | null }>(CACHED_TARGETS);

  /** Null when the target must not be redirected to. */
  of(targetUrl: string): FillTarget | null {
    // Most targets are plain; parsing each as a URL would cost more than all else of a click.
    if (isPlainTarget(targetUrl)) {
      return (_event, passedOn) =>
        passedOn.length === 0 ? targetUrl : appendQuery(targetUrl, passedOn);
    }
    const known = this.#known.get(targetUrl);
    if (known !== undefined) return known.fill;
    const fill = checkTargetUrl(targetUrl).ok ? fillerOf(targetUrl) : null;
    this.#known.set(targetUrl, { fill });
    return fill;
  }
}

function fillerOf(targetUrl: string): FillTarget {
  const compiled = compileTarget(targetUrl);
  return (event, passedOn) => {
    const location = compiled({
      impressionId: event.impressionId,
      adId: event.adId,
      campaignId: event.campaignId,
      country: event.country,
      device: event.device,
      timestampMs: event.clickedAtMs,
    });
    return passedOn.length === 0 ? location : appendQuery(location, passedOn);
  };
}
