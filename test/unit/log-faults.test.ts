// Proves INV-1 of SPEC.md.
/** The writer on a disk that fails: nothing false is acknowledged, nothing acknowledged is lost. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import fs from 'node:fs';
import { join } from 'node:path';
import type { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { FaultyFiles } from '../support/faulty-files.ts';
import { openWriter, Tail, tryAppend, until } from '../support/log-tools.ts';
import { tempDir } from '../support/temp-dir.ts';

let dir: ReturnType<typeof tempDir>;
let files: FaultyFiles;
let health: (string | null)[];
let writer: DiskLogWriter | undefined;

beforeEach(() => {
  dir = tempDir('log-faults');
  files = new FaultyFiles();
  health = [];
});
afterEach(async () => {
  files.full = false;
  files.failDirectorySyncs = false;
  files.release();
  await writer?.close();
  writer = undefined;
  dir.remove();
});

const open = (segmentBytes = 65_536): DiskLogWriter => {
  const onHealth = (error: Error | null): void => {
    health.push(error === null ? null : error.message);
  };
  writer = openWriter(dir.path, { segmentBytes, files, onHealth });
  return writer;
};
const readAll = (): Promise<string[]> => new Tail(dir.path).read();
const codeOf = (append: () => void): string | null => {
  try {
    append();
    return null;
  } catch (error) {
    return error instanceof LedgerError ? error.code : String(error);
  }
};
const appendNothing = (): void => writer!.append(Buffer.from('x'), 1, () => {});

describe('one failed write (F1)', () => {
  for (const reach of [0, 5, 40, 'all'] as const) {
    for (const before of [0, 3]) {
      for (const failTruncates of [false, true]) {
        const cut = failTruncates ? 'not cut off' : 'cut off';
        test(`with ${reach} bytes on disk behind ${before} frames, ${cut}, acknowledges and shows none of its records`, async () => {
          const opened = open();
          const tail = new Tail(dir.path);
          const acknowledged: string[] = [];
          for (let i = 0; i < before; i++) {
            if (await tryAppend(opened, `before ${i}`)) acknowledged.push(`before ${i}`);
          }
          tail.start();
          files.failTruncates = failTruncates;
          files.failNext.frame = reach;
          const failed = await Promise.all([
            tryAppend(opened, 'lost a'),
            tryAppend(opened, 'lost b'),
          ]);
          expect(failed).toEqual([false, false]);
          expect(opened.healthy).toBe(false);
          expect(codeOf(appendNothing)).toBe('log_unavailable');
          await until(() => opened.healthy, 'the writer is healthy again');
          for (let i = 0; i < 5; i++) {
            if (await tryAppend(opened, `after ${i}`)) acknowledged.push(`after ${i}`);
          }
          expect(await tail.stop()).toEqual(acknowledged);
          expect(await readAll()).toEqual(acknowledged);
          expect(acknowledged).toHaveLength(before + 5);
          await opened.close();
          files.failTruncates = false;
          const again = open();
          expect(again.recovery).toMatchObject({ nextOffset: before + 5, lostRecords: 0 });
          expect(await tryAppend(again, 'last')).toBe(true);
          expect(await tail.read()).toEqual([...acknowledged, 'last']);
        });
      }
    }
  }

  test('also fails what had been appended meanwhile, and the offsets go to later records', async () => {
    const opened = open();
    files.hold.add('frame');
    files.failNext.frame = 'all';
    const first = tryAppend(opened, 'in flight');
    await until(() => files.heldWrites === 1, 'the first frame is being written');
    const second = tryAppend(opened, 'waiting');
    files.release();
    expect(await Promise.all([first, second])).toEqual([false, false]);
    await until(() => opened.healthy, 'the writer is healthy again');
    expect(await tryAppend(opened, 'taken')).toBe(true);
    expect(await readAll()).toEqual(['taken']);
    expect(health).toEqual(['EIO: injected', null]);
  });

  test('that had reached the disk whole may come back after a crash, and a tailing reader goes on', async () => {
    const dying = open();
    const tail = new Tail(dir.path);
    files.failTruncates = true;
    expect(await tryAppend(dying, 'a')).toBe(true);
    expect(await tail.read()).toEqual(['a']);
    expect(await tryAppend(dying, 'b')).toBe(true);
    files.failNext.frame = 'all';
    expect(await tryAppend(dying, 'not acknowledged')).toBe(false);
    await until(() => dying.healthy, 'a new segment is open');
    // Now the reader knows of the new segment, which the next writer will find empty and remove.
    expect(await tail.read()).toEqual(['a', 'b']);
    files.failTruncates = false;
    const next = openWriter(dir.path);
    expect(await tryAppend(next, 'c')).toBe(true);
    expect(await tail.read()).toEqual(['a', 'b', 'not acknowledged', 'c']);
    await next.close();
  });

  test('does not cut the segment that took its place when old writes end late (F5)', async () => {
    const opened = open(8 * 1024 * 1024);
    // The first megabyte is being prepared; the first frame makes the writer prepare the second.
    files.hold.add('zeros');
    files.failNext.frame = 0;
    expect(await tryAppend(opened, 'fails')).toBe(false);
    expect(files.heldWrites).toBe(1);
    files.hold.clear();
    await until(() => opened.healthy, 'a new segment of the same name is open');
    expect(await tryAppend(opened, 'acknowledged')).toBe(true);
    // The old segment is closed once its write has ended: these frames come after that.
    files.release();
    for (let i = 0; i < 20; i++) expect(await tryAppend(opened, 'later')).toBe(true);
    expect(await readAll()).toEqual(['acknowledged', ...Array<string>(20).fill('later')]);
  });
});

describe('a full disk (F2)', () => {
  test('fails what waits, refuses at once, and takes clicks again by itself when there is space', async () => {
    const opened = open();
    expect(await tryAppend(opened, 'a')).toBe(true);
    files.full = true;
    expect(await tryAppend(opened, 'no space')).toBe(false);
    const startedMs = performance.now();
    for (let i = 0; i < 1_000; i++) expect(codeOf(appendNothing)).toBe('log_unavailable');
    expect(performance.now() - startedMs).toBeLessThan(1_000);
    // Several attempts to open a new segment fail before there is space.
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(opened.healthy).toBe(false);
    files.full = false;
    await until(() => opened.healthy, 'the writer is healthy again');
    expect(await tryAppend(opened, 'b')).toBe(true);
    expect(await readAll()).toEqual(['a', 'b']);
    expect(health).toEqual(['ENOSPC: injected', null]);
  });

  test('that lets files be made but not filled stays unavailable until space can be prepared', async () => {
    const opened = open();
    expect(await tryAppend(opened, 'a')).toBe(true);
    files.failNext.frame = 0;
    files.failNext.zeros = 100;
    expect(await tryAppend(opened, 'fails')).toBe(false);
    await until(() => files.failNext.zeros === undefined, 'preparing space has failed');
    await until(() => opened.healthy, 'the writer is healthy again');
    expect(health.at(-1)).toBeNull();
    expect(health.length).toBeGreaterThan(2);
    expect(await tryAppend(opened, 'b')).toBe(true);
    expect(await readAll()).toEqual(['a', 'b']);
  });

  test('noticed while space is prepared ahead costs no click that still fits (F3)', async () => {
    files.failNext.zeros = 100;
    const opened = open();
    await until(() => files.failNext.zeros === undefined, 'preparing space has failed');
    for (let i = 0; i < 5; i++) expect(await tryAppend(opened, `r${i}`)).toBe(true);
    expect(opened.healthy).toBe(true);
    expect(await readAll()).toEqual(['r0', 'r1', 'r2', 'r3', 'r4']);
  });

  test('at the moment of rolling to a new segment loses nothing that was acknowledged', async () => {
    const opened = open(100);
    expect(await tryAppend(opened, 'a')).toBe(true);
    files.hold.add('frame');
    const last = tryAppend(opened, 'x'.repeat(200));
    await until(() => files.heldWrites === 1, 'the frame that fills the segment is being written');
    const waiting = tryAppend(opened, 'waits for the new segment');
    // The frame itself goes through; the folder of the next segment cannot be synced.
    files.failDirectorySyncs = true;
    files.release();
    expect(await last).toBe(true);
    expect(await waiting).toBe(false);
    files.failDirectorySyncs = false;
    await until(() => opened.healthy, 'the writer is healthy again');
    expect(await tryAppend(opened, 'b')).toBe(true);
    expect(await readAll()).toEqual(['a', 'x'.repeat(200), 'b']);
  });

  test('or a failing folder does not use up file descriptors, however long it lasts (F4)', async () => {
    const descriptors = (): number => fs.readdirSync('/proc/self/fd').length;
    const opened = open();
    files.failDirectorySyncs = true;
    files.failNext.frame = 0;
    expect(await tryAppend(opened, 'fails')).toBe(false);
    const before = descriptors();
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect(descriptors()).toBeLessThanOrEqual(before + 1);
  });
});

describe('closing', () => {
  test('writes out frames that are pending, and refuses what comes after', async () => {
    const opened = open();
    files.hold.add('frame');
    const first = tryAppend(opened, 'in flight');
    await until(() => files.heldWrites === 1, 'the first frame is being written');
    const second = tryAppend(opened, 'waiting');
    const closing = opened.close();
    expect(codeOf(appendNothing)).toBe('log_unavailable');
    files.release();
    await closing;
    expect(await Promise.all([first, second])).toEqual([true, true]);
    expect(await readAll()).toEqual(['in flight', 'waiting']);
  });

  test('while the disk is failing does not hang, and leaves nothing waiting', async () => {
    const opened = open();
    files.full = true;
    const waiting = tryAppend(opened, 'fails');
    await opened.close();
    expect(await waiting).toBe(false);
    const before = fs.readdirSync(join(dir.path, 'p0'));
    files.full = false;
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(fs.readdirSync(join(dir.path, 'p0'))).toEqual(before);
  });

  test('in the time between a failure and the next attempt does not hang', async () => {
    const opened = open();
    files.failNext.frame = 0;
    expect(await tryAppend(opened, 'fails')).toBe(false);
    await opened.close();
    expect(opened.healthy).toBe(false);
    const again = open();
    expect(await tryAppend(again, 'goes on')).toBe(true);
    expect(await readAll()).toEqual(['goes on']);
  });

  test('from within the acknowledgement that fills a segment opens no other segment', async () => {
    const opened = open(100);
    const closed = new Promise<void>((resolve) => {
      const bytes = Buffer.alloc(200, 'x');
      opened.append(bytes, bytes.length, () => resolve(opened.close()));
    });
    await closed;
    expect(
      fs.readdirSync(join(dir.path, 'p0')).filter((name) => name.endsWith('.log')),
    ).toHaveLength(1);
    expect(await readAll()).toEqual(['x'.repeat(200)]);
  });
});

describe('a full queue (D4)', () => {
  test('refuses with log_full_queue, keeps everything it took, and takes more when it has drained', async () => {
    const opened = open(64 * 1024 * 1024);
    files.hold.add('frame');
    const outcomes: boolean[] = [];
    const record = Buffer.alloc(100_000, 'q');
    const append = (): void =>
      opened.append(record, record.length, (error) => outcomes.push(error === null));
    append();
    await until(() => files.heldWrites === 1, 'the first frame is being written');
    let taken = 1;
    let refused: string | null = null;
    while (refused === null) {
      refused = codeOf(append);
      if (refused === null) taken++;
    }
    expect(refused).toBe('log_full_queue');
    expect(opened.healthy).toBe(true);
    files.release();
    await until(() => outcomes.length === taken, 'everything that was taken is written');
    expect(outcomes.every(Boolean)).toBe(true);
    expect(await tryAppend(opened, 'more')).toBe(true);
    const texts = await readAll();
    expect(texts).toHaveLength(taken + 1);
    expect(texts.slice(0, -1).every((text) => text.length === 100_000)).toBe(true);
  });
});
