/** What members of a group tell each other. */
import { expect, test } from 'bun:test';
import {
  decodeClaims,
  decodeShare,
  encodeShare,
  encodeSubscription,
} from '../../src/log/kafka/group-bytes.ts';

const claims = {
  version: 1 as const,
  ...{ generation: 7, partitions: [0, 5, 31], topicPartitions: 32, topicId: 'a-b' },
};

test('claims come back as they were told', () => {
  expect(decodeClaims(encodeSubscription('clicks', claims))).toEqual(claims);
});

test('what cannot be read as claims claims nothing', () => {
  const whole = encodeSubscription('clicks', claims);
  for (let end = 0; end < whole.length; end++) {
    expect(decodeClaims(whole.subarray(0, end))).toBeNull();
  }
  const later = encodeSubscription('clicks', { ...claims, version: 2 } as never);
  expect(decodeClaims(later)).toBeNull();
});

test('a share is in the bytes that Kafka’s own consumers use, and comes back', () => {
  const bytes = encodeShare('ab', [1, 258]);
  expect(bytes.toString('hex')).toBe(
    ['0000', '00000001', '00026162', '00000002', '00000001', '00000102', '00000000'].join(''),
  );
  expect(decodeShare('ab', bytes)).toEqual([1, 258]);
  expect(decodeShare('another', bytes)).toEqual([]);
  expect(decodeShare('ab', Buffer.alloc(0))).toEqual([]);
});
