/**
 * The only place that reads the machine's clock.
 *
 * Everything else is handed a `Clock`, so that a test can decide what time it is and counting can
 * stay a pure function of the log.
 */

/** Milliseconds since 1970-01-01T00:00:00Z. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/** A clock that runs `offsetMs` ahead of the machine's; only the demo and tests use another than 0. */
export function shiftedClock(offsetMs: number): Clock {
  return offsetMs === 0 ? systemClock : () => Date.now() + offsetMs;
}

/** Milliseconds of a clock that never jumps; only differences of two readings mean anything. */
export const monotonicMs = (): number => performance.now();
