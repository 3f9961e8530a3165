/**
 * Takes verdicts: checks them, archives those that change something, and has the final hours that
 * bill their impressions restated.
 *
 * While verdicts are taken no hour is recounted, here or in another process, so an hour is counted with
 * all of a request's verdicts or turns final before they are searched for in final hours; none slips
 * between. Of a process that was stopped in the midst of it the verdicts may be archived late, in
 * another's turn: it does not search then (Q2), and the next turn does.
 *
 * The effects, and what holds if the process dies right after each:
 *   1. verdicts archived  – in force: hours that turn final now are counted with them; final ones are
 *                           searched by the next reconcile, or when the same verdicts are given again
 *                           (a request of many objects that died between two is given again as well)
 *   2. final hours noted  – see `verdict-search.ts`
 *   3. sequence noted
 */
import { hourOf } from '../archive/names.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { VerdictArchive } from '../verdicts/archive.ts';
import { checkVerdicts } from '../verdicts/check.ts';
import type {
  NewVerdict,
  VerdictProgress,
  VerdictRow,
  Verdicts,
  VerdictsTaken,
} from '../verdicts/port.ts';
import type { Reconciler } from './reconciler.ts';
import { type Turn, unlessOvertaken } from './turns.ts';

/** The reconciler that is there when it is our turn. */
export type TakingReconciler = Pick<
  Reconciler,
  'finalUntilMs' | 'isBehind' | 'verdictSearch' | 'withoutRecounts'
>;

export interface TakeVerdictsOptions {
  readonly verdicts: VerdictArchive;
  /** Runs `work` while the warehouse is whole, and not being built again. */
  readonly whenWhole: <T>(work: (reconciler: TakingReconciler) => Promise<T>) => Promise<T>;
  readonly clock: Clock;
  /** How far before `final_until` verdicts reach; older hours keep their numbers. */
  readonly reachMs: number;
}

export class TakeVerdicts implements Verdicts {
  readonly #options: TakeVerdictsOptions;

  constructor(options: TakeVerdictsOptions) {
    this.#options = options;
  }

  async take(
    rows: AsyncIterable<VerdictRow> | Iterable<VerdictRow>,
    progress: VerdictProgress,
  ): Promise<VerdictsTaken> {
    // The upload takes as long as its sender likes: nobody waits for it.
    const given = await checkVerdicts(rows, progress);
    progress('waiting for the recount in progress');
    return this.#options.whenWhole((reconciler) =>
      reconciler.withoutRecounts('taking verdicts', (turn) =>
        this.#store(given, { reconciler, turn }, progress),
      ),
    );
  }

  async #store(
    given: readonly NewVerdict[],
    { reconciler, turn }: { readonly reconciler: TakingReconciler; readonly turn: Turn },
    progress: VerdictProgress,
  ): Promise<VerdictsTaken> {
    const { verdicts, clock, reachMs } = this.#options;
    if (await reconciler.isBehind()) throw behind();
    await verdicts.catchUp();
    const changes = await verdicts.changes(given);
    const { finalUntilMs } = reconciler;
    const appliesFromMs = hourOf(Math.max(0, finalUntilMs - reachMs));
    await turn.assertHeld();
    await unlessOvertaken('taking verdicts', () =>
      verdicts.append(changes, { atMs: clock(), appliesFromMs }),
    ); // 1
    const hoursMs = await reconciler.verdictSearch.run(finalUntilMs, turn, progress); // 2 and 3
    const taken = given.length;
    return { taken, new: changes.length, unchanged: taken - changes.length, hoursMs };
  }
}

/** Final hours would come back with them as if they had never been final without. */
function behind(): LedgerError {
  return new LedgerError('rebuilding', 'hours that were final are being built again', {
    kind: 'retry',
    hint: 'Give the verdicts again when "clickledger status" shows that they are final.',
  });
}
