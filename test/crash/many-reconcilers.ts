/**
 * Several processes with a reconciler each, over one archive, one warehouse, shared leases and state.
 *
 * A process can be made to stand still at any of its effects: its lease runs out, others work on, and
 * then it wakes up and goes on as if nothing had been. What it is stopped at are the effects of
 * `finaliser.ts` and `verdict-search.ts`, the beginning of a turn, the count, and each moment right after it has
 * been told that it still holds its lease.
 */
import { loadManifest } from '../../src/archive/manifest.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import type { Reconciler } from '../../src/reconcile/reconciler.ts';
import type { VerdictArchive } from '../../src/verdicts/archive.ts';
import type { Verdicts } from '../../src/verdicts/port.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { MemoryState } from '../support/memory-state.ts';
import { SharedLeases } from '../support/shared-leases.ts';
import { Deaths } from './ledger-world.ts';
import { type ReconcilerWorld, takeVerdicts } from './reconciler-world.ts';

/** Effects of one process; at one of them it may stand still. */
export class Stalls extends Deaths {
  #at = Number.POSITIVE_INFINITY;
  #meanwhile: () => Promise<void> = async () => {};
  /** Name of the effect that it last stood still before. */
  stalledAt: string | null = null;

  /** Before its effect number `at` from now on, `meanwhile` happens. */
  plan(at: number, meanwhile: () => Promise<void>): void {
    this.#at = this.effects.length + at;
    this.#meanwhile = meanwhile;
    this.stalledAt = null;
  }

  /** What it has not stood still at by now it does not. */
  end(): void {
    this.#at = Number.POSITIVE_INFINITY;
  }

  override async async<T>(name: string, work: () => Promise<T>): Promise<T> {
    if (this.effects.push(name) - 1 === this.#at) {
      this.#at = Number.POSITIVE_INFINITY;
      this.stalledAt = name;
      await this.#meanwhile();
    }
    return work();
  }
}

export interface Process {
  readonly name: string;
  readonly stalls: Stalls;
  readonly reconciler: Reconciler;
  readonly verdicts: VerdictArchive;
  readonly takeVerdicts: Verdicts;
}

export class ManyReconcilers {
  readonly world: ReconcilerWorld;
  readonly leases = new SharedLeases();
  readonly state = new MemoryState();

  constructor(world: ReconcilerWorld) {
    this.world = world;
  }

  async start(name: string, warehouse: Warehouse): Promise<Process> {
    const stalls = new Stalls();
    const { leases, state, world } = this;
    // Right after it was told: the effect that follows is then one too many.
    const own = leases.of(name, async (ask) => {
      await ask();
      await stalls.async('told that it holds its lease', async () => {});
    });
    const manifest = await loadManifest(world.store);
    const parts = await world.parts(stalls, { name, leases: own, state, warehouse, manifest });
    return { name, stalls, ...parts };
  }

  /** As its loop does it: having lost its turn, it comes again later. */
  async reconcile(process: Process): Promise<void> {
    await orLost(() => process.reconciler.reconcile());
  }

  /**
   * As somebody does it who is told to give verdicts again. They are refused while the next hour is
   * archived and not published: it looks like one that was final before. False when they were.
   */
  async judge(
    process: Process,
    given: Readonly<Record<string, 'valid' | 'invalid'>>,
  ): Promise<boolean> {
    try {
      await takeVerdicts(process.takeVerdicts, given);
      return true;
    } catch (error) {
      if (!(error instanceof LedgerError) || error.code !== 'rebuilding') throw error;
      return false;
    }
  }

  /**
   * Does `work` in the process, which stands still before its effect number `at` while `others` work.
   * Gives the name of the effect; null when there were fewer.
   */
  async stalled(
    process: Process,
    at: number,
    work: () => Promise<unknown>,
    others: () => Promise<unknown>,
  ): Promise<string | null> {
    process.stalls.plan(at, async () => {
      this.leases.letRunOut();
      await others();
    });
    await work();
    process.stalls.end();
    return process.stalls.stalledAt;
  }

  /** Until nobody finds anything to do. */
  async rest(processes: readonly Process[]): Promise<void> {
    for (const process of processes) await process.reconciler.reconcile();
    for (const { reconciler } of processes) {
      const results = await reconciler.reconcile();
      if (results.length > 0) throw new Error('there was still something to do');
    }
  }
}

async function orLost(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof LedgerError) || error.code !== 'lease_lost') throw error;
  }
}
