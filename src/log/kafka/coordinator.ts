/**
 * The broker that coordinates a group: found through any broker, asked, and found anew after a failure.
 *
 * Owns its connections, one lane each for requests that are answered soon and for those that wait for
 * other members.
 *
 * O1 A coordinator that is frozen, or is the coordinator no longer, is noticed within the timeout of a
 *    short request, also by who waits long: meanwhile it is asked again and again who coordinates.
 */
import type { Connection } from '@platformatic/kafka';
import { type Address, Connections, firstAnswer, type Lane, unreachable } from './connections.ts';
import { type Coded, findCoordinator, GROUP_ERROR } from './group-protocol.ts';
import type { KafkaConnection } from './options.ts';

export interface CoordinatorOptions {
  readonly connection: KafkaConnection;
  readonly groupId: string;
  /** Brokers that may be asked. */
  readonly addresses: () => readonly Address[];
  readonly shortMs: number;
  /** How long a request may wait for other members. */
  readonly longMs: number;
}

const FIND_MS = 2_000;
const LOOK_INTERVAL_MS = 1_000;

const MOVED: ReadonlySet<number> = new Set([
  GROUP_ERROR.loading,
  GROUP_ERROR.coordinatorNotAvailable,
  GROUP_ERROR.notCoordinator,
]);

export class Coordinator {
  readonly #options: CoordinatorOptions;
  readonly #connections: Connections;
  readonly #short: Lane;
  readonly #long: Lane;
  readonly #find: Lane;
  readonly #stop = new AbortController();
  #address: Address | null = null;
  #finding: Promise<Address> | null = null;

  constructor(options: CoordinatorOptions) {
    this.#options = options;
    this.#connections = new Connections(options.connection);
    this.#short = { name: 'short', requestTimeoutMs: options.shortMs };
    this.#long = { name: 'long', requestTimeoutMs: options.longMs };
    this.#find = { name: 'find', requestTimeoutMs: Math.min(FIND_MS, options.shortMs) };
  }

  /** A request that is answered soon. Throws when there is no answer, or not by the coordinator. */
  async ask<T extends Coded>(request: (connection: Connection) => Promise<T>): Promise<T> {
    const address = await this.#coordinator();
    return this.#answered(address, async () =>
      request(await this.#connections.get(address, this.#short)),
    );
  }

  /** O1: one that is answered when other members have done their part. */
  async wait<T extends Coded>(request: (connection: Connection) => Promise<T>): Promise<T> {
    const address = await this.#coordinator();
    if (this.#stop.signal.aborted) throw unreachable('nobody waits for the group any longer');
    const done = new AbortController();
    try {
      return await this.#answered(address, async () => {
        const connection = await this.#connections.get(address, this.#long);
        if (this.#stop.signal.aborted) throw unreachable('nobody waits for the group any longer');
        return Promise.race([request(connection), this.#whenItIsNoMore(address, done.signal)]);
      });
    } catch (error) {
      this.#connections.end(address, this.#long);
      throw error;
    } finally {
      done.abort();
    }
  }

  /** Ends what waits for other members, now and from now on. */
  stopWaiting(): void {
    this.#stop.abort();
    if (this.#address !== null) this.#connections.end(this.#address, this.#long);
  }

  close(): Promise<void> {
    return this.#connections.close();
  }

  async #answered<T extends Coded>(address: Address, request: () => Promise<T>): Promise<T> {
    try {
      const answer = await request();
      if (!MOVED.has(answer.code)) return answer;
      throw unreachable(`the coordinator of the group is not there: error ${answer.code}`);
    } catch (error) {
      if (this.#address === address) this.#address = null;
      throw error;
    }
  }

  #coordinator(): Promise<Address> {
    if (this.#address !== null) return Promise.resolve(this.#address);
    this.#finding ??= firstAnswer(this.#options.addresses(), (address) => this.#askFor(address))
      .then((address) => {
        this.#address = address;
        return address;
      })
      .finally(() => {
        this.#finding = null;
      });
    return this.#finding;
  }

  async #askFor(broker: Address): Promise<Address> {
    const connection = await this.#connections.get(broker, this.#find);
    const { code, address } = await findCoordinator(connection, this.#options.groupId);
    if (code === GROUP_ERROR.none) return address;
    throw unreachable(`the group has no coordinator: error ${code}`);
  }

  /** Rejects when the coordinator does not answer any longer, or names another. */
  async #whenItIsNoMore(address: Address, done: AbortSignal): Promise<never> {
    while (!done.aborted) {
      await Bun.sleep(LOOK_INTERVAL_MS);
      const now = done.aborted ? address : await this.#askFor(address);
      if (now.host === address.host && now.port === address.port) continue;
      throw unreachable('another broker coordinates the group');
    }
    // Nobody listens any longer.
    return new Promise(() => {});
  }
}
