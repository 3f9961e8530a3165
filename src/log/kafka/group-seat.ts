/**
 * Taking a seat in a group, and giving it back: join, share out when we lead, sync.
 *
 * Owns who we are to the coordinator (our member id) and what we claim. Keeps nothing alive.
 *
 * M4 Who finds another process under its instance name stays out, and takes the name back only when it
 *    is free: we ask as the member that we were, and the coordinator knows which one has the name. A process
 *    that starts under a name takes it at once; the one that had it commits nothing from then on, and
 *    finds out with its next beat.
 */
import { monotonicMs } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import type { KafkaCluster, TopicLayout } from './cluster.ts';
import type { Coordinator } from './coordinator.ts';
import { shareOut } from './group-assignor.ts';
import {
  type Claims,
  decodeClaims,
  decodeShare,
  encodeShare,
  encodeSubscription,
} from './group-bytes.ts';
import {
  GROUP_ERROR,
  type Joined,
  joinGroup,
  leaveGroup,
  type Member,
  type Seat,
  syncGroup,
} from './group-protocol.ts';

export interface SeatOptions {
  readonly groupId: string;
  readonly topic: string;
  readonly firstPartition: number;
  readonly instanceId: string | null;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  /** Partitions that this machine knows something of, before it had any in the group. */
  readonly remembers?: () => readonly number[];
}

/** What a generation gave us. */
export interface Holding {
  readonly seat: Seat;
  /** As the topic numbers them. */
  readonly indexes: readonly number[];
  readonly layout: TopicLayout;
  /** On the monotonic clock: the coordinator heard from us then, or later. */
  readonly heardMs: number;
}

export class SeatTaker {
  readonly #options: SeatOptions;
  readonly #cluster: KafkaCluster;
  readonly #coordinator: Coordinator;
  #memberId = '';
  #claimed: { generation: number; indexes: readonly number[] } | null = null;

  constructor(options: SeatOptions, cluster: KafkaCluster, coordinator: Coordinator) {
    this.#options = options;
    this.#cluster = cluster;
    this.#coordinator = coordinator;
  }

  async take(): Promise<Holding> {
    const layout = await this.#cluster.refresh();
    const joined = await this.#join(layout);
    const seat = { ...this.#member, generation: joined.generation };
    const shares = joined.leads ? await this.#shares(joined, layout) : new Map<string, Buffer>();
    const heardMs = monotonicMs();
    const { code, share } = await this.#coordinator.wait((connection) =>
      syncGroup(connection, seat, shares),
    );
    if (code !== GROUP_ERROR.none) throw this.#refused(code);
    const indexes = decodeShare(this.#options.topic, share).sort((a, b) => a - b);
    this.#claimed = { generation: seat.generation, indexes };
    return { seat, indexes, layout, heardMs };
  }

  /** Our partitions move at once. */
  async giveBack(): Promise<void> {
    // Without a member id it could be another process's seat.
    if (this.#memberId === '') return;
    await this.#coordinator.ask((connection) => leaveGroup(connection, this.#member));
  }

  /** M4. */
  fenced(): LedgerError {
    const { instanceId } = this.#options;
    return new LedgerError(
      'instance_taken',
      `another process uses the instance name ${instanceId}`,
      {
        kind: 'retry',
        hint: 'Give every process a name of its own.',
      },
    );
  }

  get #member(): Member {
    const { groupId, instanceId } = this.#options;
    return { groupId, instanceId, memberId: this.#memberId };
  }

  async #join(layout: TopicLayout): Promise<Joined> {
    const { topic, sessionTimeoutMs, rebalanceTimeoutMs } = this.#options;
    const subscription = encodeSubscription(topic, this.#claims(layout));
    const request = { sessionTimeoutMs, rebalanceTimeoutMs, subscription };
    for (;;) {
      const answer = await this.#coordinator.wait((connection) =>
        joinGroup(connection, { ...this.#member, ...request }),
      );
      const { code } = answer;
      const isForgotten = code === GROUP_ERROR.unknownMember && this.#memberId !== '';
      if (code !== GROUP_ERROR.none && code !== GROUP_ERROR.memberIdRequired && !isForgotten) {
        throw this.#refused(code);
      }
      this.#memberId = isForgotten ? '' : answer.memberId;
      if (code === GROUP_ERROR.none) return answer;
    }
  }

  #claims({ topicId, leaders }: TopicLayout): Claims {
    const { remembers, firstPartition } = this.#options;
    const remembered = (): number[] =>
      (remembers?.() ?? []).map((each) => each - firstPartition).filter((index) => index >= 0);
    const { generation, indexes } = this.#claimed ?? { generation: -1, indexes: remembered() };
    const topic = { topicPartitions: leaders.length, topicId };
    return { version: 1, generation, partitions: [...indexes], ...topic };
  }

  /** What the leader says to everybody: shares of the topic as it is now. */
  async #shares({ members }: Joined, known: TopicLayout): Promise<Map<string, Buffer>> {
    const { leaders } = await this.#cluster.refresh().catch(() => known);
    const claimants = members.map(({ id: memberId, instanceId, subscription }) => {
      const { partitions = [], generation = -1 } = decodeClaims(subscription) ?? {};
      // A member id is another after every start.
      return { id: instanceId ?? memberId, memberId, partitions, generation };
    });
    const shares = shareOut(claimants, leaders.length);
    const { topic } = this.#options;
    return new Map(
      claimants.map(({ id, memberId }) => [memberId, encodeShare(topic, shares.get(id)!)]),
    );
  }

  #refused(code: number): LedgerError {
    switch (code) {
      case GROUP_ERROR.instanceFenced:
        return this.fenced();
      case GROUP_ERROR.rebalanceInProgress:
      case GROUP_ERROR.illegalGeneration:
      case GROUP_ERROR.unknownMember:
        return new LedgerError('group_moves_on', 'the group shares out anew', { kind: 'retry' });
      default:
        return new LedgerError('group_refused', whyRefused(code, this.#options), {
          kind: 'retry',
          hint: 'See docs/operating/kafka.md.',
        });
    }
  }
}

function whyRefused(code: number, { groupId, sessionTimeoutMs }: SeatOptions): string {
  if (code === GROUP_ERROR.notAllowed) return `the brokers do not let us read the group ${groupId}`;
  if (code === GROUP_ERROR.sessionTimeoutInvalid) {
    return `the brokers do not allow a session of ${sessionTimeoutMs} ms`;
  }
  return `the brokers refuse us in the group ${groupId}: error ${code}`;
}
