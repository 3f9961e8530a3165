/** Retention removes only what nothing needs, and a reader that comes too late is told (E5). */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import fs from 'node:fs';
import { join } from 'node:path';
import { DiskLogReader } from '../../src/log/disk/reader.ts';
import { removeOldSegments } from '../../src/log/disk/retention.ts';
import { listSegments } from '../../src/log/disk/segments.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { openWriter, Tail, tryAppend } from '../support/log-tools.ts';
import { tempDir } from '../support/temp-dir.ts';

let dir: ReturnType<typeof tempDir>;
const ALWAYS = Number.MAX_SAFE_INTEGER;
const firstOffsets = (): number[] =>
  listSegments(join(dir.path, 'p0')).map((segment) => segment.firstOffset);

/** Five segments of one record each, and a newest one that is empty. */
beforeEach(async () => {
  dir = tempDir('log-retention');
  const writer = openWriter(dir.path, { segmentBytes: 100 });
  for (let i = 0; i < 5; i++) await tryAppend(writer, `${i}`.repeat(100));
  await writer.close();
  expect(firstOffsets()).toEqual([0, 1, 2, 3, 4, 5]);
});
afterEach(() => dir.remove());

const read = async (reader: DiskLogReader, from: number): Promise<string | number> => {
  try {
    return (await reader.read(0, from, 4_096)).length;
  } catch (error) {
    return error instanceof LedgerError ? error.code : String(error);
  }
};

test('a segment goes only when all its records are counted and archived', () => {
  expect(removeOldSegments(dir.path, 0, { safeOffset: 0, olderThanMs: ALWAYS })).toBe(0);
  expect(removeOldSegments(dir.path, 0, { safeOffset: 3, olderThanMs: ALWAYS })).toBe(3);
  expect(firstOffsets()).toEqual([3, 4, 5]);
});

test('a segment that holds one record more than is safe stays', async () => {
  const writer = openWriter(dir.path);
  await Promise.all(['a', 'b', 'c'].map((text) => tryAppend(writer, text)));
  await writer.close();
  await openWriter(dir.path).close();
  expect(firstOffsets()).toEqual([0, 1, 2, 3, 4, 5, 8]);
  expect(removeOldSegments(dir.path, 0, { safeOffset: 7, olderThanMs: ALWAYS })).toBe(5);
  expect(firstOffsets()).toEqual([5, 8]);
});

test('the newest segment always stays and tells a new writer where offsets go on', async () => {
  expect(removeOldSegments(dir.path, 0, { safeOffset: ALWAYS, olderThanMs: ALWAYS })).toBe(5);
  expect(firstOffsets()).toEqual([5]);
  fs.unlinkSync(join(dir.path, 'p0', 'durable'));
  const writer = openWriter(dir.path);
  expect(writer.recovery.nextOffset).toBe(5);
  await writer.close();
});

test('nothing young goes, and nothing behind it, so that the log never has a hole', () => {
  const old = new Date(1_000);
  const segments = listSegments(join(dir.path, 'p0'));
  for (const index of [0, 1, 3]) fs.utimesSync(segments[index]!.path, old, old);
  expect(removeOldSegments(dir.path, 0, { safeOffset: 5, olderThanMs: 2_000 })).toBe(2);
  expect(firstOffsets()).toEqual([2, 3, 4, 5]);
});

test('an offset that is gone is refused, by a new reader and by one that was just there', async () => {
  const tailing = new DiskLogReader(dir.path);
  expect(await read(tailing, 0)).toBe(1);
  removeOldSegments(dir.path, 0, { safeOffset: 4, olderThanMs: ALWAYS });
  expect(await read(tailing, 1)).toBe('offset_out_of_retention');
  const reader = new DiskLogReader(dir.path);
  for (const from of [0, 3]) expect(await read(reader, from)).toBe('offset_out_of_retention');
  expect(await read(reader, 4)).toBe(1);
  expect(await read(reader, 5)).toBe(0);
  expect(await reader.range(0)).toEqual({ partition: 0, firstOffset: 4, endOffset: 5 });
});

test('a reader that is ahead of what goes does not notice', async () => {
  const tail = new Tail(dir.path);
  await tail.read();
  removeOldSegments(dir.path, 0, { safeOffset: ALWAYS, olderThanMs: ALWAYS });
  const writer = openWriter(dir.path);
  await tryAppend(writer, 'next');
  expect((await tail.read()).at(-1)).toBe('next');
  await writer.close();
});

test('a read of fewer bytes than a frame’s header still reads a frame', async () => {
  expect(await new DiskLogReader(dir.path).read(0, 0, 1)).toHaveLength(1);
});
