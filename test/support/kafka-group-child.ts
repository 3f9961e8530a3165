/**
 * A member of a group in a process of its own, that can be killed or stopped: `<brokers> <topic>
 * <group> <instance name>`. Prints what it is told as lines of JSON; each line that it reads is
 * `commit <partition> <offset>`, and its outcome is printed.
 */
import { KafkaPartitionGroup } from '../../src/log/kafka/group.ts';
import { FIRST } from './kafka-world.ts';

const [brokers, topic, groupId, instance] = process.argv.slice(2);
const say = (what: Record<string, unknown>): void => {
  process.stdout.write(`${JSON.stringify(what)}\n`);
};

const group = new KafkaPartitionGroup({
  connection: {
    clientId: 'child',
    brokers: brokers!.split(','),
    connectTimeoutMs: 1_000,
    requestTimeoutMs: 4_000,
  },
  ...{ groupId: groupId!, topic: topic!, firstPartition: FIRST },
  ...{ instanceId: instance === '' ? null : instance!, sessionTimeoutMs: 3_000, heartbeatMs: 200 },
  rebalanceTimeoutMs: 10_000,
  fencedRetryMs: 1_000,
});
group.join({
  pause: async () => say({ told: 'pause' }),
  assigned: async (partitions) => say({ told: 'assigned', partitions }),
  lost: () => say({ told: 'lost', waitsFor: group.status().waitsFor }),
});
for await (const line of console) {
  const [, partition, offset] = line.split(' ');
  const commit = new Map([[Number(partition), { offset: Number(offset), note: 'child' }]]);
  await group.commit(commit).then(
    () => say({ told: 'committed' }),
    (error: { code?: string }) => say({ told: 'refused', code: error.code }),
  );
}
