/**
 * Errors with a stable code.
 *
 * `refuse`: the caller must change something. `retry`: the same call may work later. Anything that
 * is not a `LedgerError` is a bug: let it crash the process, the log replays what was in flight.
 */
export type ErrorKind = 'refuse' | 'retry';

export class LedgerError extends Error {
  readonly code: string;
  readonly kind: ErrorKind;
  /** What the reader should do about it, one sentence. */
  readonly hint: string | undefined;

  constructor(
    code: string,
    message: string,
    options: { kind?: ErrorKind; hint?: string; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'LedgerError';
    this.code = code;
    this.kind = options.kind ?? 'refuse';
    this.hint = options.hint;
  }
}

/** Stops the process on a broken invariant: wrong numbers are worse than no numbers. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${message}`);
}

/** Ends an exhaustive `switch`; the type checker refuses a forgotten case. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}
