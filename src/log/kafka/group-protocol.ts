/**
 * The requests of a consumer group, over a connection of the client: one function each, that gives the
 * coordinator's error code back instead of throwing. The versions are those that brokers from Kafka 3.2 to 4.x speak.
 */
import {
  type Connection,
  findCoordinatorV4,
  heartbeatV4,
  joinGroupV9,
  leaveGroupV5,
  offsetCommitV8,
  offsetFetchV8,
  syncGroupV5,
} from '@platformatic/kafka';
import type { Committed } from '../group.ts';
import type { Address } from './connections.ts';
import { PROTOCOL_NAME, PROTOCOL_TYPE } from './group-bytes.ts';
import { answerOf } from './protocol.ts';

export const GROUP_ERROR = {
  none: 0,
  noteTooLong: 12,
  loading: 14,
  coordinatorNotAvailable: 15,
  notCoordinator: 16,
  illegalGeneration: 22,
  unknownMember: 25,
  sessionTimeoutInvalid: 26,
  rebalanceInProgress: 27,
  notAllowed: 30,
  memberIdRequired: 79,
  instanceFenced: 82,
} as const;

/** What every answer has. */
export interface Coded {
  readonly code: number;
}

/** Who asks. */
export interface Member {
  readonly groupId: string;
  readonly memberId: string;
  readonly instanceId: string | null;
}

export interface Seat extends Member {
  readonly generation: number;
}

const GROUP = 0;

export async function findCoordinator(
  connection: Connection,
  groupId: string,
): Promise<Coded & { address: Address }> {
  const answer = await findCoordinatorV4.api.async(connection, GROUP, [groupId]).catch(withErrors);
  const found = answer.coordinators[0];
  const address = { host: found?.host ?? '', port: found?.port ?? 0 };
  return { code: found?.errorCode ?? GROUP_ERROR.coordinatorNotAvailable, address };
}

export interface Joined extends Coded {
  readonly memberId: string;
  readonly generation: number;
  /** Whether we share out: what everybody claims is known then. */
  readonly leads: boolean;
  readonly members: readonly { id: string; instanceId: string | null; subscription: Buffer }[];
}

export async function joinGroup(
  connection: Connection,
  request: Member & {
    sessionTimeoutMs: number;
    rebalanceTimeoutMs: number;
    subscription: Buffer;
  },
): Promise<Joined> {
  const { groupId, memberId, instanceId, sessionTimeoutMs, rebalanceTimeoutMs } = request;
  const protocols = [{ name: PROTOCOL_NAME, metadata: request.subscription }];
  const answer = await joinGroupV9.api
    .async(
      ...([
        connection,
        groupId,
        sessionTimeoutMs,
        rebalanceTimeoutMs,
        memberId,
        instanceId,
      ] as const),
      ...([PROTOCOL_TYPE, protocols] as const),
    )
    .catch(withErrors);
  return {
    code: answer.errorCode,
    memberId: answer.memberId,
    generation: answer.generationId,
    leads: answer.leader === answer.memberId && !answer.skipAssignment,
    // Copied: the connection may use its buffer again.
    members: answer.members.map(({ memberId: id, groupInstanceId, metadata }) => ({
      ...{ id, instanceId: groupInstanceId ?? null, subscription: Buffer.from(metadata) },
    })),
  };
}

/** `shares` by member id: the leader's word, nobody else's. */
export async function syncGroup(
  connection: Connection,
  { groupId, memberId, instanceId, generation }: Seat,
  shares: ReadonlyMap<string, Buffer>,
): Promise<Coded & { share: Buffer }> {
  const assignments = [...shares].map(([id, assignment]) => ({ memberId: id, assignment }));
  const answer = await syncGroupV5.api
    .async(
      ...([connection, groupId, generation, memberId, instanceId] as const),
      ...([PROTOCOL_TYPE, PROTOCOL_NAME, assignments] as const),
    )
    .catch(withErrors);
  return { code: answer.errorCode, share: Buffer.from(answer.assignment) };
}

export async function heartbeat(
  connection: Connection,
  { groupId, memberId, instanceId, generation }: Seat,
): Promise<Coded> {
  const answer = await heartbeatV4.api
    .async(connection, groupId, generation, memberId, instanceId)
    .catch(withErrors);
  return { code: answer.errorCode };
}

export async function leaveGroup(
  connection: Connection,
  { groupId, memberId, instanceId }: Member,
): Promise<Coded> {
  const members = [{ memberId, groupInstanceId: instanceId, reason: 'it stops' }];
  const answer = await leaveGroupV5.api.async(connection, groupId, members).catch(withErrors);
  const code = answer.errorCode || (answer.members?.[0]?.errorCode ?? 0);
  return { code };
}

/** All partitions or none: what is wrong is the same for all of them. */
export async function commitOffsets(
  connection: Connection,
  { groupId, memberId, instanceId, generation }: Seat,
  what: { topic: string; commits: ReadonlyMap<number, Committed> },
): Promise<Coded> {
  const partitions = [...what.commits].map(([partitionIndex, { offset, note }]) => ({
    partitionIndex,
    committedOffset: BigInt(offset),
    committedLeaderEpoch: -1,
    committedMetadata: note,
  }));
  const topics = [{ name: what.topic, partitions }];
  const answer = await offsetCommitV8.api
    .async(connection, groupId, generation, memberId, instanceId, topics)
    .catch(withErrors);
  const codes = answer.topics.flatMap((topic) => topic.partitions.map((each) => each.errorCode));
  return { code: codes.find((code) => code !== GROUP_ERROR.none) ?? GROUP_ERROR.none };
}

export async function fetchOffsets(
  connection: Connection,
  request: { groupId: string; topic: string; partitions: readonly number[] },
): Promise<Coded & { committed: ReadonlyMap<number, Committed> }> {
  const topics = [{ name: request.topic, partitionIndexes: [...request.partitions] }];
  const group = { groupId: request.groupId, memberEpoch: -1, topics };
  const answer = await offsetFetchV8.api.async(connection, [group], false).catch(withErrors);
  const found = answer.groups[0];
  const committed = new Map<number, Committed>();
  let code = found?.errorCode ?? GROUP_ERROR.coordinatorNotAvailable;
  for (const each of found?.topics[0]?.partitions ?? []) {
    code ||= each.errorCode;
    if (each.committedOffset < 0n) continue;
    const note = each.metadata ?? '';
    committed.set(each.partitionIndex, { offset: Number(each.committedOffset), note });
  }
  return { code, committed };
}

/** Typed as what was asked for: the client hangs the answer on the error. */
const withErrors = (error: Error): never => answerOf(error) as never;
