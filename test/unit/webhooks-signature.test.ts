/** The signature as `docs/webhooks.md` tells it: its test vector, and its examples as they stand there. */
import { afterAll, describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { signatureOf } from '../../src/webhooks/signature.ts';
import { ROOT } from '../support/source-tree.ts';
import { tempDir } from '../support/temp-dir.ts';

const page = readFileSync(join(ROOT, 'docs/webhooks.md'), 'utf8');
const row = (name: string): string =>
  new RegExp(`^\\| ${name} \\| \`(.+)\` \\|$`, 'm').exec(page)![1]!;
const example = (language: string): string =>
  new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(page)![1]!;
const SECRET = row('secret');
const BODY = row('body');
const HEADER = row('header');
const AT = Number(/^t=(\d+),/.exec(HEADER)![1]);

const folder = tempDir('webhook-signature');
afterAll(folder.remove);

/** Header, body, time, and whether it is genuine. */
const CASES: readonly (readonly [string, string, number, boolean])[] = [
  [HEADER, BODY, AT, true],
  [HEADER, BODY, AT + 299, true],
  [HEADER, BODY, AT + 301, false],
  [HEADER, BODY, AT - 301, false],
  [HEADER, `${BODY} `, AT, false],
  [HEADER.replace(`t=${AT}`, `t=${AT + 1}`), BODY, AT, false],
  [HEADER.replace(/.$/, (hex) => (hex === '0' ? '1' : '0')), BODY, AT, false],
  [HEADER.slice(0, -1), BODY, AT, false],
  ['', BODY, AT, false],
  [signatureOf('whsec_other', BODY, AT), BODY, AT, false],
  [signatureOf(SECRET, 'ä€😀', AT), 'ä€😀', AT, true],
];

async function answersOf(command: string, source: string): Promise<unknown> {
  const path = join(folder.path, `cases.${command === 'node' ? 'mjs' : 'py'}`);
  writeFileSync(path, source);
  const child = Bun.spawn([command, path], { stdout: 'pipe', stderr: 'pipe' });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  expect([await child.exited, err]).toEqual([0, '']);
  return JSON.parse(out);
}

const GIVEN = JSON.stringify(JSON.stringify(CASES));
const WANTED = CASES.map(([, , , isGenuine]) => isGenuine);

describe('the signature', () => {
  test('is that of the test vector', () => {
    expect(signatureOf(SECRET, BODY, AT)).toBe(HEADER);
  });

  test('is checked by the Node example of the documentation', async () => {
    const source = `${example('js')}
const cases = JSON.parse(${GIVEN});
console.log(JSON.stringify(cases.map(([header, body, now]) => isGenuine('${SECRET}', header, body, now))));`;
    expect(await answersOf('node', source)).toEqual(WANTED);
  });

  test.skipIf(Bun.which('python3') === null)(
    'is checked by the Python example of the documentation',
    async () => {
      const source = `${example('python')}
import json
cases = json.loads(${GIVEN})
print(json.dumps([is_genuine('${SECRET}', header, body.encode(), now) for header, body, now, _ in cases]))`;
      expect(await answersOf('python3', source)).toEqual(WANTED);
    },
  );
});
