/** The parts of the Kafka log that need no broker: bytes, breaker, position. */
import { afterAll, describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Reader, readRecordsBatches } from '@platformatic/kafka';
import fc from 'fast-check';
import { Breaker } from '../../src/log/kafka/breaker.ts';
import { newer } from '../../src/log/kafka/cluster.ts';
import { partitionOf } from '../../src/log/kafka/partitioner.ts';
import { readPosition, writePosition } from '../../src/log/kafka/position-file.ts';
import {
  COMPRESSIONS,
  DamagedBatch,
  type DecodedBatch,
  decodeBatches,
  encodeBatch,
  type KeyedRecord,
} from '../../src/log/kafka/record-batch.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const dir = tempDir('kafka-log');
afterAll(() => dir.remove());

const valuesOf = ({ bytes, bounds, count }: DecodedBatch): Buffer[] =>
  Array.from({ length: count }, (_, i) => bytes.subarray(bounds[2 * i]!, bounds[2 * i + 1]!));
const recordOf = (bytes: Buffer, keyBytes = 0): KeyedRecord => ({
  bytes,
  keyStart: 0,
  keyEnd: Math.min(keyBytes, bytes.length),
});

describe('record batches', () => {
  const anyRecord = fc
    .tuple(fc.uint8Array({ maxLength: 300 }), fc.nat({ max: 20 }))
    .map(([bytes, keyBytes]) => recordOf(Buffer.from(bytes), keyBytes));

  test('what is encoded is decoded again, by us and by the client, with every compression', () => {
    fc.assert(
      fc.property(
        fc.array(anyRecord, { minLength: 1, maxLength: 200 }),
        fc.constantFrom(...COMPRESSIONS),
        (records, compression) => {
          const bytes = encodeBatch(records, 1_767_225_600_000, compression);
          const [ours] = decodeBatches(bytes);
          const [theirs] = readRecordsBatches(Reader.from(bytes));
          expect(valuesOf(ours!)).toEqual(records.map((record) => record.bytes));
          expect(ours).toMatchObject({ count: records.length, missing: 0 });
          expect(ours!.appendedAtMs).toBe(1_767_225_600_000);
          const values = theirs!.records.map(({ value }) => value ?? Buffer.alloc(0));
          expect(values).toEqual(records.map((record) => record.bytes));
          const keys = theirs!.records.map(({ key }) => key ?? Buffer.alloc(0));
          expect(keys).toEqual(records.map((r) => r.bytes.subarray(r.keyStart, r.keyEnd)));
        },
      ),
      fcParams(100),
    );
  });

  test('batches behind one another are all decoded, and one that is cut is left for the next fetch', () => {
    const one = encodeBatch([recordOf(Buffer.from('one'))], 1, 'none');
    const two = encodeBatch([recordOf(Buffer.from('two'))], 2, 'none');
    const both = Buffer.concat([one, two]);
    expect(decodeBatches(both)).toHaveLength(2);
    for (let cut = one.length; cut < both.length; cut++) {
      expect(decodeBatches(both.subarray(0, cut))).toHaveLength(1);
    }
  });

  test('a flipped bit anywhere behind the length never yields other records', () => {
    const records = Array.from({ length: 20 }, (_, i) => recordOf(Buffer.from(`record ${i}`)));
    for (const compression of ['none', 'lz4'] as const) {
      const good = encodeBatch(records, 1, compression);
      // Before the magic lie offset, length and epoch, which the checksum does not cover.
      for (let at = 16; at < good.length; at++) {
        const bad = Buffer.from(good);
        bad[at]! ^= 1 << (at % 8);
        expect(() => decodeBatches(bad)).toThrow(DamagedBatch);
      }
    }
  });

  test('any bytes at all are decoded, refused as damaged or waited for, and nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        try {
          decodeBatches(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(DamagedBatch);
        }
      }),
      fcParams(),
    );
  });

  test('a record without a key always comes to the same partition', () => {
    const record = recordOf(Buffer.from('no click'));
    const partition = partitionOf(record, 32);
    expect(partitionOf(recordOf(Buffer.from('no click')), 32)).toBe(partition);
    expect(partition).toBeGreaterThanOrEqual(0);
    expect(partition).toBeLessThan(32);
  });
});

describe('the breaker', () => {
  const breaker = () => new Breaker({ failures: 3, lastingMs: 200, openMs: 1_000 });
  const opened = () => {
    const one = breaker();
    for (const atMs of [-200, -100, 0]) one.failed(atMs);
    return one;
  };

  test('opens after failures in a row, not after as many with successes between', () => {
    const one = breaker();
    for (let i = 0; i < 10; i++) {
      one.failed(i);
      one.failed(i);
      one.succeeded();
    }
    expect(one.state).toBe('closed');
    expect(opened().state).toBe('open');
  });

  test('stays closed through a pause that is short, however many ran into it', () => {
    const one = breaker();
    for (let i = 0; i < 100; i++) one.failed(i);
    expect(one.state).toBe('closed');
    one.succeeded();
    one.failed(300);
    one.failed(301);
    one.failed(302);
    expect(one.state).toBe('closed');
    one.failed(500);
    expect(one.state).toBe('open');
  });

  test('lets nothing through while it is open, then one probe', () => {
    const one = opened();
    expect(one.allows(999)).toBe(false);
    expect(one.allows(1_000)).toBe(true);
    expect(one.state).toBe('half-open');
    expect(one.allows(1_001)).toBe(false);
  });

  test('closes when the probe succeeds, opens again when it fails', () => {
    const good = opened();
    good.allows(1_000);
    good.succeeded();
    expect(good.state).toBe('closed');
    const bad = opened();
    bad.allows(1_000);
    bad.failed(1_050);
    expect(bad.state).toBe('open');
    expect(bad.allows(2_049)).toBe(false);
    expect(bad.allows(2_050)).toBe(true);
  });

  test('a probe of which nothing is heard does not keep it half-open for ever', () => {
    const one = opened();
    expect(one.allows(1_000)).toBe(true);
    expect(one.allows(1_999)).toBe(false);
    expect(one.allows(2_000)).toBe(true);
  });

  test('a success that comes late, while it is open, does not close it', () => {
    const one = opened();
    one.succeeded();
    expect(one.state).toBe('open');
  });
});

describe('the position file', () => {
  test('is read as it was written last, and nothing is left beside it', () => {
    const path = join(dir.path, 'shipped-0');
    expect(readPosition(path)).toBeNull();
    for (const offset of [0, 500, 9_007_199_254]) {
      writePosition(path, offset);
      expect(readPosition(path)).toBe(offset);
    }
    expect(readdirSync(dir.path)).toEqual(['shipped-0']);
  });

  test('a file that was cut, or holds something else, is no position', () => {
    const path = join(dir.path, 'shipped-1');
    for (const text of ['', '12', 'x\n', '-1\n', '1.5\n', '1\n2\n']) {
      writeFileSync(path, text);
      expect(readPosition(path)).toBeNull();
    }
  });

  test('a death before the rename leaves the old position', () => {
    const path = join(dir.path, 'shipped-2');
    writePosition(path, 7);
    writeFileSync(`${path}.next`, '9');
    expect(readPosition(path)).toBe(7);
    writePosition(path, 8);
    expect(readPosition(path)).toBe(8);
    expect(existsSync(`${path}.next`)).toBe(false);
  });
});

describe('who leads', () => {
  const known = { topicId: 'a', leaders: [1, 2], epochs: [5, 5] };

  test('a broker that has missed an election does not bring the old leader back', () => {
    const heard = { topicId: 'a', leaders: [3, 3], epochs: [4, 6] };
    expect(newer(known, heard)).toEqual({ topicId: 'a', leaders: [1, 3], epochs: [5, 6] });
  });

  test('the elections of a topic that was made anew begin anew', () => {
    const heard = { topicId: 'b', leaders: [3, 3], epochs: [0, 0] };
    expect(newer(known, heard)).toEqual(heard);
    expect(newer(null, heard)).toEqual(heard);
  });

  test('partitions that were added are known at once', () => {
    const heard = { topicId: 'a', leaders: [1, 2, 3], epochs: [5, 5, 0] };
    expect(newer(known, heard)).toEqual(heard);
  });
});
