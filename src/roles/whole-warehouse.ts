/**
 * The warehouse as answers are made of it: a read that meets `rebuild` is refused, also when it began
 * before, and also the later pages of an answer that takes many. Between the reset and the end of the
 * recount the tables hold less than what is final, and nothing in the rows would show it.
 */
import { LedgerError } from '../platform/errors.ts';
import type { Warehouse } from '../warehouse/port.ts';

export type ReadWarehouse = Pick<Warehouse, 'metrics' | 'top' | 'hours' | 'restatements' | 'drift'>;

export interface Rebuilds {
  readonly isRebuilding: boolean;
  /** Rises when a rebuild begins. */
  readonly rebuilds: number;
}

export function wholeWarehouse(warehouse: ReadWarehouse, rebuilt: Rebuilds): ReadWarehouse {
  const whole = async <T>(read: () => Promise<T>): Promise<T> => {
    const { rebuilds } = rebuilt;
    if (rebuilt.isRebuilding) throw rebuilding();
    const answer = await read();
    // One that is over again lies in between all the same.
    if (rebuilt.isRebuilding || rebuilt.rebuilds !== rebuilds) throw rebuilding();
    return answer;
  };
  return {
    metrics: (...query) => whole(() => warehouse.metrics(...query)),
    top: (...query) => whole(() => warehouse.top(...query)),
    hours: (...range) => whole(() => warehouse.hours(...range)),
    restatements: (...which) => whole(() => warehouse.restatements(...which)),
    drift: (...which) => whole(() => warehouse.drift(...which)),
  };
}

function rebuilding(): LedgerError {
  return new LedgerError('rebuilding', 'The numbers are being built again from the archive.', {
    kind: 'retry',
    hint: 'Try again in a while: what was final comes back with the same numbers.',
  });
}
