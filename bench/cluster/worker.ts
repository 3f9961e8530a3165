/** A counter worker as its role composes it, in this process: real group, real journals on a disk. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { configSchema } from '../../src/config/schema.ts';
import { openJournalLog } from '../../src/counter/disk/journal-log.ts';
import { CounterWorker, type CounterWorkerOptions } from '../../src/counter/worker.ts';
import { KafkaPartitionGroup } from '../../src/log/kafka/group.ts';
import type { KafkaConnection } from '../../src/log/kafka/options.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { waitFor } from '../support.ts';
import { FIRST_PARTITION, openReader } from './topic.ts';

export interface WorkerPlan {
  readonly connection: KafkaConnection;
  readonly topic: string;
  readonly groupId: string;
  /** Where its journals are. */
  readonly dir: string;
  readonly warehouse: CounterWorkerOptions['warehouse'];
}

/** Takes rows at once and forgets them. */
export const SINK: CounterWorkerOptions['warehouse'] = {
  upsertLiveBatches: async () => {},
  maxLiveVersion: async () => 0,
};

export interface RunningWorker {
  readonly worker: CounterWorker;
  close(): Promise<void>;
}

export function startWorker(plan: WorkerPlan): RunningWorker {
  const { connection, topic, groupId, dir, warehouse } = plan;
  const config = configSchema.parse({});
  const reader = openReader(connection, topic);
  const group = new KafkaPartitionGroup({
    ...{ connection, groupId, topic, firstPartition: FIRST_PARTITION, instanceId: null },
  });
  const dirOf = (partition: number): string => join(dir, `p${partition}`);
  const worker = new CounterWorker({
    ...{ group, reader, warehouse, clock: systemClock, counting: config.counting },
    ...config.counter,
    deadLetters: { put: async () => {} },
    openJournal: (partition) => openJournalLog(dirOf(partition), systemClock),
    dropJournal: (partition) => rmSync(dirOf(partition), { recursive: true, force: true }),
    holder: 'bench',
    rebuildId: () => 0,
    acceptedGaps: () => new Map(),
    onGap: async () => {},
    onError: (error, what) => console.error(`${what}: ${error.message}`),
  });
  worker.start();
  return {
    worker,
    async close() {
      await worker.close();
      await reader.close();
    },
  };
}

/** Until nothing that the log took before this time is missing in the live rows. */
export async function countedUntil(worker: CounterWorker, timeMs: number): Promise<void> {
  await waitFor('the worker’s numbers', async () => worker.asOfMs >= timeMs, {
    ...{ withinMs: 600_000, everyMs: 250 },
  });
}

/**
 * Commits an owner's beginning at the end of the log as it is now: whoever comes next catches up, as
 * after an outage, and does not begin from nothing.
 */
export async function beginHere(plan: Omit<WorkerPlan, 'warehouse' | 'dir'>, dir: string) {
  const running = startWorker({ ...plan, dir, warehouse: SINK });
  await countedUntil(running.worker, systemClock());
  await running.close();
  rmSync(dir, { recursive: true, force: true });
}
