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
 */
import { LedgerError } from '../platform/errors.ts';
import { hasEnded } from './end.ts';
import type { DisputeStore, Disputes, TakeVerdicts } from './port.ts';

type Ended = Awaited<ReturnType<Disputes['end']>>;

export function createDisputes(store: DisputeStore, takeVerdicts: TakeVerdicts): Disputes {
  // Between 1 and 2 nobody else may end it: verdicts of a withdrawn dispute would stand.
  const ending = new Set<string>();
  const end = async (...[which, how, by]: Parameters<Disputes['end']>): Promise<Ended> => {
    const rows = how.verdicts;
    const dispute = store.find(which.id, which.advertiserId);
    if (dispute === null) return null;
    if (hasEnded(dispute, how)) return { dispute, verdicts: null };
    const verdicts = rows.length === 0 ? null : await takeVerdicts(rows); // 1
    const done = store.end(which.id, { ...how, verdicts: rows.length }, by); // 2
    return { dispute: done, verdicts };
  };
  return {
    open: (subject, by) => store.open(subject, by),
    find: (id, advertiserId) => store.find(id, advertiserId),
    list: (options) => store.list(options),
    async end(...asked) {
      const { id } = asked[0];
      if (ending.has(id)) {
        throw new LedgerError('dispute_busy', 'The dispute is being ended just now.', {
          kind: 'retry',
        });
      }
      ending.add(id);
      try {
        return await end(...asked);
      } finally {
        ending.delete(id);
      }
    },
  };
}
