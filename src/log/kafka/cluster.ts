/**
 * The brokers as one topic sees them: who leads which partition, and a connection to each.
 *
 * Owns its connections. Does not own what is asked over them.
 *
 * C1 Nothing waits longer than the limits in the options: a broker that is frozen accepts
 *    connections and answers nothing.
 * C2 What a broker says about a partition counts only when it knows of no older election than we do: one
 *    that was frozen and wakes up still takes itself for the leader.
 * C3 A connection on which a request ran into its limit is closed: its answers would come late and
 *    hold up those behind them.
 */
import { type Connection, metadataV12 } from '@platformatic/kafka';
import { LedgerError } from '../../platform/errors.ts';
import {
  type Address,
  Connections,
  distinct,
  firstAnswer,
  type Lane,
  parseAddress,
  unreachable,
} from './connections.ts';
import type { KafkaConnection } from './options.ts';

/** Which broker leads each partition of the topic, as it was last heard. */
export interface TopicLayout {
  /** Differs when a topic of the same name was made anew. */
  readonly topicId: string;
  /** Broker by partition; -1: nobody leads it now. */
  readonly leaders: readonly number[];
  /** Rises with every election of the partition. */
  readonly epochs: readonly number[];
}

const LAYOUT: Lane = { name: 'layout', requestTimeoutMs: 2_000 };
const REFRESH_INTERVAL_MS = 200;
const UNKNOWN_TOPIC = 3;

export class KafkaCluster {
  readonly #topic: string;
  readonly #bootstrap: readonly Address[];
  readonly #connections: Connections;
  readonly #data: Lane;
  readonly #brokers = new Map<number, Address>();
  #layout: TopicLayout | null = null;
  #refreshing: Promise<TopicLayout> | null = null;
  #refreshTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(options: KafkaConnection, topic: string) {
    this.#topic = topic;
    this.#bootstrap = options.brokers.map(parseAddress);
    this.#connections = new Connections(options);
    this.#data = { name: 'data', requestTimeoutMs: options.requestTimeoutMs };
  }

  /** Every broker that was ever heard of. */
  get addresses(): Address[] {
    return distinct([...this.#brokers.values(), ...this.#bootstrap]);
  }

  /** As it was last heard; null before the first answer. */
  get layout(): TopicLayout | null {
    return this.#layout;
  }

  /** Asks the brokers; whoever asks meanwhile gets the same answer. */
  refresh(): Promise<TopicLayout> {
    this.#refreshing ??= this.#ask().finally(() => {
      this.#refreshing = null;
    });
    return this.#refreshing;
  }

  /** Asks soon, at most once in a while, and nobody waits: called after every failure. */
  refreshSoon(): void {
    if (this.#refreshTimer !== null || this.#connections.closed) return;
    this.refresh().catch(() => {});
    this.#refreshTimer = setTimeout(() => {
      this.#refreshTimer = null;
    }, REFRESH_INTERVAL_MS);
  }

  /** The connection to a broker, made now when there is none. */
  connection(nodeId: number): Promise<Connection> {
    const address = this.#brokers.get(nodeId);
    if (address === undefined) return Promise.reject(unreachable(`broker ${nodeId} is not known`));
    return this.#connections.get(address, this.#data);
  }

  /** The connection to a broker if there is one. */
  openConnection(nodeId: number): Connection | null {
    const address = this.#brokers.get(nodeId);
    return address === undefined ? null : this.#connections.open(address, this.#data);
  }

  async close(): Promise<void> {
    if (this.#refreshTimer !== null) clearTimeout(this.#refreshTimer);
    await this.#connections.close();
  }

  #ask(): Promise<TopicLayout> {
    return firstAnswer(this.addresses, (address) => this.#askOne(address));
  }

  async #askOne(address: Address): Promise<TopicLayout> {
    const connection = await this.#connections.get(address, LAYOUT);
    const answer = await metadataV12.api
      .async(connection, [this.#topic], false, false)
      .catch((error: { response?: MetadataAnswer }) => {
        if (error.response === undefined) throw error;
        return error.response;
      });
    const topic = answer.topics[0];
    if (topic === undefined || topic.errorCode === UNKNOWN_TOPIC) throw noTopic(this.#topic);
    if (topic.partitions.length === 0) throw unreachable(`error ${topic.errorCode}`);
    for (const each of answer.brokers) this.#brokers.set(each.nodeId, each);
    this.#layout = newer(this.#layout, layoutOf(topic));
    const { leaders } = this.#layout;
    // The first click must not wait for a connection.
    for (const nodeId of new Set(leaders)) this.connection(nodeId).catch(() => {});
    return this.#layout;
  }
}

function layoutOf({ topicId, partitions }: MetadataAnswer['topics'][number]): TopicLayout {
  const leaders = new Array<number>(partitions.length).fill(-1);
  const epochs = new Array<number>(partitions.length).fill(-1);
  for (const { partitionIndex, leaderId, leaderEpoch } of partitions) {
    leaders[partitionIndex] = leaderId;
    epochs[partitionIndex] = leaderEpoch;
  }
  return { topicId, leaders, epochs };
}

/** C2. */
export function newer(known: TopicLayout | null, heard: TopicLayout): TopicLayout {
  if (known === null || known.topicId !== heard.topicId) return heard;
  const isOlder = (partition: number): boolean =>
    (known.epochs[partition] ?? -1) > heard.epochs[partition]!;
  return {
    topicId: heard.topicId,
    leaders: heard.leaders.map((leader, i) => (isOlder(i) ? known.leaders[i]! : leader)),
    epochs: heard.epochs.map((epoch, i) => (isOlder(i) ? known.epochs[i]! : epoch)),
  };
}

type MetadataAnswer = Awaited<ReturnType<typeof metadataV12.api.async>>;

export function noTopic(topic: string): LedgerError {
  return new LedgerError('log_missing', `Kafka has no topic "${topic}"`, {
    kind: 'retry',
    hint: 'Make it with "clickledger kafka create-topic".',
  });
}
