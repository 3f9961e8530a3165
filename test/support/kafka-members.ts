/**
 * Members of a group that watch over each other: who has a partition while another has it is noted.
 */
import type { GroupHandlers } from '../../src/log/group.ts';
import type { KafkaGroupOptions, KafkaPartitionGroup } from '../../src/log/kafka/group.ts';
import { FIRST, type KafkaWorld } from './kafka-world.ts';

export class Members {
  /** What must not be: a partition with two owners at once. */
  readonly overlaps: string[] = [];
  readonly owners = new Map<number, Member>();
  readonly #world: KafkaWorld;
  readonly topic: string;
  readonly partitions: number;

  constructor(world: KafkaWorld, topic: string, partitions: number) {
    this.#world = world;
    this.topic = topic;
    this.partitions = partitions;
  }

  add(name: string, options: Partial<KafkaGroupOptions> & { pauseMs?: number } = {}): Member {
    const { pauseMs = 0, ...rest } = options;
    const member = new Member(this, name, pauseMs);
    member.group = this.#world.group(this.topic, { instanceId: name, ...rest });
    member.group.join(member);
    return member;
  }

  /** Whether these have all partitions, shares within one of each other. */
  settledOn(...members: readonly Member[]): boolean {
    const counts = members.map(({ partitions }) => partitions.length);
    const owned = new Set(members.flatMap(({ partitions }) => partitions));
    return (
      owned.size === this.partitions &&
      counts.reduce((sum, count) => sum + count, 0) === this.partitions &&
      Math.max(...counts) - Math.min(...counts) <= 1 &&
      [...owned].every((each) => each >= FIRST && each < FIRST + this.partitions)
    );
  }
}

export class Member implements GroupHandlers {
  readonly name: string;
  readonly told: string[] = [];
  group!: KafkaPartitionGroup;
  partitions: readonly number[] = [];
  readonly #all: Members;
  readonly #pauseMs: number;

  constructor(all: Members, name: string, pauseMs: number) {
    this.#all = all;
    this.name = name;
    this.#pauseMs = pauseMs;
  }

  async pause(): Promise<void> {
    this.told.push('pause');
    await Bun.sleep(this.#pauseMs);
    this.#giveUp();
  }

  async assigned(partitions: readonly number[]): Promise<void> {
    this.told.push(`assigned ${partitions.length}`);
    this.partitions = partitions;
    for (const partition of partitions) {
      const owner = this.#all.owners.get(partition);
      // Who takes over a name is not waited for: the process before it finds out with its next beat.
      if (owner !== undefined && owner.name !== this.name) {
        this.#all.overlaps.push(`${partition}: ${owner.name} still has what ${this.name} gets`);
      }
      this.#all.owners.set(partition, this);
    }
  }

  lost(): void {
    this.told.push('lost');
    this.#giveUp();
  }

  #giveUp(): void {
    for (const [partition, owner] of this.#all.owners) {
      if (owner === this) this.#all.owners.delete(partition);
    }
    this.partitions = [];
  }
}

/** A member in a process of its own. */
export class ChildMember {
  readonly said: { told: string; partitions?: number[]; code?: string; waitsFor?: string }[] = [];
  readonly #process: Bun.Subprocess<'pipe', 'pipe', 'inherit'>;

  constructor(world: KafkaWorld, topic: string, name: string) {
    const script = new URL('./kafka-group-child.ts', import.meta.url).pathname;
    const brokers = world.servers.addresses.join(',');
    this.#process = Bun.spawn([process.execPath, script, brokers, topic, `${topic}-group`, name], {
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    });
    void this.#listen();
  }

  get partitions(): readonly number[] {
    return this.said.findLast(({ told }) => told === 'assigned')?.partitions ?? [];
  }

  has(told: string): boolean {
    return this.said.some((each) => each.told === told);
  }

  commit(partition: number, offset: number): void {
    this.#process.stdin.write(`commit ${partition} ${offset}\n`);
    this.#process.stdin.flush();
  }

  stop(): void {
    this.#process.kill('SIGSTOP');
  }

  goOn(): void {
    this.#process.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#process.exited;
  }

  async #listen(): Promise<void> {
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of this.#process.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop()!;
      for (const line of lines) this.said.push(JSON.parse(line));
    }
  }
}
