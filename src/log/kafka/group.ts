/**
 * A member of a consumer group that shares out the topic's partitions (`../group.ts`), by Kafka's
 * classic group protocol.
 *
 * Owns its connections, and what is ours. Does not own what is done with a partition, nor how
 * partitions are shared out (`group-seat.ts`, `group-assignor.ts`), nor commits (`group-commits.ts`).
 *
 * One round after the other, until it leaves:
 *
 *   1 pause      what we have is finished; beats go on, so that the group waits for us
 *   2 take       a seat: join, which waits for everybody, then sync, in which the leader shares out
 *   3 assigned   ours; beats of the new generation go on meanwhile
 *   4 stay       until partitions are shared out anew, or the group has gone on without us
 *
 * M1 (G1) What is ours is ours in one generation. A commit names generation and member; the coordinator
 *    refuses it once another generation has begun, and then we have lost.
 * M2 (G2) No join is sent before `pause` has resolved. One that takes longer than most of the rebalance timeout
 *    is waited for no longer: we count as lost, before the coordinator goes on without us.
 * M3 Without an answer for a session's time we count as lost, before the coordinator can give our
 *    partitions away. If it then turns out that it has not, they are ours again as they were.
 */
import { monotonicMs } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import type { Committed, GroupHandlers, GroupStatus, PartitionGroup } from '../group.ts';
import { KafkaCluster } from './cluster.ts';
import { Coordinator } from './coordinator.ts';
import { GroupCommits } from './group-commits.ts';
import { fetchCommitted, type GroupProgressOptions } from './group-progress.ts';
import { type Holding, SeatTaker } from './group-seat.ts';
import { type BeatNews, Heartbeats } from './heartbeats.ts';
import { DEFAULT_PATIENCE_MS, patiently } from './patience.ts';

export interface KafkaGroupOptions extends GroupProgressOptions {
  /** Name of the member that outlives its process; null: it is another member after every start. */
  readonly instanceId: string | null;
  /** At the end the seat is kept for the next process of the same name, until the session is over. */
  readonly keepSeat?: boolean;
  /** Partitions that this machine knows something of: better its than another's. */
  readonly remembers?: () => readonly number[];
  readonly sessionTimeoutMs?: number;
  readonly rebalanceTimeoutMs?: number;
  readonly heartbeatMs?: number;
  /** How often it is looked whether the topic has more partitions by now. */
  readonly lookIntervalMs?: number;
  /** How long until an instance name that another process uses is tried again. */
  readonly fencedRetryMs?: number;
  /** Told what stands in the way, once until something else does. */
  readonly onProblem?: (error: Error) => void;
}

export const GROUP_DEFAULTS = {
  sessionTimeoutMs: 10_000,
  rebalanceTimeoutMs: 60_000,
  heartbeatMs: 1_000,
  lookIntervalMs: 30_000,
  fencedRetryMs: 30_000,
  patienceMs: DEFAULT_PATIENCE_MS,
};

const MIN_RETRY_MS = 100;
const MAX_RETRY_MS = 1_000;
/** How much later than the rebalance timeout the coordinator may answer a join. */
const JOIN_GRACE_MS = 5_000;
const NO_ANSWER = 'the brokers do not answer';
const SHARING = 'the group is sharing out partitions';

/** `changed`: the topic is not as it was when we joined. */
type News = BeatNews | 'changed' | 'leaving';

export class KafkaPartitionGroup implements PartitionGroup {
  readonly #options: KafkaGroupOptions & typeof GROUP_DEFAULTS;
  readonly #cluster: KafkaCluster;
  readonly #coordinator: Coordinator;
  readonly #seats: SeatTaker;
  readonly #commits: GroupCommits;
  readonly #shortMs: number;
  #handlers: GroupHandlers | null = null;
  #running: Promise<void> | null = null;
  #leaving = false;
  /** The generation that we are in as far as we know; null from the next join on. */
  #holding: Holding | null = null;
  /** From `assigned` to the end of `pause`, or to `lost`. */
  #isOurs = false;
  #beats: Heartbeats | null = null;
  /** The last that was heard: what came before it does not matter any longer. */
  #news: News | null = null;
  #wake: () => void = () => {};
  #waitsFor: string | null = 'it has not joined';
  #rebalances = 0;
  #problem: string | null = null;

  constructor(options: KafkaGroupOptions) {
    this.#options = { ...GROUP_DEFAULTS, ...options };
    const { connection, groupId, topic, sessionTimeoutMs, rebalanceTimeoutMs } = this.#options;
    // A broker that hangs must leave time to ask another within the session.
    const shortMs = Math.min(connection.requestTimeoutMs, Math.floor(sessionTimeoutMs / 4));
    this.#shortMs = shortMs;
    this.#cluster = new KafkaCluster({ ...connection, requestTimeoutMs: shortMs }, topic);
    this.#coordinator = new Coordinator({
      ...{ connection, groupId, shortMs, longMs: rebalanceTimeoutMs + JOIN_GRACE_MS },
      addresses: () => this.#cluster.addresses,
    });
    this.#seats = new SeatTaker(this.#options, this.#cluster, this.#coordinator);
    this.#commits = new GroupCommits({
      ...this.#options,
      coordinator: this.#coordinator,
      ours: () => (this.#isOurs ? this.#holding : null),
      onLost: (why) => this.#tell(why),
    });
  }

  join(handlers: GroupHandlers): void {
    this.#handlers = handlers;
    this.#running ??= this.#run(handlers);
  }

  status(): GroupStatus {
    const { topicId = null } = this.#holding?.layout ?? this.#cluster.layout ?? {};
    return {
      waitsFor: this.#waitsFor,
      partitions: this.#isOurs ? this.#numbered(this.#holding!.indexes) : [],
      rebalances: this.#rebalances,
      logId: topicId,
    };
  }

  committed(): Promise<ReadonlyMap<number, Committed>> {
    const [cluster, coordinator] = [this.#cluster, this.#coordinator];
    return fetchCommitted({ ...this.#options, cluster, coordinator });
  }

  commit(commits: ReadonlyMap<number, Committed>): Promise<void> {
    return this.#commits.commit(commits);
  }

  async leave(): Promise<void> {
    this.#leaving = true;
    this.#coordinator.stopWaiting();
    this.#wake();
    await this.#running;
    await Promise.all([this.#coordinator.close(), this.#cluster.close()]);
  }

  close(): Promise<void> {
    return this.leave();
  }

  async #run(handlers: GroupHandlers): Promise<void> {
    const looking = setInterval(() => void this.#lookAtTopic(), this.#options.lookIntervalMs);
    let retryMs = MIN_RETRY_MS;
    while (!this.#leaving) {
      try {
        await this.#pause(handlers);
        await this.#takeSeat();
        await this.#hold(handlers);
        retryMs = MIN_RETRY_MS;
        await this.#stay(handlers);
      } catch (error) {
        this.#beats?.stop();
        await this.#retryAfter(error as Error, retryMs);
        retryMs = Math.min(MAX_RETRY_MS, retryMs * 2);
      }
    }
    clearInterval(looking);
    await this.#pause(handlers);
    this.#beats?.stop();
    if (this.#options.keepSeat !== true) await this.#giveSeatBack();
    this.#waitsFor = 'it has left';
  }

  /** 1, M2. */
  async #pause(handlers: GroupHandlers): Promise<void> {
    if (!this.#isOurs) return;
    this.#waitsFor = SHARING;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tooLong = new Promise<'too long'>((resolve) => {
      timer = setTimeout(() => resolve('too long'), this.#longestPauseMs);
    });
    const paused = handlers.pause().catch((error: Error) => this.#report(error));
    const outcome = await Promise.race([paused, tooLong]).finally(() => clearTimeout(timer));
    if (outcome === 'too long') this.#lose();
    this.#isOurs = false;
  }

  /** M2. The timeout runs at the coordinator from before the beat that told us of it. */
  get #longestPauseMs(): number {
    const { rebalanceTimeoutMs, heartbeatMs } = this.#options;
    return rebalanceTimeoutMs - Math.min(rebalanceTimeoutMs / 2, 2 * heartbeatMs + this.#shortMs);
  }

  /** 2. */
  async #takeSeat(): Promise<void> {
    this.#beats?.stop();
    this.#holding = null;
    this.#news = null;
    this.#waitsFor ??= SHARING;
    const holding = await this.#seats.take();
    this.#holding = holding;
    this.#rebalances++;
    const { heartbeatMs: intervalMs, sessionTimeoutMs } = this.#options;
    this.#beats = new Heartbeats({
      ...{ coordinator: this.#coordinator, intervalMs, sessionTimeoutMs },
      ...{ seat: holding.seat, heardMs: holding.heardMs, onNews: (news) => this.#tell(news) },
    });
  }

  /** 3. */
  async #hold(handlers: GroupHandlers): Promise<void> {
    // Another tenure: a commit that was made before we lost is sent no more.
    const holding = { ...this.#holding! };
    this.#holding = holding;
    this.#isOurs = true;
    this.#waitsFor = null;
    this.#problem = null;
    try {
      await handlers.assigned(this.#numbered(holding.indexes));
    } catch (error) {
      this.#lose();
      throw error;
    }
  }

  /** 4. */
  async #stay(handlers: GroupHandlers): Promise<void> {
    for (;;) {
      const news = await this.#nextNews();
      if (news === 'fenced') throw this.#seats.fenced();
      // M3.
      if (news === 'silent') this.#waitsFor = NO_ANSWER;
      else if (news !== 'heard') return;
      else if (!this.#isOurs) await this.#hold(handlers);
    }
  }

  #tell(news: News): void {
    if (news === 'silent' || news === 'gone' || news === 'fenced') this.#lose();
    this.#news = news;
    this.#wake();
  }

  async #nextNews(): Promise<News> {
    while (this.#news === null && !this.#leaving) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const news = this.#leaving ? 'leaving' : this.#news!;
    this.#news = null;
    return news;
  }

  #lose(): void {
    if (!this.#isOurs) return;
    this.#isOurs = false;
    this.#handlers!.lost();
  }

  async #lookAtTopic(): Promise<void> {
    const layout = await this.#cluster.refresh().catch(() => null);
    const known = this.#holding?.layout;
    if (layout === null || known === undefined) return;
    const isSame = layout.topicId === known.topicId;
    if (!isSame || layout.leaders.length !== known.leaders.length) this.#tell('changed');
  }

  async #giveSeatBack(): Promise<void> {
    const { patienceMs } = this.#options;
    await patiently({ patienceMs }, () => this.#seats.giveBack()).catch((error: Error) =>
      this.#report(error),
    );
  }

  async #retryAfter(error: Error, retryMs: number): Promise<void> {
    const code = error instanceof LedgerError ? error.code : '';
    if (this.#leaving || code === 'group_moves_on') return;
    const isAway = code === 'log_unavailable' || code === '';
    this.#waitsFor = isAway ? NO_ANSWER : error.message;
    this.#report(error);
    const waitMs = code === 'instance_taken' ? this.#options.fencedRetryMs : retryMs;
    const untilMs = monotonicMs() + waitMs;
    // In small steps, so that nobody who leaves waits for it.
    while (!this.#leaving && monotonicMs() < untilMs) await Bun.sleep(Math.min(100, waitMs));
  }

  #report(error: Error): void {
    if (this.#problem === error.message) return;
    this.#problem = error.message;
    this.#options.onProblem?.(error);
  }

  #numbered(indexes: readonly number[]): number[] {
    return indexes.map((index) => this.#options.firstPartition + index);
  }
}
