// Proves INV-1 of SPEC.md.
/** `kill -9` of a process that writes: what it had acknowledged is there when the log opens again (D1). */
import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { openWriter, Tail, tryAppend } from '../support/log-tools.ts';
import { tempDir } from '../support/temp-dir.ts';

const ROUNDS = 10;
const CHILD = join(import.meta.dir, '../support/log-writing-child.ts');
const seed = Number(process.env.FC_SEED ?? Date.now() % 1_000_000);

/** A small random sequence from the seed (mulberry32). */
function random(from: number): () => number {
  let state = from;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Lets a child write, kills it once it has acknowledged `count` records, and returns those it printed. */
async function writeAndKill(logDir: string, round: number, count: number): Promise<string[]> {
  const child = Bun.spawn([process.execPath, CHILD, logDir, String(round)], {
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const decoder = new TextDecoder();
  let printed = '';
  let lines = 0;
  for await (const chunk of child.stdout) {
    const text = decoder.decode(chunk, { stream: true });
    printed += text;
    lines += text.split('\n').length - 1;
    if (lines >= count) child.kill('SIGKILL');
  }
  await child.exited;
  expect(child.signalCode).toBe('SIGKILL');
  return printed.split('\n').slice(0, -1);
}

test(`every record that ${ROUNDS} killed writers acknowledged is read once and in order (FC_SEED=${seed})`, async () => {
  const next = random(seed);
  const dir = tempDir('log-kill');
  const tail = new Tail(dir.path);
  const acknowledged: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    acknowledged.push(...(await writeAndKill(dir.path, round, 1 + Math.floor(next() * 3_000))));
    // Reads between the rounds, before the next writer has repaired anything.
    await tail.read();
  }
  const writer = openWriter(dir.path);
  expect(await tryAppend(writer, 'end')).toBe(true);
  const fresh = await new Tail(dir.path).read();
  expect(await tail.read()).toEqual(fresh);
  const texts = fresh.map((text) => text.replace(/\.+$/, ''));
  expect(texts.at(-1)).toBe('end');
  const read = new Set(texts);
  expect(read.size).toBe(texts.length);
  expect(acknowledged.filter((text) => !read.has(text))).toEqual([]);
  const inOrder = [...texts.slice(0, -1)].sort((a, b) => order(a) - order(b));
  expect(texts.slice(0, -1)).toEqual(inOrder);
  await writer.close();
  dir.remove();
}, 120_000);

function order(text: string): number {
  const [round, index] = text.split('-').map(Number);
  return round! * 1e9 + index!;
}
