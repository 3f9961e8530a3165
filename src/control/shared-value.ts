/** What all adapters of the shared state do with a value that they have read. */
import type { z } from 'zod';
import { LedgerError } from '../platform/errors.ts';

/** Checks a value; one of another shape is never taken for "no value". */
export function checkedValue<T>(key: string, schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  const where = path.length === 0 ? key : `${key}.${path.join('.')}`;
  throw new LedgerError('state_unreadable', `shared state: ${where}: ${message}`, {
    hint: 'Another version has written it. Run one version of all roles.',
    cause: parsed.error,
  });
}

export function leaseLost(name: string, epoch: number): LedgerError {
  const message = `the lease "${name}" (epoch ${epoch}) has run out; another process may have it`;
  return new LedgerError('lease_lost', message, {
    kind: 'retry',
    hint: 'This process stood still for too long. What it had begun is begun again by whoever has the lease.',
  });
}
