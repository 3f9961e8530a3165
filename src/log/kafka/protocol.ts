/**
 * The three requests of the click log, over a connection of the client: produce, fetch, offsets.
 *
 * Produce and fetch carry whole record batches as bytes, which the client's own calls do not. The
 * versions are those that brokers from Kafka 3.1 to 4.x speak. Fetch names the topic by its id: one that
 * was made anew under the same name is another topic.
 */
import {
  type Connection,
  listOffsetsV7,
  produceV9,
  type Reader,
  Writer,
} from '@platformatic/kafka';

export const ERROR = {
  none: 0,
  offsetOutOfRange: 1,
  unknownTopic: 3,
  messageTooLarge: 10,
  recordListTooLarge: 18,
} as const;

const PRODUCE = 0;
const PRODUCE_VERSION = 9;
const FETCH = 1;
const FETCH_VERSION = 13;
const ALL_IN_SYNC = -1;
const CONSUMER = -1;
const EARLIEST = -2n;
const LATEST = -1n;

export interface PartitionBatch {
  readonly partition: number;
  readonly batch: Buffer;
}

/** Error code by partition; one that the answer does not name was not answered. */
export type ProduceAnswer = ReadonlyMap<number, number>;

export function produce(
  connection: Connection,
  request: { topic: string; timeoutMs: number; batches: readonly PartitionBatch[] },
): Promise<ProduceAnswer> {
  const body = (): Writer => {
    const writer = Writer.create()
      .appendString(null)
      .appendInt16(ALL_IN_SYNC)
      .appendInt32(request.timeoutMs);
    return writer
      .appendArray([request.topic], (out, topic) => {
        out.appendString(topic).appendArray([...request.batches], (each, { partition, batch }) => {
          each
            .appendInt32(partition)
            .appendUnsignedVarInt(batch.length + 1)
            .append(batch);
        });
      })
      .appendTaggedFields();
  };
  const parse = (
    correlationId: number,
    apiKey: number,
    apiVersion: number,
    reader: Reader,
  ): ProduceV9Answer =>
    withItsErrors(() => produceV9.parseResponse(correlationId, apiKey, apiVersion, reader));
  return send(connection, { api: PRODUCE, version: PRODUCE_VERSION, body, parse }).then(
    (answer) =>
      new Map(
        answer.responses.flatMap((topic) =>
          topic.partitionResponses.map((each) => [each.index, each.errorCode] as const),
        ),
      ),
  );
}

type ProduceV9Answer = ReturnType<typeof produceV9.parseResponse>;

/** A partition, and the election that we know of: a broker that has missed it answers with an error. */
export interface Place {
  readonly partition: number;
  readonly leaderEpoch: number;
}

export interface FetchAnswer {
  readonly errorCode: number;
  /** Offset after the newest record that all replicas in sync have. */
  readonly endOffset: number;
  readonly firstOffset: number;
  /** Record batches; the last may be cut. */
  readonly records: Buffer;
}

export function fetchRecords(
  connection: Connection,
  request: Place & { topicId: string; fromOffset: number; maxBytes: number },
): Promise<FetchAnswer> {
  const { topicId, partition, leaderEpoch, fromOffset, maxBytes } = request;
  const body = (): Writer =>
    Writer.create()
      .appendInt32(CONSUMER)
      .appendInt32(0) // Waits for nothing: who tails asks again.
      .appendInt32(0)
      .appendInt32(maxBytes)
      .appendInt8(0)
      .appendInt32(0) // No fetch session.
      .appendInt32(-1)
      .appendArray([topicId], (out, id) => {
        out.appendUUID(id).appendArray([partition], (each, index) => {
          each
            .appendInt32(index)
            .appendInt32(leaderEpoch)
            .appendInt64(BigInt(fromOffset))
            .appendInt32(-1)
            .appendInt64(-1n)
            .appendInt32(maxBytes);
        });
      })
      .appendArray([], () => {})
      .appendString('')
      .appendTaggedFields();
  return send(connection, { api: FETCH, version: FETCH_VERSION, body, parse: parseFetch });
}

function parseFetch(_id: number, _api: number, _version: number, reader: Reader): FetchAnswer {
  reader.readInt32();
  const errorCode = reader.readInt16();
  reader.readInt32();
  const topics = reader.readArray((topic) => {
    topic.readUUID();
    return topic.readArray(readPartition);
  });
  const answer = topics[0]?.[0];
  if (answer !== undefined) return answer;
  return { errorCode, endOffset: -1, firstOffset: -1, records: Buffer.alloc(0) };
}

function readPartition(reader: Reader): FetchAnswer {
  reader.readInt32();
  const errorCode = reader.readInt16();
  const endOffset = Number(reader.readInt64());
  reader.readInt64();
  const firstOffset = Number(reader.readInt64());
  reader.readNullableArray((each) => {
    each.readInt64();
    each.readInt64();
  });
  reader.readInt32();
  // Copied: the connection may use its buffer again.
  const records = Buffer.from(reader.readNullableBytes() ?? []);
  return { errorCode, endOffset, firstOffset, records };
}

export interface OffsetAnswer {
  readonly errorCode: number;
  readonly offset: number;
}

/** The first that the partition still holds, the one after its newest, or the first appended at a time or later. */
export type WhichOffset = 'first' | 'end' | { readonly timeMs: number };

/** -1 when nothing was appended at that time or later. */
export async function offsetOf(
  connection: Connection,
  request: Place & { topic: string; which: WhichOffset },
): Promise<OffsetAnswer> {
  const partition = {
    partitionIndex: request.partition,
    currentLeaderEpoch: request.leaderEpoch,
    timestamp: timestampOf(request.which),
  };
  const topics = [{ name: request.topic, partitions: [partition] }];
  const answer = await listOffsetsV7.api
    .async(connection, CONSUMER, 0, topics)
    .catch((error: Error) => answerOf<Awaited<ReturnType<typeof listOffsetsV7.api.async>>>(error));
  const found = answer.topics[0]?.partitions[0];
  return { errorCode: found?.errorCode ?? -1, offset: Number(found?.offset ?? -1n) };
}

function timestampOf(which: WhichOffset): bigint {
  if (which === 'first') return EARLIEST;
  if (which === 'end') return LATEST;
  // Below 0 it would mean something else.
  return BigInt(Math.max(0, Math.ceil(which.timeMs)));
}

function send<T>(
  connection: Connection,
  call: {
    api: number;
    version: number;
    body: () => Writer;
    parse: (correlationId: number, apiKey: number, apiVersion: number, reader: Reader) => T;
  },
): Promise<T> {
  return new Promise((resolve, reject) => {
    connection.send(call.api, call.version, call.body, call.parse, true, true, (error, answer) => {
      if (error !== null) reject(error);
      else resolve(answer as T);
    });
  });
}

/** The client throws when any part of an answer is an error; here each part is looked at. */
function withItsErrors<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    return answerOf<T>(error as Error);
  }
}

/** What the client throws for an answer that has an error in any part. */
export function answerOf<T>(error: Error & { response?: unknown }): T {
  if (error.response === undefined) throw error;
  return error.response as T;
}
