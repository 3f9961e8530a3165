// Proves INV-1 of SPEC.md.
/**
 * What a writer does with a tail that is not what was written (D5), and with damage before it.
 *
 * The log here has three frames of three records. Every byte of the last frame is cut, zeroed and
 * flipped; every byte of the middle one is flipped.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import fs from 'node:fs';
import { join } from 'node:path';
import { readFrameHeader, segmentName } from '../../src/log/disk/format.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { FaultyFiles } from '../support/faulty-files.ts';
import { openWriter, Tail, tryAppend } from '../support/log-tools.ts';
import { tempDir } from '../support/temp-dir.ts';

const OPTIONS = { segmentBytes: 4_096 };
const FRAMES = [0, 1, 2].map((frame) => [0, 1, 2].map((i) => `frame ${frame} record ${i}`));
const KEPT = FRAMES.slice(0, 2).flat();

let original: { segment: Buffer; page: Buffer };
/** Where each frame begins, and the end of the last. */
const starts: number[] = [];
let dir: ReturnType<typeof tempDir>;
const segmentPath = (): string => join(dir.path, 'p0', segmentName(0));

beforeAll(async () => {
  const source = tempDir('log-source');
  const writer = openWriter(source.path, OPTIONS);
  for (const frame of FRAMES) await Promise.all(frame.map((text) => tryAppend(writer, text)));
  await writer.close();
  const read = (name: string): Buffer => fs.readFileSync(join(source.path, 'p0', name));
  original = { segment: read(segmentName(0)), page: read('durable') };
  source.remove();
  let at = 0;
  while (at < original.segment.length) {
    starts.push(at);
    const header = readFrameHeader(original.segment, at);
    if (header === null || header === 'partial') throw new Error('the source log is not whole');
    at += header.sizeBytes;
  }
  starts.push(at);
  expect(starts).toHaveLength(4);
});
beforeEach(() => {
  dir = tempDir('log-tail');
});
afterEach(() => dir.remove());
afterAll(() => Bun.gc(true));

/** The partition with another segment, and with or without the page that knows the durable end. */
function put(segment: Buffer, withPage = true): void {
  fs.rmSync(join(dir.path, 'p0'), { recursive: true, force: true });
  fs.mkdirSync(join(dir.path, 'p0'), { recursive: true });
  fs.writeFileSync(segmentPath(), segment);
  if (withPage) fs.writeFileSync(join(dir.path, 'p0', 'durable'), original.page);
}

const flipped = (at: number, mask: number): Buffer => {
  const segment = Buffer.from(original.segment);
  segment[at]! ^= mask;
  return segment;
};

function lengthWithoutZeros(bytes: Buffer): number {
  let length = bytes.length;
  while (length > 0 && bytes[length - 1] === 0) length--;
  return length;
}

/** Opens a writer on a log whose last frame is bad, and checks everything that must hold. */
async function expectCut(segment: Buffer, withPage: boolean): Promise<void> {
  put(segment, withPage);
  const lost = withPage ? 3 : 0;
  const torn = segment.subarray(starts[2]!);
  const tornBytes = lengthWithoutZeros(torn);
  const writer = openWriter(dir.path, OPTIONS);
  expect(writer.recovery).toMatchObject({ nextOffset: 6, tornBytes, lostRecords: lost });
  const { tornPath } = writer.recovery;
  if (tornBytes === 0) expect(tornPath).toBeNull();
  else expect(fs.readFileSync(tornPath!).equals(torn.subarray(0, tornBytes))).toBe(true);
  expect(fs.readFileSync(segmentPath()).length).toBe(starts[2]!);
  expect(await tryAppend(writer, 'goes on')).toBe(true);
  expect(await new Tail(dir.path).read()).toEqual([...KEPT, ...Array(lost).fill(''), 'goes on']);
  await writer.close();
}

describe('a torn tail is cut at the last good frame, kept aside, and the log goes on', () => {
  for (const withPage of [true, false]) {
    const page = withPage ? 'the durable end known' : 'the durable end lost';

    test(`cut off at every byte of the last frame, ${page}`, async () => {
      for (let at = starts[2]!; at < starts[3]!; at++) {
        await expectCut(original.segment.subarray(0, at), withPage);
      }
    });

    test(`zeros from every byte of the last frame on, ${page}`, async () => {
      for (let at = starts[2]!; at < starts[3]!; at++) {
        const segment = Buffer.concat([original.segment, Buffer.alloc(64)]).fill(0, at);
        await expectCut(segment, withPage);
      }
    });

    test(`every byte of the last frame flipped, ${page}`, async () => {
      for (let at = starts[2]!; at < starts[3]!; at++) {
        await expectCut(flipped(at, at % 2 === 0 ? 0xff : 1 << (at % 8)), withPage);
      }
    });
  }

  test('a whole last frame is not touched', async () => {
    put(original.segment);
    const writer = openWriter(dir.path, OPTIONS);
    expect(writer.recovery).toMatchObject({ nextOffset: 9, tornBytes: 0, lostRecords: 0 });
    await writer.close();
    expect(await new Tail(dir.path).read()).toEqual(FRAMES.flat());
  });

  test('zeros behind the last frame are space prepared ahead, not a torn tail', async () => {
    for (const length of [1, 7, 4_096, 100_000]) {
      put(Buffer.concat([original.segment, Buffer.alloc(length)]));
      const writer = openWriter(dir.path, OPTIONS);
      expect(writer.recovery).toMatchObject({ nextOffset: 9, tornBytes: 0, tornPath: null });
      expect(await tryAppend(writer, 'goes on')).toBe(true);
      expect(await new Tail(dir.path).read()).toEqual([...FRAMES.flat(), 'goes on']);
      await writer.close();
    }
  });

  for (const [label, newest] of [
    ['without a byte', Buffer.alloc(0)],
    ['of zeros', Buffer.alloc(4_096)],
    ['with a torn first frame', Buffer.from('torn')],
  ] as const) {
    test(`a newest segment ${label} is removed and the one before it is the last`, async () => {
      put(original.segment);
      fs.writeFileSync(join(dir.path, 'p0', segmentName(9)), newest);
      const writer = openWriter(dir.path, OPTIONS);
      const tornBytes = lengthWithoutZeros(newest);
      expect(writer.recovery).toMatchObject({ nextOffset: 9, lostRecords: 0, tornBytes });
      expect(await tryAppend(writer, 'goes on')).toBe(true);
      expect(await new Tail(dir.path).read()).toEqual([...FRAMES.flat(), 'goes on']);
      await writer.close();
    });
  }

  test('a lone empty segment still tells where offsets go on', async () => {
    fs.mkdirSync(join(dir.path, 'p0'));
    fs.writeFileSync(join(dir.path, 'p0', segmentName(1_234)), '');
    const writer = openWriter(dir.path, OPTIONS);
    expect(writer.recovery.nextOffset).toBe(1_234);
    await writer.close();
  });
});

describe('acknowledged records that the disk lost (R2)', () => {
  test('are read as empty records by a reader that had read them before', async () => {
    put(original.segment);
    const tail = new Tail(dir.path);
    expect(await tail.read()).toEqual(FRAMES.flat());
    fs.writeFileSync(segmentPath(), flipped(starts[3]! - 1, 1));
    const writer = openWriter(dir.path, OPTIONS);
    expect(await tryAppend(writer, 'goes on')).toBe(true);
    // Offsets 6 to 8 stay those of the lost records; the reader goes on behind them.
    expect(await tail.read()).toEqual([...FRAMES.flat(), 'goes on']);
    await writer.close();
  });

  test('keep their offsets when the writer dies before the empty records are written', async () => {
    put(flipped(starts[3]! - 1, 1));
    const files = new FaultyFiles();
    files.hold.add('frame');
    const dying = openWriter(dir.path, { ...OPTIONS, files });
    expect(dying.recovery.lostRecords).toBe(3);
    // `dying` never gets to write; the next writer must find the promise.
    const next = openWriter(dir.path, OPTIONS);
    expect(next.recovery.lostRecords).toBe(3);
    expect(await tryAppend(next, 'goes on')).toBe(true);
    expect(await new Tail(dir.path).read()).toEqual([...KEPT, '', '', '', 'goes on']);
    await next.close();
  });

  test('keep their offsets when writing the empty records fails', async () => {
    put(flipped(starts[3]! - 1, 1));
    const files = new FaultyFiles();
    files.failNext.frame = 0;
    let recovered = (): void => {};
    const healthy = new Promise<void>((resolve) => {
      recovered = resolve;
    });
    const onHealth = (error: Error | null): void => {
      if (error === null) recovered();
    };
    const writer = openWriter(dir.path, { ...OPTIONS, files, onHealth });
    await healthy;
    expect(await tryAppend(writer, 'goes on')).toBe(true);
    expect(await new Tail(dir.path).read()).toEqual([...KEPT, '', '', '', 'goes on']);
    await writer.close();
  });
});

describe('damage before the tail is refused, naming file and byte', () => {
  const damage = async (attempt: () => unknown): Promise<LedgerError> => {
    try {
      await attempt();
    } catch (error) {
      if (error instanceof LedgerError) return error;
      throw error;
    }
    throw new Error('the damage was not noticed');
  };

  test('by the writer and by the reader, for every byte of a frame in the middle', async () => {
    for (let at = starts[1]!; at < starts[2]!; at++) {
      const segment = flipped(at, at % 2 === 0 ? 0xff : 1 << (at % 8));
      put(segment);
      for (const attempt of [
        () => openWriter(dir.path, OPTIONS),
        () => new Tail(dir.path).read(),
      ]) {
        const error = await damage(attempt);
        expect(error.code).toBe('log_damaged');
        expect(error.message).toContain(`${segmentPath()} is damaged at byte ${starts[1]}`);
      }
      expect(fs.readFileSync(segmentPath()).equals(segment)).toBe(true);
    }
  });

  test('by the writer, with the byte from which it is good again', async () => {
    put(flipped(starts[0]! + 30, 1));
    const error = await damage(() => openWriter(dir.path, OPTIONS));
    expect(error.message).toContain(`damaged at byte 0, good again at byte ${starts[1]}`);
  });

  test('by the reader in an older segment, which the writer does not scan again', async () => {
    put(original.segment);
    const writer = openWriter(dir.path, OPTIONS);
    expect(await tryAppend(writer, 'next segment')).toBe(true);
    await writer.close();
    fs.writeFileSync(segmentPath(), flipped(starts[3]! - 1, 1));
    const tail = new Tail(dir.path);
    const error = await damage(() => tail.read());
    expect(error.code).toBe('log_damaged');
    expect(error.message).toContain(`${segmentPath()} is damaged at byte ${starts[2]}`);
  });

  test('by the reader when a frame claims to be gigabytes long, without asking for the memory', async () => {
    const segment = Buffer.from(original.segment);
    segment.writeUInt32LE(0xffff_fff0, starts[1]!);
    put(segment);
    expect((await damage(() => new Tail(dir.path).read())).code).toBe('log_damaged');
  });
});
