/**
 * The signature of what is sent: `t=<unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">`.
 * The key is the secret's text as it was shown. `docs/webhooks.md` has a test vector.
 */
import { createHmac } from 'node:crypto';

export function signatureOf(secret: string, body: string, unixSeconds: number): string {
  const mac = createHmac('sha256', secret).update(`${unixSeconds}.${body}`).digest('hex');
  return `t=${unixSeconds},v1=${mac}`;
}
