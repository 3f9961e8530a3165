/**
 * What the API says when it refuses: `application/problem+json` (RFC 9457) with a stable `code`.
 *
 * Only a `Problem` and a `LedgerError` speak to the caller. Every other error is a bug: the caller
 * gets an id, the log gets the id and the error.
 */
import { randomBytes } from 'node:crypto';
import { LedgerError } from '../platform/errors.ts';

export interface ParameterError {
  readonly parameter: string;
  readonly message: string;
}

interface ProblemMore {
  readonly hint?: string | undefined;
  readonly errors?: readonly ParameterError[];
  readonly headers?: Readonly<Record<string, string>>;
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'The request is not valid',
  401: 'A valid token is needed',
  403: 'This token may not do that',
  404: 'Not found',
  405: 'This method is not allowed here',
  409: 'Not possible in the present state',
  413: 'The request is too large',
  415: 'This kind of body is not taken',
  429: 'Too many requests',
  500: 'Internal error',
  503: 'Not possible at the moment',
};

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly more: ProblemMore = {},
  ) {
    super(detail);
    this.name = 'Problem';
  }
}

/** One refusal for all parameters that are wrong, so that the caller mends them at once. */
export function parameterProblem(errors: readonly ParameterError[]): Problem {
  const shown = errors.slice(0, MAX_PARAMETER_ERRORS);
  const detail = shown.map(({ parameter, message }) => `${parameter}: ${message}`).join(' ');
  return new Problem(400, 'parameters_invalid', detail, { errors: shown });
}

const MAX_PARAMETER_ERRORS = 20;

/** Where errors go that the caller is not told about. */
export type ErrorLog = (error: unknown, message: string) => void;

export function problemResponse(problem: Problem): Response {
  const { status, code, detail, more } = problem;
  const body = {
    type: `urn:clickledger:problem:${code}`,
    title: TITLES[status] ?? 'Error',
    status,
    detail,
    code,
    ...(more.hint === undefined ? {} : { hint: more.hint }),
    ...(more.errors === undefined ? {} : { errors: more.errors }),
  };
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { 'Content-Type': 'application/problem+json', ...more.headers },
  });
}

/** What the caller is told about any error; what is a bug is logged under the id that it names. */
export function toProblem(error: unknown, log: ErrorLog, doing: string): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof LedgerError) {
    const status = error.kind === 'retry' ? 503 : (STATUS[error.code] ?? 409);
    // A passing failure has its reason in the cause, which is not the caller's business.
    if (error.kind === 'retry') log(error, `${doing}: ${error.message}`);
    return new Problem(status, error.code, error.message, {
      hint: error.hint,
      ...(status === 503 ? { headers: { 'Retry-After': '5' } } : {}),
    });
  }
  const errorId = randomBytes(6).toString('hex');
  log(error, `${doing}: internal error ${errorId}`);
  return new Problem(500, 'internal', `Something failed inside; it is logged as ${errorId}.`);
}

/** Refusals that are about the request itself; all others are about the ledger's state: 409. */
const STATUS: Readonly<Record<string, number>> = {
  cursor_invalid: 400,
  dead_letter_id: 400,
  dead_letter_unknown: 404,
  dispute_unknown: 404,
  hour_invalid: 400,
  id_invalid: 400,
  import_empty: 400,
  ingest_invalid: 400,
  ingest_malformed: 400,
  kid_invalid: 400,
  kid_unknown: 404,
  period_invalid: 400,
  query_too_large: 400,
  text_not_utf8: 400,
  tier_expired: 400,
  timezone_unknown: 400,
  token_expiry_invalid: 400,
  token_name_invalid: 400,
  token_name_too_long: 400,
  token_unknown: 404,
  verdicts_invalid: 400,
  verdicts_too_many: 400,
  webhook_events_invalid: 400,
  webhook_unknown: 404,
  webhook_url_invalid: 400,
};
