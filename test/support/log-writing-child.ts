/**
 * Writes a disk log until it is killed: `<log dir> <round>`. Prints each record's text when it is
 * acknowledged, one write per line, so that what the parent has read was acknowledged.
 */
import fs from 'node:fs';
import { openWriter } from './log-tools.ts';

const [logDir, round] = process.argv.slice(2);
const writer = openWriter(logDir!, { segmentBytes: 20_000 });
let next = 0;

function append(): void {
  const text = `${round}-${next++}`;
  // Sizes differ, so that frames end anywhere.
  const bytes = Buffer.from(text.padEnd(10 + ((next * 37) % 400), '.'));
  writer.append(bytes, bytes.length, (error) => {
    if (error === null) fs.writeSync(1, `${text}\n`);
    append();
  });
}

for (let i = 0; i < 30; i++) append();
