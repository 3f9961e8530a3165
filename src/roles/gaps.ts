/**
 * Partitions that a counter has stopped at, because the log had dropped what was not counted yet: what an
 * operator sees of them, and the permission to go on. Final numbers come from the archive all the same.
 */
import type { Config } from '../config/schema.ts';
import { type CounterProblem, decodeNote, unreadableNote } from '../counter/note.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { openCounterProgress } from './log-group.ts';
import { openTopicReader } from './log-reader.ts';
import type { Control } from './open-control.ts';
import { SharedFacts } from './shared-facts.ts';

export interface StoppedPartition {
  readonly partition: number;
  readonly problem: CounterProblem;
}

export async function stoppedPartitions(config: Config): Promise<StoppedPartition[]> {
  const progress = await openCounterProgress(config);
  try {
    const committed = await progress.committed();
    return [...committed].flatMap(([partition, { note }]) => {
      const read = decodeNote(note);
      const problem = read === null ? unreadableNote(partition) : read.problem;
      return problem === null ? [] : [{ partition, problem }];
    });
  } finally {
    await progress.close();
  }
}

/** Lets counting go on where the log begins. Throws LedgerError `gap_unknown` when nothing has stopped there. */
export async function acceptGap(
  config: Config,
  control: Control,
  { partition, logger }: { readonly partition: number; readonly logger: Logger },
): Promise<CounterProblem> {
  const stopped = await stoppedPartitions(config);
  const found = stopped.find((each) => each.partition === partition)?.problem;
  if (found === undefined || found.firstOffset === null) {
    throw new LedgerError('gap_unknown', `partition ${partition} has not stopped at a gap`, {
      hint: '"clickledger counter gaps" lists the partitions that have.',
    });
  }
  const reader = await openTopicReader(config, 'clickledger-command', logger);
  try {
    const { firstOffset } = await reader.range(partition);
    await new SharedFacts(control.state).acceptGap(partition, firstOffset);
  } finally {
    await reader.close();
  }
  return found;
}
