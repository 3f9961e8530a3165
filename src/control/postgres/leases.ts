/**
 * Leases as rows of a table that all processes share. Owns its table, not the connections.
 *
 * G1 All times are the server's (`now()`): clocks of machines do not matter.
 * G2 A lease is taken, kept and given back by one statement each, on the row that they all lock: of
 *    two that take it at once the second sees what the first wrote. So there is one holder (L1), and
 *    a new epoch with each taking (L2). Rows are never removed: epochs go on rising.
 * G3 A lease that has run out is not kept alive any more, not even while nobody else has taken it: its
 *    holder stood still, and must begin again.
 * G4 What the answer to a taking was lost of (`control_unavailable`), the same instance may take anew.
 *    Nobody works under it: within an instance a name is given out once at a time.
 */
import { randomUUID } from 'node:crypto';
import type { Postgres } from '../../platform/postgres.ts';
import type { Lease, LeaseInfo, Leases } from '../port.ts';
import { leaseLost } from '../shared-value.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    instance text NOT NULL,
    epoch bigint NOT NULL,
    until timestamptz NOT NULL,
    note text NOT NULL
  )`;

const LEASE_MS = 30_000;
/** Two may fail before a lease runs out. */
const HEARTBEATS_PER_LEASE = 3;

export interface PgLeasesOptions {
  readonly db: Postgres;
  /** Name of this process, for people. */
  readonly holder: string;
  /** How long a holder may be silent. */
  readonly leaseMs?: number;
}

export async function openPgLeases(options: PgLeasesOptions): Promise<Leases> {
  await options.db.migrate(SCHEMA);
  return new PgLeases(options);
}

interface Stored {
  readonly name: string;
  readonly holder: string;
  readonly note: string;
  readonly epoch: string;
  readonly until_ms: string;
}

class PgLeases implements Leases {
  readonly #db: Postgres;
  readonly #holder: string;
  readonly #leaseMs: number;
  /** Tells processes of one name apart, also a process from the one that it replaces. */
  readonly #instance = randomUUID();
  /** Names that somebody in this process holds or is taking. */
  readonly #taken = new Set<string>();

  constructor({ db, holder, leaseMs = LEASE_MS }: PgLeasesOptions) {
    this.#db = db;
    this.#holder = holder;
    this.#leaseMs = leaseMs;
  }

  async tryTake(name: string, note: string): Promise<Lease | null> {
    if (this.#taken.has(name)) return null;
    this.#taken.add(name);
    let epoch: number | null = null;
    try {
      epoch = await this.#take(name, note);
    } finally {
      if (epoch === null) this.#taken.delete(name);
    }
    return epoch === null ? null : this.#kept(name, epoch);
  }

  async #take(name: string, note: string): Promise<number | null> {
    const rows = await this.#db.run<{ epoch: string }[]>(
      (sql) => sql`
        INSERT INTO leases AS held (name, holder, instance, epoch, until, note)
        VALUES (${name}, ${this.#holder}, ${this.#instance}, 1,
          now() + ${this.#leaseMs}::float8 * interval '1 millisecond', ${note})
        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, instance = excluded.instance,
          epoch = held.epoch + 1, until = excluded.until, note = excluded.note
        WHERE held.until < now() OR held.instance = excluded.instance
        RETURNING epoch::text`,
    );
    return rows.length === 0 ? null : Number(rows[0]!.epoch);
  }

  #kept(name: string, epoch: number): Lease {
    const timer = setInterval(
      () => {
        // A heartbeat that fails is followed by the next; `assertHeld` tells what came of it.
        this.#keep(name, epoch).catch(() => {});
      },
      Math.max(1, Math.floor(this.#leaseMs / HEARTBEATS_PER_LEASE)),
    );
    timer.unref();
    let isReleased = false;
    return {
      name,
      epoch,
      assertHeld: async () => {
        if (isReleased || !(await this.#isHeld(name, epoch))) throw leaseLost(name, epoch);
      },
      release: async () => {
        if (isReleased) return;
        isReleased = true;
        clearInterval(timer);
        await this.#giveBack(name, epoch).catch(() => {});
        this.#taken.delete(name);
      },
    };
  }

  /** G3 */
  async #keep(name: string, epoch: number): Promise<void> {
    await this.#db.run(
      (sql) => sql`
        UPDATE leases SET until = now() + ${this.#leaseMs}::float8 * interval '1 millisecond'
        WHERE name = ${name} AND epoch = ${epoch}::bigint AND until > now()`,
    );
  }

  async #isHeld(name: string, epoch: number): Promise<boolean> {
    const rows = await this.#db.run<unknown[]>(
      (sql) => sql`
        SELECT 1 FROM leases WHERE name = ${name} AND epoch = ${epoch}::bigint AND until > now()`,
    );
    return rows.length > 0;
  }

  async #giveBack(name: string, epoch: number): Promise<void> {
    await this.#db.run(
      (sql) => sql`
        UPDATE leases SET until = '-infinity' WHERE name = ${name} AND epoch = ${epoch}::bigint`,
    );
  }

  async list(): Promise<LeaseInfo[]> {
    const rows = await this.#db.run<Stored[]>(
      (sql) => sql`
        SELECT name, holder, note, epoch::text,
          floor(extract(epoch FROM until) * 1000)::bigint::text AS until_ms
        FROM leases WHERE until > now() ORDER BY name`,
    );
    return rows.map(({ name, holder, note, epoch, until_ms }) => {
      return { name, holder, note, epoch: Number(epoch), untilMs: Number(until_ms) };
    });
  }
}
