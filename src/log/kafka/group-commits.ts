/**
 * Commits of a member of a group.
 *
 * M5 A commit is never sent in another tenure than that it was made in, and one after the other: what was
 *    committed last is what was handed in last.
 */
import { LedgerError } from '../../platform/errors.ts';
import type { Committed } from '../group.ts';
import { unreachable } from './connections.ts';
import type { Coordinator } from './coordinator.ts';
import { commitOffsets, GROUP_ERROR } from './group-protocol.ts';
import type { Holding } from './group-seat.ts';
import { patiently } from './patience.ts';

export interface GroupCommitsOptions {
  readonly coordinator: Coordinator;
  readonly topic: string;
  readonly firstPartition: number;
  readonly patienceMs: number;
  /** What is ours now, the same object for one tenure; null: nothing. */
  readonly ours: () => Holding | null;
  /** The coordinator has refused us: the group has gone on. */
  readonly onLost: (why: 'gone' | 'fenced') => void;
}

type Commits = ReadonlyMap<number, Committed>;

export class GroupCommits {
  readonly #options: GroupCommitsOptions;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: GroupCommitsOptions) {
    this.#options = options;
  }

  commit(commits: Commits): Promise<void> {
    const holding = this.#options.ours();
    const done = this.#last.then(() => this.#commit(commits, holding));
    this.#last = done.catch(() => {});
    return done;
  }

  async #commit(byPartition: Commits, holding: Holding | null): Promise<void> {
    const { topic, firstPartition, patienceMs, coordinator, ours } = this.#options;
    const commits = new Map([...byPartition].map(([each, what]) => [each - firstPartition, what]));
    if (commits.size === 0) return;
    await patiently({ patienceMs }, async () => {
      const isOurs = holding !== null && holding === ours();
      if (!isOurs || ![...commits.keys()].every((each) => holding.indexes.includes(each))) {
        throw lost('the partitions have been given back');
      }
      const { code } = await coordinator.ask((connection) =>
        commitOffsets(connection, holding.seat, { topic, commits }),
      );
      if (code !== GROUP_ERROR.none) throw this.#refused(code, holding);
    });
  }

  #refused(code: number, holding: Holding): LedgerError {
    switch (code) {
      case GROUP_ERROR.illegalGeneration:
      case GROUP_ERROR.unknownMember:
      case GROUP_ERROR.instanceFenced: {
        const { ours, onLost } = this.#options;
        if (holding === ours()) onLost(code === GROUP_ERROR.instanceFenced ? 'fenced' : 'gone');
        return lost('the group has gone on without us');
      }
      case GROUP_ERROR.noteTooLong:
        return new LedgerError('note_too_long', 'the brokers refuse a note of this length', {
          hint: 'Their offset.metadata.max.bytes must be at least 4096.',
        });
      default:
        return unreachable(`the commit was refused: error ${code}`);
    }
  }
}

function lost(why: string): LedgerError {
  return new LedgerError('partition_lost', `nothing was committed: ${why}`);
}
