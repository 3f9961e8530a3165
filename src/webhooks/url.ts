/** Which addresses a webhook may have, as far as its text says. */
import { LedgerError } from '../platform/errors.ts';

export const MAX_URL_LENGTH = 2_048;

/** The URL as it will be requested; throws when it is none that we send to. */
export function webhookUrl(text: string): string {
  if (text.length > MAX_URL_LENGTH) refuse(`is longer than ${MAX_URL_LENGTH} characters`);
  if (!/^https?:\/\/[^/]/i.test(text)) refuse('does not begin with https:// or http:// and a host');
  if (!URL.canParse(text)) refuse('is no URL');
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') {
    refuse('carries a user or a password', 'The signature says who sends; leave them out.');
  }
  url.hash = '';
  if (url.href.length > MAX_URL_LENGTH) refuse(`is longer than ${MAX_URL_LENGTH} characters`);
  return url.href;
}

function refuse(what: string, hint?: string): never {
  const more = hint === undefined ? {} : { hint };
  throw new LedgerError('webhook_url_invalid', `The url ${what}.`, more);
}
