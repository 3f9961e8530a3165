/** What the members of a group have committed, for whoever wants to know; needs no membership. */
import type { Committed, GroupProgress } from '../group.ts';
import { KafkaCluster } from './cluster.ts';
import { unreachable } from './connections.ts';
import { Coordinator } from './coordinator.ts';
import { fetchOffsets, GROUP_ERROR } from './group-protocol.ts';
import type { KafkaConnection } from './options.ts';
import { DEFAULT_PATIENCE_MS, patiently } from './patience.ts';

export interface GroupProgressOptions {
  readonly connection: KafkaConnection;
  readonly groupId: string;
  readonly topic: string;
  /** The number here of the topic's partition 0; the others follow. */
  readonly firstPartition: number;
  /** What gets no answer is tried again for so long. */
  readonly patienceMs?: number;
}

export class KafkaGroupProgress implements GroupProgress {
  readonly #options: GroupProgressOptions;
  readonly #cluster: KafkaCluster;
  readonly #coordinator: Coordinator;

  constructor(options: GroupProgressOptions) {
    this.#options = options;
    const { connection, groupId, topic, patienceMs = DEFAULT_PATIENCE_MS } = options;
    this.#cluster = new KafkaCluster(connection, topic);
    const shortMs = Math.min(connection.requestTimeoutMs, patienceMs);
    this.#coordinator = new Coordinator({
      ...{ connection, groupId, shortMs, longMs: shortMs },
      addresses: () => this.#cluster.addresses,
    });
  }

  committed(): Promise<ReadonlyMap<number, Committed>> {
    return fetchCommitted({
      ...this.#options,
      cluster: this.#cluster,
      coordinator: this.#coordinator,
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#coordinator.close(), this.#cluster.close()]);
  }
}

/** Asks for every partition of the topic as it is now. */
export function fetchCommitted(
  from: Omit<GroupProgressOptions, 'connection'> & {
    cluster: KafkaCluster;
    coordinator: Coordinator;
  },
): Promise<ReadonlyMap<number, Committed>> {
  const { cluster, coordinator, groupId, topic, firstPartition, patienceMs } = from;
  return patiently({ patienceMs: patienceMs ?? DEFAULT_PATIENCE_MS }, async () => {
    const partitions = [...(await cluster.refresh()).leaders.keys()];
    const { code, committed } = await coordinator.ask((connection) =>
      fetchOffsets(connection, { groupId, topic, partitions }),
    );
    if (code !== GROUP_ERROR.none) throw unreachable(`the group does not tell: error ${code}`);
    return new Map([...committed].map(([index, each]) => [firstPartition + index, each]));
  });
}
