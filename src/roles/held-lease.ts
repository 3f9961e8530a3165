/** Work that one process of all does, again and again: whoever has the lease keeps it while it lives. */
import type { Lease, Leases } from '../control/port.ts';
import { LedgerError } from '../platform/errors.ts';

export class HeldLease {
  readonly #leases: Leases;
  readonly #name: string;
  readonly #note: string;
  readonly #onLost: () => Promise<void>;
  #lease: Lease | null = null;

  constructor(
    leases: Leases,
    work: { readonly name: string; readonly note: string; readonly onLost: () => Promise<void> },
  ) {
    this.#leases = leases;
    this.#name = work.name;
    this.#note = work.note;
    this.#onLost = work.onLost;
  }

  /** Runs `work` if the lease is ours or free; otherwise another process does it. */
  async run(work: () => Promise<void>): Promise<void> {
    this.#lease ??= await this.#leases.tryTake(this.#name, this.#note);
    if (this.#lease === null) return;
    try {
      await this.#lease.assertHeld();
    } catch (error) {
      if (error instanceof LedgerError && error.code === 'lease_lost') {
        // Given back all the same: else this process keeps it alive no more, and never takes it again.
        await this.release();
        await this.#onLost();
      }
      throw error;
    }
    await work();
  }

  async release(): Promise<void> {
    await this.#lease?.release();
    this.#lease = null;
  }
}
