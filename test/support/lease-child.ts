/**
 * A process that takes a lease and says what it finds: `held <epoch>` when it has it, then an answer
 * for each line that it reads. `bun lease-child.ts <url> <lease ms>`.
 */
import { openPgLeases } from '../../src/control/postgres/leases.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { Postgres } from '../../src/platform/postgres.ts';

const say = (line: string): boolean => process.stdout.write(`${line}\n`);
const [url = '', leaseMs = ''] = process.argv.slice(2);
const db = new Postgres({
  url,
  tls: 'disable',
  tlsCaFile: '',
  timeoutMs: 5_000,
  maxConnections: 2,
});
const leases = await openPgLeases({ db, holder: 'child', leaseMs: Number(leaseMs) });
const lease = await leases.tryTake('reconcile', 'hour of the child');
say(lease === null ? 'taken by another' : `held ${lease.epoch}`);
for await (const _ of process.stdin) {
  try {
    await lease?.assertHeld();
    say('still held');
  } catch (error) {
    say(error instanceof LedgerError ? error.code : String(error));
  }
}
await lease?.release();
await db.close();
