/**
 * A consumer group in memory: members that share partitions out among them, commits with notes, and the
 * fence (G1) that a broker puts around them.
 *
 * Nothing happens by itself: a test says when partitions are shared out, who dies, and who is stopped
 * without knowing it.
 */
import type { Committed, GroupHandlers, GroupStatus, PartitionGroup } from '../../src/log/group.ts';
import { LedgerError } from '../../src/platform/errors.ts';

export class MemoryGroup {
  readonly committed = new Map<number, Committed>();
  readonly partitions: readonly number[];
  logId = 'log-1';
  /** Brokers that do not answer. */
  failure: Error | null = null;
  /** Offsets went backwards, or the epoch of a note did: no owner may do that. */
  readonly wrong: string[] = [];
  readonly #members: MemoryMember[] = [];

  constructor(partitions: readonly number[]) {
    this.partitions = partitions;
  }

  member(name: string): MemoryMember {
    return new MemoryMember(this, name);
  }

  get members(): readonly MemoryMember[] {
    return this.#members;
  }

  add(member: MemoryMember): void {
    this.#members.push(member);
  }

  /** A member that died, or is believed dead: its commits are refused from now on. */
  remove(member: MemoryMember): void {
    const at = this.#members.indexOf(member);
    if (at >= 0) this.#members.splice(at, 1);
    member.fenced = true;
  }

  /** Every member pauses, then each gets its share; `share` says who gets a partition. */
  async shareOut(share?: (partition: number) => MemoryMember): Promise<void> {
    await Promise.all(this.#members.map((member) => member.pause()));
    const of = share ?? ((partition) => this.#members[partition % this.#members.length]!);
    const shares = new Map(this.#members.map((member) => [member, [] as number[]]));
    if (this.#members.length > 0) {
      for (const partition of this.partitions) shares.get(of(partition))!.push(partition);
    }
    for (const [member, own] of shares) member.give(own);
    for (const [member, own] of shares) await member.handlers!.assigned(own);
  }

  commit(commits: ReadonlyMap<number, Committed>): void {
    for (const [partition, next] of commits) {
      if (next.note.length > 3_000) this.wrong.push(`${partition}: a note of ${next.note.length}`);
      const last = this.committed.get(partition);
      if (last !== undefined && next.offset < last.offset && epochIn(next) <= epochIn(last)) {
        this.wrong.push(`${partition}: ${last.offset}, then ${next.offset}`);
      }
      if (last !== undefined && epochIn(next) < epochIn(last)) {
        this.wrong.push(`${partition}: epoch ${epochIn(last)}, then ${epochIn(next)}`);
      }
      this.committed.set(partition, next);
    }
  }
}

function epochIn({ note }: Committed): number {
  return (JSON.parse(note) as { epoch?: number }).epoch ?? 0;
}

export class MemoryMember implements PartitionGroup {
  readonly name: string;
  handlers: GroupHandlers | null = null;
  fenced = false;
  /** Called before each commit; throws what the broker answers, or the death of the process. */
  beforeCommit: () => void = () => {};
  afterCommit: () => void = () => {};
  readonly #group: MemoryGroup;
  #own: readonly number[] = [];
  #rebalances = 0;

  constructor(group: MemoryGroup, name: string) {
    this.#group = group;
    this.name = name;
  }

  join(handlers: GroupHandlers): void {
    this.handlers = handlers;
    this.#group.add(this);
  }

  async pause(): Promise<void> {
    await this.handlers?.pause();
    this.#own = [];
  }

  give(partitions: readonly number[]): void {
    this.#own = partitions;
    this.#rebalances++;
  }

  async committed(): Promise<ReadonlyMap<number, Committed>> {
    if (this.#group.failure !== null) throw this.#group.failure;
    return new Map(this.#group.committed);
  }

  async commit(commits: ReadonlyMap<number, Committed>): Promise<void> {
    if (this.#group.failure !== null) throw this.#group.failure;
    this.beforeCommit();
    const isOurs = [...commits.keys()].every((partition) => this.#own.includes(partition));
    if (this.fenced || !isOurs) throw new LedgerError('partition_lost', `not ${this.name}'s`);
    this.#group.commit(commits);
    this.afterCommit();
  }

  async leave(): Promise<void> {
    if (!this.fenced) await this.pause();
    this.#group.remove(this);
  }

  async close(): Promise<void> {}

  status(): GroupStatus {
    return {
      waitsFor: null,
      partitions: this.#own,
      rebalances: this.#rebalances,
      logId: this.#group.logId,
    };
  }
}
