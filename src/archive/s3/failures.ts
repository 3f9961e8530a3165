/** What an error of the S3 client means, and how it is told. No error of the client leaves this folder. */
import { LedgerError } from '../../platform/errors.ts';

export type FailureKind =
  /** The same request may work in a moment. */
  | 'passing'
  /** The condition did not hold: the object is there, or is another one. */
  | 'exists'
  | 'missing'
  /** The multipart upload is not known any more: completed, or aborted. */
  | 'no_upload'
  /** The server does not know the request. */
  | 'unsupported'
  /** Anything else: access, bucket, region, settings. It takes somebody to change something. */
  | 'refused';

export interface Failure {
  readonly kind: FailureKind;
  readonly status: number | null;
  readonly code: string;
  readonly message: string;
}

/** An attempt that took too long, or an answer that broke off. */
export class Interrupted extends Error {}

/** The clocks differ: the client has corrected its own from the answer, the next attempt is right. */
const CLOCK_SKEW = ['RequestTimeTooSkewed', 'RequestExpired'];
const PASSING_CODES: ReadonlySet<string> = new Set([
  ...CLOCK_SKEW,
  'RequestTimeout',
  'InternalError',
  'SlowDown',
  'ServiceUnavailable',
  'Throttling',
  'ThrottlingException',
  'RequestLimitExceeded',
  'OperationAborted',
  'ConditionalRequestConflict',
  // The bytes were damaged on the way.
  'BadDigest',
  'IncompleteBody',
  'XAmzContentSHA256Mismatch',
  'XAmzContentChecksumMismatch',
]);
const PASSING_STATUS: ReadonlySet<number> = new Set([408, 429]);
/** Files and network: ECONNRESET, ENOTFOUND, EPIPE, … */
const SYSTEM_CODE = /^E[A-Z_]+$/;

interface ClientError extends Error {
  readonly code?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
  readonly $response?: { readonly statusCode?: number };
}

/** Null when it is no failure of a request: a bug, which must stay one. */
export function failureOf(error: unknown): Failure | null {
  if (error instanceof LedgerError || !(error instanceof Error)) return null;
  const { $metadata, $response, code, name, message }: ClientError = error;
  const status = $metadata?.httpStatusCode ?? $response?.statusCode ?? null;
  const system = typeof code === 'string' && SYSTEM_CODE.test(code) ? code : null;
  if (status === null && system === null && !isOfClient(error)) return null;
  const kind = kindOf({ name, status, isNetwork: system !== null, error });
  return { kind, status, code: system ?? name, message };
}

function isOfClient(error: ClientError): boolean {
  const names = ['TimeoutError', 'AbortError', 'CredentialsProviderError', 'DNSException'];
  return (
    error instanceof Interrupted ||
    names.includes(error.name) ||
    error.$metadata !== undefined ||
    isMissingRegion(error)
  );
}

const isMissingRegion = (error: Error): boolean => error.message.startsWith('Region is missing');

function kindOf(seen: {
  readonly name: string;
  readonly status: number | null;
  readonly isNetwork: boolean;
  readonly error: Error;
}): FailureKind {
  const { name, status, isNetwork, error } = seen;
  if (name === 'CredentialsProviderError' || isMissingRegion(error)) return 'refused';
  if (PASSING_CODES.has(name)) return 'passing';
  if (status === null) return isNetwork || isOfClient(error) ? 'passing' : 'refused';
  if (status === 501) return 'unsupported';
  // A success that could not be read: the answer was cut or is not from the server at all.
  if (PASSING_STATUS.has(status) || status >= 500 || status < 300) return 'passing';
  if (status === 412) return 'exists';
  if (name === 'NoSuchUpload') return 'no_upload';
  // Not every 404: a bucket that is gone must never look like an object that is missing.
  if (name === 'NoSuchKey' || name === 'NotFound') return 'missing';
  return 'refused';
}

export function isKind(error: unknown, kind: FailureKind): boolean {
  return failureOf(error)?.kind === kind;
}

/**
 * The failure in our words. While it runs everything is worth another try: access that was taken away
 * by mistake comes back, and nothing is skipped meanwhile.
 */
export function unavailable(what: string, failure: Failure, cause: unknown): LedgerError {
  const hint =
    failure.kind === 'passing'
      ? 'It is tried again by itself. Check the network and the server that holds the archive.'
      : 'Check credentials, bucket policy and the bucket. It is tried again by itself.';
  return new LedgerError('archive_unavailable', `archive: ${what}: ${told(failure)}`, {
    kind: 'retry',
    hint,
    cause,
  });
}

export function told({ status, code, message }: Failure): string {
  const text = message.replace(/\s+/g, ' ').slice(0, 300);
  return `${code}${status === null ? '' : ` (${status})`}: ${text}`;
}

/** Runs `work`; a failure of a request becomes a LedgerError, a bug stays a bug. */
export async function orUnavailable<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const failure = failureOf(error);
    throw failure === null ? error : unavailable(what, failure, error);
  }
}
