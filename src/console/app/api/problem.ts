/** What went wrong with a request, in words that can be shown: the API's own, or what the browser saw. */

export class ApiError extends Error {
  constructor(
    /** 0 when there was no answer. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint?: string,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

export const unreachable = (): ApiError =>
  new ApiError(
    0,
    'unreachable',
    'The server does not answer.',
    'Check the connection. This page tries again when you do.',
  );

export const isAbort = (error: unknown): boolean =>
  error instanceof DOMException && error.name === 'AbortError';

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(0, 'unexpected', message);
}

/** The refusal in an answer; its body may be anything when a proxy stands in between. */
export async function problemOf(response: Response): Promise<ApiError> {
  const body = fieldsOf(await response.text().catch(() => ''));
  const detail = textOf(body.detail) ?? `The server answered ${response.status}.`;
  const hint = textOf(body.hint) ?? retryHint(response);
  return new ApiError(response.status, textOf(body.code) ?? 'http_error', detail, hint);
}

function fieldsOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

function retryHint(response: Response): string | undefined {
  const seconds = response.headers.get('Retry-After');
  return seconds === null ? undefined : `Try again in ${seconds} s.`;
}
