// Proves INV-1 of SPEC.md.
/** What every click log must do, whatever stores it. A new adapter passes this suite unchanged. */
import { afterEach, describe, expect, test } from 'bun:test';
import type { ClickLogReader, ClickLogWriter, RecordBatch } from '../../src/log/port.ts';

export interface LogUnderTest {
  openWriter(partition: number): Promise<ClickLogWriter>;
  openReader(): Promise<ClickLogReader>;
  cleanUp(): Promise<void>;
  /** Partitions that exist before anything is written; by default one comes to be with its writer. */
  readonly partitionsFromStart?: readonly number[];
}

export const payloads = (batches: readonly RecordBatch[]): string[] =>
  batches.flatMap((batch) =>
    Array.from({ length: batch.count }, (_, i) =>
      batch.bytes.toString('utf8', batch.bounds[2 * i]!, batch.bounds[2 * i + 1]!),
    ),
  );

export const append = (writer: ClickLogWriter, text: string): Promise<void> =>
  appendBytes(writer, Buffer.from(text));

export const appendBytes = (writer: ClickLogWriter, bytes: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    writer.append(bytes, bytes.length, (error) => (error ? reject(error) : resolve()));
  });

/** Reads everything from `from` to the end as the counter does: batch after batch. */
export async function readAll(
  reader: ClickLogReader,
  partition: number,
  from = 0,
): Promise<string[]> {
  const out: string[] = [];
  let next = from;
  for (;;) {
    const batches = await reader.read(partition, next, 4096);
    if (batches.length === 0) return out;
    const skip = next - batches[0]!.firstOffset;
    out.push(...payloads(batches).slice(skip));
    const last = batches.at(-1)!;
    next = last.firstOffset + last.count;
  }
}

export function clickLogSuite(name: string, create: () => Promise<LogUnderTest>): void {
  describe(`click log: ${name}`, () => {
    let log: LogUnderTest | undefined;
    afterEach(async () => log?.cleanUp());

    test('what was acknowledged is read back in order with offsets without holes', async () => {
      log = await create();
      const writer = await log.openWriter(0);
      const texts = Array.from({ length: 500 }, (_, i) => `record ${i} ${'x'.repeat(i % 90)}`);
      await Promise.all(texts.map((text) => append(writer, text)));
      const reader = await log.openReader();
      expect(await readAll(reader, 0)).toEqual(texts);
      expect(await reader.range(0)).toEqual({ partition: 0, firstOffset: 0, endOffset: 500 });
      await writer.close();
    });

    test('a read may begin at any offset', async () => {
      log = await create();
      const writer = await log.openWriter(3);
      for (let i = 0; i < 20; i++) await append(writer, `r${i}`);
      const reader = await log.openReader();
      for (const from of [0, 1, 7, 19]) {
        const texts = await readAll(reader, 3, from);
        expect(texts[0]).toBe(`r${from}`);
        expect(texts).toHaveLength(20 - from);
      }
      expect(await reader.read(3, 20, 4096)).toEqual([]);
      await writer.close();
    });

    test('a reader that is at the end sees what is appended later', async () => {
      log = await create();
      const writer = await log.openWriter(0);
      await append(writer, 'first');
      const reader = await log.openReader();
      expect(await readAll(reader, 0)).toEqual(['first']);
      await append(writer, 'second');
      expect(await readAll(reader, 0, 1)).toEqual(['second']);
      await writer.close();
    });

    test('a writer that is opened again goes on behind the last record', async () => {
      log = await create();
      const before = await log.openWriter(0);
      await append(before, 'a');
      await before.close();
      const after = await log.openWriter(0);
      await append(after, 'b');
      const reader = await log.openReader();
      expect(await readAll(reader, 0)).toEqual(['a', 'b']);
      await after.close();
    });

    test('partitions are independent and listed in order', async () => {
      log = await create();
      const writers = await Promise.all([log.openWriter(2), log.openWriter(0)]);
      await append(writers[0], 'two');
      await append(writers[1], 'zero');
      const reader = await log.openReader();
      expect(await reader.partitions()).toEqual([...(log.partitionsFromStart ?? [0, 2])]);
      expect(await readAll(reader, 2)).toEqual(['two']);
      for (const writer of writers) await writer.close();
    });

    test('an empty record and one of many kilobytes keep their bytes', async () => {
      log = await create();
      const writer = await log.openWriter(0);
      const large = 'é'.repeat(30_000);
      await append(writer, '');
      await append(writer, large);
      const reader = await log.openReader();
      expect(await readAll(reader, 0)).toEqual(['', large]);
      await writer.close();
    });

    test('closing writes out everything that was taken before', async () => {
      log = await create();
      const writer = await log.openWriter(0);
      let acknowledged = 0;
      for (let i = 0; i < 300; i++) {
        writer.append(Buffer.from('x'), 1, (error) => {
          if (error === null) acknowledged++;
        });
      }
      await writer.close();
      expect(acknowledged).toBe(300);
      expect(await readAll(await log.openReader(), 0)).toHaveLength(300);
    });

    test('a batch tells when the log took it', async () => {
      log = await create();
      const writer = await log.openWriter(0);
      await append(writer, 'x');
      const [batch] = await (await log.openReader()).read(0, 0, 4096);
      expect(Math.abs(Date.now() - batch!.appendedAtMs)).toBeLessThan(60_000);
      await writer.close();
    });
  });
}
