/**
 * How a dispute ends.
 *
 * Owns: the order of verdicts and resolution. Does not own: rows (the store), what a verdict does.
 *
 * The effects of an end with verdicts, and what holds when the process dies right after each:
 *
 *     1 verdicts taken   the dispute is open; ending it again takes the same verdicts, which changes
 *                        nothing, and goes on
 *     2 dispute ended    all is done; ending it again in the same way changes nothing
 *
 * The other way round a dispute could stand as upheld while its clicks are still billed.
 *
 * Between 1 and 2 nobody else may end it: verdicts of a withdrawn dispute would stand. Hence the turn,
 * which is asked for once more before 2 by whoever was stopped in between.
 */
import { LedgerError } from '../platform/errors.ts';
import { hasEnded } from './end.ts';
import type { Dispute, DisputeStore, Disputes, TakeTurn, TakeVerdicts } from './port.ts';

type Ended = Awaited<ReturnType<Disputes['end']>>;
type EndAsked = Parameters<Disputes['end']>;

export function createDisputes(
  store: DisputeStore,
  takeVerdicts: TakeVerdicts,
  takeTurn: TakeTurn = turnsOfThisProcess(),
): Disputes {
  /** What there is to say without ending it; undefined when it is to be ended. */
  const answerOf = (dispute: Dispute | null, how: EndAsked[1]): Ended | undefined => {
    if (dispute === null) return null;
    return hasEnded(dispute, how) ? { dispute, verdicts: null } : undefined;
  };
  return {
    open: (subject, by) => store.open(subject, by),
    find: (id, advertiserId) => store.find(id, advertiserId),
    list: (options) => store.list(options),
    async end(which, how, by) {
      const find = () => store.find(which.id, which.advertiserId);
      // Before the turn: nobody takes one for what there is not.
      const before = answerOf(await find(), how);
      if (before !== undefined) return before;
      const turn = await takeTurn(which.id);
      if (turn === null) throw busy();
      try {
        const meanwhile = answerOf(await find(), how);
        if (meanwhile !== undefined) return meanwhile;
        const rows = how.verdicts;
        const verdicts = rows.length === 0 ? null : await takeVerdicts(rows); // 1
        await turn.assertHeld();
        const dispute = await store.end(which.id, { ...how, verdicts: rows.length }, by); // 2
        return { dispute, verdicts };
      } finally {
        await turn.release();
      }
    },
  };
}

/** Turns where one process ends disputes. */
function turnsOfThisProcess(): TakeTurn {
  const taken = new Set<string>();
  return async (id) => {
    if (taken.has(id)) return null;
    taken.add(id);
    return {
      assertHeld: async () => {},
      release: async () => {
        taken.delete(id);
      },
    };
  };
}

function busy(): LedgerError {
  return new LedgerError('dispute_busy', 'The dispute is being ended just now.', { kind: 'retry' });
}
