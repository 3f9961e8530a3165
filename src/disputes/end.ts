/** When a dispute may still end. */
import { LedgerError } from '../platform/errors.ts';
import type { Dispute, DisputeEnd } from './port.ts';

/** False while it is open, true when it ended in this very way; throws `dispute_closed` otherwise. */
export function hasEnded({ closed }: Dispute, end: Omit<DisputeEnd, 'verdicts'>): boolean {
  if (closed === null) return false;
  const { state, resolution, note } = closed;
  if (state === end.state && resolution === end.resolution && note === end.note) return true;
  const how = resolution === null ? 'withdrawn' : `resolved as ${resolution}`;
  throw new LedgerError('dispute_closed', `The dispute was ${how} before.`, {
    hint: 'Open another one if there is something new.',
  });
}
