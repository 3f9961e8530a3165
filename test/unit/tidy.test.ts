/** The house rules, held by the test suite so that they cannot drift from the code. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ParsedFile, parseSource, parseTexts, ROOT } from '../support/source-tree.ts';
import {
  ambientReads,
  anyTypes,
  consoleUses,
  fileLengths,
  functionLengths,
  type Length,
  MAX_FILE_LINES,
  MAX_FUNCTION_LINES,
  tooLong,
} from '../support/tidy-rules.ts';

let source: ParsedFile[] = [];
beforeAll(async () => {
  source = await parseSource();
});

describe('the rules find what they look for', () => {
  const long = (lines: number): string => `function f() {\n${'  f();\n'.repeat(lines - 2)}}\n`;

  test('a file and a function over their limit are found, those at the limit are not', async () => {
    const files = await parseTexts({
      'src/a/long.ts': long(MAX_FUNCTION_LINES + 1),
      'src/a/short.ts': `/** Not\n counted. */\n${long(MAX_FUNCTION_LINES)}`,
    });
    expect(tooLong(functionLengths(files), MAX_FUNCTION_LINES)).toEqual([
      'src/a/long.ts:1: 71 lines, at most 70',
    ]);
    expect(tooLong(fileLengths(files), MAX_FUNCTION_LINES)).toEqual([
      'src/a/long.ts: 71 lines, at most 70',
      'src/a/short.ts: 72 lines, at most 70',
    ]);
  });

  test('any, the ambient clock, chance, environment and console are found wherever they stand', async () => {
    const files = await parseTexts({
      'src/a/bad.ts': [
        'const a = (x: any) => x as any[];',
        'Date.now(); new Date(); new Date; Date();',
        'Math.random(); process.env.A; process["env"];',
        'console.log(1);',
      ].join('\n'),
      'src/a/good.ts': [
        '// any, Date.now() and console.log in words',
        'const a = "Date.now() any"; new Date(1); Date.UTC(1, 1); clock.now();',
        'this.process.env; /any/.test(a); process.argv; Math.max(1);',
      ].join('\n'),
    });
    const lines = (problems: string[]): string[] => problems.map((each) => each.split(':')[1]!);
    expect(lines(anyTypes(files))).toEqual(['1', '1']);
    expect(lines(ambientReads(files))).toEqual(['2', '2', '2', '2', '3', '3', '3']);
    expect(lines(consoleUses(files))).toEqual(['4']);
  });
});

describe('the source', () => {
  test('files and functions keep their limits; the distribution is printed', () => {
    const files = fileLengths(source);
    const functions = functionLengths(source);
    process.stderr.write(`tidy: lines per file ${spread(files)}\n`);
    process.stderr.write(`tidy: lines per function ${spread(functions)}\n`);
    expect(files.length).toBeGreaterThan(0);
    expect(tooLong(files, MAX_FILE_LINES)).toEqual([]);
    expect(tooLong(functions, MAX_FUNCTION_LINES)).toEqual([]);
  });

  test('nothing has the type any', () => {
    expect(anyTypes(source)).toEqual([]);
  });

  test('clock, chance and environment come as parameters', () => {
    expect(ambientReads(source)).toEqual([]);
  });

  test('only commands write to the console', () => {
    expect(consoleUses(source)).toEqual([]);
  });

  test('every folder says in a README.md what it owns', () => {
    const missing = readdirSync(join(ROOT, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => `src/${entry.name}`)
      .filter((folder) => readdirSync(join(ROOT, folder)).length > 0)
      .filter((folder) => !existsSync(join(ROOT, folder, 'README.md')));
    expect(missing).toEqual([]);
  });
});

describe('the texts', () => {
  test('no text names the place it was written at, or where packages were fetched from', () => {
    const forbidden = [
      ['registry', 'npmjs'].join('.'),
      ['npmjs', 'org'].join('.'),
      // An absolute path; a folder of that name further down is nobody's business.
      /(?<![\w.~-])\/work\//,
    ];
    const found = textFiles().flatMap((path) => {
      const lines = readFileSync(join(ROOT, path), 'utf8').split('\n');
      return lines.flatMap((line, index) =>
        forbidden.some((each) => (typeof each === 'string' ? line.includes(each) : each.test(line)))
          ? [`${path}:${index + 1}: ${line.trim().slice(0, 120)}`]
          : [],
      );
    });
    expect(found).toEqual([]);
  });
});

const SPEC = join(ROOT, 'SPEC.md');
describe.skipIf(!existsSync(SPEC))('SPEC.md', () => {
  const idsIn = (text: string): Set<string> => new Set(text.match(/\bINV-\d+\b/g) ?? []);

  test('every invariant is cited by a test, and no test cites an unknown one', () => {
    const known = idsIn(readFileSync(SPEC, 'utf8'));
    const cited = new Set(
      filesBelow('test', /\.ts$/).flatMap((path) => [
        ...idsIn(readFileSync(join(ROOT, path), 'utf8')),
      ]),
    );
    expect(known.size).toBeGreaterThan(0);
    expect({
      citedByNoTest: [...known].filter((id) => !cited.has(id)),
      unknown: [...cited].filter((id) => !known.has(id)),
    }).toEqual({ citedByNoTest: [], unknown: [] });
  });
});

/** Everything a reader would open; the lock file names where each package was fetched from. */
function textFiles(): string[] {
  const top = readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(md|json|toml|ya?ml)$/.test(entry.name))
    .map((entry) => entry.name)
    .filter((name) => name !== 'package-lock.json');
  const below = ['src', 'test', 'bench', 'bin', 'deploy', 'docs'].flatMap((folder) =>
    filesBelow(folder, /\.(ts|tsx|mjs|js|css|html|md|json|sql|toml|sh|ya?ml)$/),
  );
  return [...top, ...below];
}

function filesBelow(folder: string, ending: RegExp): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => ending.test(name))
    .map((name) => join(folder, name));
}

function spread(lengths: readonly Length[]): string {
  const sorted = lengths.map(({ lines }) => lines).sort((a, b) => a - b);
  const at = (share: number): number | undefined =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return `(${sorted.length}): median ${at(0.5)}, p95 ${at(0.95)}, max ${at(1)}`;
}
