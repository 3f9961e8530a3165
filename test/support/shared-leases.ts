/**
 * Leases of several processes in one, with a clock in the hand of the test: a lease is held until it is
 * given back or the test lets it run out.
 */
import type { Lease, Leases } from '../../src/control/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';

const LEASE_MS = 30_000;

interface Held {
  readonly holder: string;
  readonly note: string;
  readonly epoch: number;
  readonly untilMs: number;
}

export class SharedLeases {
  #nowMs = 0;
  #lastEpoch = 0;
  readonly #held = new Map<string, Held>();
  /** Every taking, as `holder: note`. */
  readonly takings: string[] = [];

  /** Its holder stands still for longer than it runs. */
  letRunOut(): void {
    this.#nowMs += LEASE_MS + 1;
  }

  /** As a process has them; `around` is called for every question whether a lease is still held. */
  of(holder: string, around: (ask: () => Promise<void>) => Promise<void> = (ask) => ask()): Leases {
    return {
      tryTake: async (name, note) => this.#tryTake(name, { holder, note }, around),
      list: async () =>
        [...this.#held]
          .filter(([name]) => this.#inForce(name) !== null)
          .map(([name, held]) => ({ name, ...held })),
    };
  }

  #inForce(name: string): Held | null {
    const held = this.#held.get(name);
    return held !== undefined && held.untilMs > this.#nowMs ? held : null;
  }

  #tryTake(
    name: string,
    who: Pick<Held, 'holder' | 'note'>,
    around: (ask: () => Promise<void>) => Promise<void>,
  ): Lease | null {
    if (this.#inForce(name) !== null) return null;
    const epoch = ++this.#lastEpoch;
    this.#held.set(name, { ...who, epoch, untilMs: this.#nowMs + LEASE_MS });
    this.takings.push(`${who.holder}: ${who.note}`);
    const isHeld = (): boolean => this.#inForce(name)?.epoch === epoch;
    return {
      name,
      epoch,
      assertHeld: () =>
        around(async () => {
          if (!isHeld()) throw new LedgerError('lease_lost', 'it has run out', { kind: 'retry' });
        }),
      release: async () => {
        if (isHeld()) this.#held.delete(name);
      },
    };
  }
}
