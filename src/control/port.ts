/**
 * Leases and shared state. Adapters: `local/` (one process, files), `postgres/` (many processes).
 *
 * L1 At most one holder by the clock of the adapter's server. A holder that was stopped for longer than
 *    the lease runs finds out with `assertHeld`; what it does in between must be harmless by itself.
 * L2 An epoch is given out once, and rises with every taking of the lease.
 */
import type { z } from 'zod';

export interface Lease {
  readonly name: string;
  readonly epoch: number;
  /** Asks the server. Throws LedgerError `lease_lost` when somebody else may have it by now. */
  assertHeld(): Promise<void>;
  /** Never throws: what cannot be given back runs out. */
  release(): Promise<void>;
}

export interface LeaseInfo {
  readonly name: string;
  readonly holder: string;
  /** What the holder says that it is doing. */
  readonly note: string;
  readonly epoch: number;
  readonly untilMs: number;
}

export interface Leases {
  /** Kept alive until released; null while somebody else has it. */
  tryTake(name: string, note: string): Promise<Lease | null>;
  /** Those that are held. */
  list(): Promise<LeaseInfo[]>;
}

export interface SharedState {
  /** The value that was set last, or undefined. */
  get<T>(key: string, schema: z.ZodType<T>): Promise<T | undefined>;
  /** Durable when it returns. */
  set(key: string, value: unknown): Promise<void>;
  /**
   * Changes the value in one step that nobody else's change comes between; returns the new one.
   * `change` depends on nothing but the old value: it may be called more than once.
   */
  update<T>(key: string, schema: z.ZodType<T>, change: (old: T | undefined) => T): Promise<T>;
}
