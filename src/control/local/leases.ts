/**
 * Leases within one process. Other processes are kept out by the lock on the data folder (`ledger`), so
 * nothing runs out here, and an epoch has to be new only as long as the process lives.
 */
import type { Clock } from '../../platform/clock.ts';
import type { Lease, LeaseInfo, Leases } from '../port.ts';
import { leaseLost } from '../shared-value.ts';

/** What `list` shows: a lease that is held is never about to run out. */
const SHOWN_MS = 30_000;

interface Held {
  readonly note: string;
  readonly epoch: number;
}

export function openLocalLeases(options: { holder: string; clock: Clock }): Leases {
  return new LocalLeases(options.holder, options.clock);
}

class LocalLeases implements Leases {
  readonly #holder: string;
  readonly #clock: Clock;
  readonly #held = new Map<string, Held>();
  #lastEpoch = 0;

  constructor(holder: string, clock: Clock) {
    this.#holder = holder;
    this.#clock = clock;
  }

  async tryTake(name: string, note: string): Promise<Lease | null> {
    if (this.#held.has(name)) return null;
    const epoch = ++this.#lastEpoch;
    this.#held.set(name, { note, epoch });
    const isHeld = (): boolean => this.#held.get(name)?.epoch === epoch;
    return {
      name,
      epoch,
      assertHeld: async () => {
        if (!isHeld()) throw leaseLost(name, epoch);
      },
      release: async () => {
        if (isHeld()) this.#held.delete(name);
      },
    };
  }

  async list(): Promise<LeaseInfo[]> {
    const untilMs = this.#clock() + SHOWN_MS;
    const holder = this.#holder;
    return [...this.#held].map(([name, held]) => ({ name, holder, ...held, untilMs }));
  }
}
