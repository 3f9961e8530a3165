/**
 * The brokers as one topic sees them: who leads which partition, and a connection to each.
 *
 * Owns the connections. Does not own what is asked over them.
 *
 * C1 Nothing waits longer than the limits in the options: a broker that is frozen accepts
 *    connections and answers nothing.
 * C2 What a broker says about a partition counts only when it knows of no older election than we do: one
 *    that was frozen and wakes up still takes itself for the leader.
 * C3 A connection on which a request ran into its limit is closed: its answers would come late and
 *    hold up those behind them.
 */
import { isIP } from 'node:net';
import { Connection, metadataV12 } from '@platformatic/kafka';
import { LedgerError } from '../../platform/errors.ts';
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

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Another broker is asked for the layout when the one before has not answered for so long. */
const ASK_NEXT_AFTER_MS = 200;
const LAYOUT_REQUEST_MS = 2_000;
const REFRESH_INTERVAL_MS = 200;
const UNKNOWN_TOPIC = 3;

export class KafkaCluster {
  readonly #options: KafkaConnection;
  readonly #topic: string;
  readonly #bootstrap: readonly Address[];
  readonly #connections = new Map<string, Promise<Connection>>();
  readonly #open = new Map<string, Connection>();
  readonly #brokers = new Map<number, Address>();
  #layout: TopicLayout | null = null;
  #refreshing: Promise<TopicLayout> | null = null;
  #refreshTimer: ReturnType<typeof setTimeout> | null = null;
  #closed = false;

  constructor(options: KafkaConnection, topic: string) {
    this.#options = options;
    this.#topic = topic;
    this.#bootstrap = options.brokers.map(parseAddress);
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
    if (this.#refreshTimer !== null || this.#closed) return;
    this.refresh().catch(() => {});
    this.#refreshTimer = setTimeout(() => {
      this.#refreshTimer = null;
    }, REFRESH_INTERVAL_MS);
  }

  /** The connection to a broker, made now when there is none. */
  connection(nodeId: number): Promise<Connection> {
    const address = this.#brokers.get(nodeId);
    if (address === undefined) return Promise.reject(unreachable(`broker ${nodeId} is not known`));
    return this.#connect(address, 'data');
  }

  /** The connection to a broker if there is one. */
  openConnection(nodeId: number): Connection | null {
    const address = this.#brokers.get(nodeId);
    if (address === undefined) return null;
    const connection = this.#open.get(nameOf(address, 'data'));
    return connection?.isConnected() === true ? connection : null;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#refreshTimer !== null) clearTimeout(this.#refreshTimer);
    const making = [...this.#connections.values()];
    for (const connection of this.#open.values()) connection.socket.destroy();
    for (const each of making) {
      await each.then((connection) => connection.socket.destroy()).catch(() => {});
    }
  }

  async #ask(): Promise<TopicLayout> {
    const addresses = distinct([...this.#brokers.values(), ...this.#bootstrap]);
    let last: unknown;
    let answered = false;
    const attempts = addresses.map(async (address, i) => {
      // One after the other, but none waits for one that does not answer.
      if (i > 0) await new Promise((resolve) => setTimeout(resolve, i * ASK_NEXT_AFTER_MS));
      if (answered || this.#closed) throw unreachable('not needed');
      const found = await this.#askOne(address).catch((error: unknown) => {
        last = error;
        throw error;
      });
      answered = true;
      return found;
    });
    try {
      return await Promise.any(attempts);
    } catch {
      if (last instanceof LedgerError) throw last;
      throw unreachable(`no broker of ${this.#options.brokers.join(', ')} answers`, last);
    }
  }

  async #askOne(address: Address): Promise<TopicLayout> {
    const connection = await this.#connect(address, 'layout');
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

  #connect(address: Address, use: 'data' | 'layout'): Promise<Connection> {
    if (this.#closed) return Promise.reject(unreachable('the client is closed'));
    const name = nameOf(address, use);
    const known = this.#connections.get(name);
    if (known !== undefined) return known;
    const connection = new Connection(this.#options.clientId, {
      connectTimeout: this.#options.connectTimeoutMs,
      requestTimeout: use === 'layout' ? LAYOUT_REQUEST_MS : this.#options.requestTimeoutMs,
      // The bound on what is in flight is the writer's queue.
      maxInflights: 10_000,
      ...(this.#options.tls !== undefined && {
        tls: this.#options.tls,
        tlsServerName: isIP(address.host) === 0,
      }),
      ...(this.#options.sasl !== undefined && { sasl: this.#options.sasl }),
    });
    const forget = (): void => {
      if (this.#connections.get(name) === made) this.#connections.delete(name);
      if (this.#open.get(name) === connection) this.#open.delete(name);
    };
    connection.on('close', forget);
    // Without a listener an error event would end the process; those in flight hear of it anyway.
    connection.on('error', forget);
    const made = connection.connect(address.host, address.port)!.then(
      () => {
        if (this.#closed) connection.socket.destroy();
        else this.#open.set(name, connection);
        return connection;
      },
      (error: unknown) => {
        forget();
        throw error;
      },
    );
    this.#connections.set(name, made);
    return made;
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

const nameOf = ({ host, port }: Address, use: string): string => `${use} ${host}:${port}`;

function distinct(addresses: readonly Address[]): Address[] {
  return [...new Map(addresses.map((each) => [`${each.host}:${each.port}`, each])).values()];
}

function parseAddress(text: string): Address {
  const colon = text.lastIndexOf(':');
  return {
    host: text.slice(0, colon).replace(/^\[|\]$/g, ''),
    port: Number(text.slice(colon + 1)),
  };
}

/** Kafka cannot be had now; later it may. */
export function unreachable(message: string, cause?: unknown): LedgerError {
  return new LedgerError('log_unavailable', `Kafka: ${message}`, { kind: 'retry', cause });
}

export function noTopic(topic: string): LedgerError {
  return new LedgerError('log_missing', `Kafka has no topic "${topic}"`, {
    kind: 'retry',
    hint: 'Make it with "clickledger kafka create-topic".',
  });
}
