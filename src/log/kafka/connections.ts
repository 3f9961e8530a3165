/**
 * Connections to brokers, made when they are first asked for and shared until they end.
 *
 * A connection answers its requests in order: what may wait long has one of its own (`Lane`).
 * C1 and C3 are those of `cluster.ts`.
 */
import { isIP } from 'node:net';
import { Connection } from '@platformatic/kafka';
import { LedgerError } from '../../platform/errors.ts';
import type { KafkaConnection } from './options.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Lane {
  readonly name: string;
  /** C3: a request without an answer for so long closes the connection. */
  readonly requestTimeoutMs: number;
}

export class Connections {
  readonly #options: KafkaConnection;
  readonly #made = new Map<string, Promise<Connection>>();
  readonly #open = new Map<string, Connection>();
  #closed = false;

  constructor(options: KafkaConnection) {
    this.#options = options;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The connection, made now when there is none. */
  get(address: Address, lane: Lane): Promise<Connection> {
    if (this.#closed) return Promise.reject(unreachable('the client is closed'));
    const name = nameOf(address, lane);
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    const made = this.#make(name, address, lane.requestTimeoutMs);
    this.#made.set(name, made);
    return made;
  }

  /** The connection if there is one. */
  open(address: Address, lane: Lane): Connection | null {
    const connection = this.#open.get(nameOf(address, lane));
    return connection?.isConnected() === true ? connection : null;
  }

  /** Ends a connection: whoever waits for an answer gets an error. */
  end(address: Address, lane: Lane): void {
    this.#open.get(nameOf(address, lane))?.socket.destroy();
  }

  async close(): Promise<void> {
    this.#closed = true;
    const making = [...this.#made.values()];
    for (const connection of this.#open.values()) connection.socket.destroy();
    for (const each of making) {
      await each.then((connection) => connection.socket.destroy()).catch(() => {});
    }
  }

  #make(name: string, { host, port }: Address, requestTimeoutMs: number): Promise<Connection> {
    const { clientId, connectTimeoutMs, tls, sasl } = this.#options;
    const connection = new Connection(clientId, {
      connectTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      // The bound on what is in flight is the writer's queue.
      maxInflights: 10_000,
      ...(tls !== undefined && { tls, tlsServerName: isIP(host) === 0 }),
      ...(sasl !== undefined && { sasl }),
    });
    const forget = (): void => {
      if (this.#made.get(name) === made) this.#made.delete(name);
      if (this.#open.get(name) === connection) this.#open.delete(name);
    };
    connection.on('close', forget);
    // Without a listener an error event would end the process; those in flight hear of it anyway.
    connection.on('error', forget);
    const made = connection.connect(host, port)!.then(
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
    return made;
  }
}

const nameOf = ({ host, port }: Address, { name }: Lane): string => `${name} ${host}:${port}`;

/** Another broker is asked when the one before has not answered for so long. */
const ASK_NEXT_AFTER_MS = 200;

/** The first answer of any; none is waited for that does not answer while another could. */
export async function firstAnswer<T>(
  addresses: readonly Address[],
  ask: (address: Address) => Promise<T>,
): Promise<T> {
  let last: unknown;
  let answered = false;
  const attempts = addresses.map(async (address, i) => {
    if (i > 0) await new Promise((resolve) => setTimeout(resolve, i * ASK_NEXT_AFTER_MS));
    if (answered) throw unreachable('not needed');
    const found = await ask(address).catch((error: unknown) => {
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
    const names = addresses.map(({ host, port }) => `${host}:${port}`).join(', ');
    throw unreachable(`no broker of ${names} answers`, last);
  }
}

export function distinct(addresses: readonly Address[]): Address[] {
  return [...new Map(addresses.map((each) => [`${each.host}:${each.port}`, each])).values()];
}

export function parseAddress(text: string): Address {
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
