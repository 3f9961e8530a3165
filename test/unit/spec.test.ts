/**
 * SPEC.md and the documents are right about what they name: invariants, tests, files, metrics,
 * commands, settings and links. (That every invariant is cited by some test is in `tidy.test.ts`.)
 */
import { beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { Command } from 'commander';
import { addAuditCommands } from '../../src/cli/audit-commands.ts';
import { addCatalogCommands } from '../../src/cli/catalog-commands.ts';
import { addControlCommands } from '../../src/cli/control-commands.ts';
import { addDemoCommand } from '../../src/cli/demo-command.ts';
import { addKafkaCommands } from '../../src/cli/kafka-commands.ts';
import { addLedgerCommands } from '../../src/cli/ledger-commands.ts';
import { addRunCommands } from '../../src/cli/run-commands.ts';
import { RELATIONS } from '../../src/config/relations.ts';
import { SECTIONS, settingByKey } from '../../src/config/settings.ts';
import { ROOT } from '../support/source-tree.ts';

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const isThere = (path: string): boolean => existsSync(join(ROOT, path));

function filesBelow(folder: string, ending: RegExp): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => ending.test(path) && statSync(join(ROOT, path)).isFile())
    .sort();
}

const SPEC = read('SPEC.md');
const DOCUMENTS = [
  ...['README.md', 'SPEC.md', 'ARCHITECTURE.md'].filter(isThere),
  ...filesBelow('docs', /\.md$/),
];
/** Every match of the pattern's first group in the documents, as `document: match`. */
const mentions = (pattern: RegExp): { document: string; text: string }[] =>
  DOCUMENTS.flatMap((document) =>
    [...read(document).matchAll(pattern)].map((match) => ({ document, text: match[1]! })),
  );

interface Invariant {
  readonly id: string;
  readonly enforcedBy: readonly string[];
  readonly provedBy: readonly { readonly path: string; readonly name: string }[];
}

function invariants(): Invariant[] {
  const sections = SPEC.split(/^### /m).slice(1);
  return sections.map((section) => {
    const [enforced = '', proved = ''] = section
      .split(/^## /m)[0]!
      .split('Enforced by:')[1]!
      .split('Proved by:');
    return {
      id: /^INV-\d+/.exec(section)?.[0] ?? section.split('\n')[0]!,
      enforcedBy: [...enforced.matchAll(/`(src\/[^`]+)`/g)].map((match) => match[1]!),
      provedBy: [...proved.matchAll(/`(test\/[^`]+)`: "([^"]+)"/g)].map((match) => {
        return { path: match[1]!, name: match[2]! };
      }),
    };
  });
}

const idsIn = (text: string): string[] => [...new Set(text.match(/\bINV-\d+\b/g) ?? [])].sort();
const ALL = invariants();

describe('SPEC.md', () => {
  test('numbers its invariants from INV-1 on, each with what enforces and what proves it', () => {
    expect(ALL.map(({ id }) => id)).toEqual(ALL.map((_, index) => `INV-${index + 1}`));
    expect(ALL.filter((each) => !each.enforcedBy.length || !each.provedBy.length)).toEqual([]);
  });

  test('names tests that exist under these very names', () => {
    const wrong = ALL.flatMap(({ id, provedBy }) =>
      provedBy
        .filter(({ path, name }) => !isThere(path) || !read(path).includes(name))
        .map(({ path, name }) => `${id}: ${path}: "${name}"`),
    );
    expect(wrong).toEqual([]);
  });

  test('its table, its sections and the test files say the same about who proves what', () => {
    const bySection = new Map<string, Set<string>>();
    for (const { id, provedBy } of ALL) {
      for (const { path } of provedBy) {
        bySection.set(path, (bySection.get(path) ?? new Set()).add(id));
      }
    }
    const sections = [...bySection].map(([path, ids]) => `${path} ${[...ids].sort().join(', ')}`);
    const table = [...SPEC.matchAll(/^\| `(test\/[^`]+)` \| ([^|]+) \|$/gm)].map(
      (match) => `${match[1]} ${match[2]}`,
    );
    const files = filesBelow('test', /\.ts$/)
      .filter((path) => path !== 'test/unit/spec.test.ts')
      .map((path) => ({ path, ids: idsIn(read(path)) }))
      .filter(({ ids }) => ids.length > 0)
      .map(({ path, ids }) => `${path} ${ids.join(', ')}`);
    expect(table).toEqual(sections.sort());
    expect(files).toEqual(sections);
  });

  test('has every rule between settings in its table of constraints', () => {
    const rows = SPEC.split('\n').filter((line) => /^\| C-\d+ \|/.test(line));
    const missing = RELATIONS.filter(
      ({ keys }) => !rows.some((row) => keys.every((key) => row.includes(`\`${key}\``))),
    ).map(({ rule }) => rule);
    expect(missing).toEqual([]);
  });

  test('gaps and constraints that are referred to are listed', () => {
    const listed = new Set(
      [...SPEC.matchAll(/^(?:- \*\*|\| )([GC]-\d+)\b/gm)].map((match) => match[1]!),
    );
    const unknown = mentions(/\b([GC]-\d+)\b/g).filter(({ text }) => !listed.has(text));
    expect(unknown).toEqual([]);
  });
});

describe('the documents', () => {
  test('name files of the project that exist', () => {
    const missing = mentions(/`((?:src|test|bench|bin|deploy|docs)\/[\w./-]*)`/g).filter(
      ({ text }) => !isThere(text),
    );
    expect(missing).toEqual([]);
  });

  test('link to documents and headings that exist', () => {
    const broken = mentions(/\]\(((?!https?:)[^)\s]+)\)/g).filter(({ document, text }) => {
      const [path = '', heading] = text.split('#');
      const target = path === '' ? document : relative('.', join(dirname(document), path));
      if (!isThere(target)) return true;
      return heading !== undefined && !headings(read(target)).includes(heading);
    });
    expect(broken).toEqual([]);
  });

  test('name metrics that exist', () => {
    const known = metricNames();
    expect(known.size).toBeGreaterThan(15);
    const unknown = mentions(/\b(clickledger_[a-z_]+)\b/g).filter(
      ({ text }) => !known.has(text.replace(/_(bucket|sum|count)$/, '')) && !known.has(text),
    );
    expect(unknown).toEqual([]);
  });

  test('name settings that exist', () => {
    const dotted = new RegExp(`\`((?:${SECTIONS.join('|')})\\.[a-z0-9_]+)(?: = [^\`]*)?\``, 'g');
    const endings = /\.(?:ts|md|toml|json|sqlite)$/;
    const unknown = mentions(dotted).filter(
      ({ text }) =>
        !endings.test(text) && !SECTIONS.includes(text) && settingByKey(text) === undefined,
    );
    expect(unknown).toEqual([]);
  });
});

/** Headings as the fragments that link to them. */
function headings(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map((match) =>
    match[1]!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

function metricNames(): Set<string> {
  const names = new Set<string>();
  for (const path of filesBelow('src/roles', /\.ts$/)) {
    const text = read(path);
    for (const match of text.matchAll(/'(clickledger_[a-z_]+)'/g)) names.add(match[1]!);
    for (const match of text.matchAll(/\bgauge(?:sIn\(registry\))?\(\s*'([a-z_]+)'/g)) {
      names.add(`clickledger_${match[1]}`);
    }
  }
  return names;
}

describe('commands in the documents', () => {
  let program: Command;
  beforeAll(() => {
    program = new Command('clickledger');
    for (const add of [
      addRunCommands,
      addCatalogCommands,
      addLedgerCommands,
      addAuditCommands,
      addKafkaCommands,
      addControlCommands,
      addDemoCommand,
    ]) {
      add(program);
    }
  });

  /** What is wrong with the words behind `clickledger`, or null. */
  function problemOf(words: readonly string[]): string | null {
    let command = program;
    let at = 0;
    for (; command.commands.length > 0 && at < words.length; at++) {
      const next = command.commands.find((each) => each.name() === words[at]);
      if (next === undefined) return `no command ${words.slice(0, at + 1).join(' ')}`;
      command = next;
    }
    const known = [...program.options, ...command.options].map((option) => option.long);
    const flags = words.slice(at).filter((word) => word.startsWith('--'));
    const unknown = flags.find((flag) => !known.includes(flag) && flag !== '--help');
    return unknown === undefined ? null : `no option ${unknown} of ${command.name()}`;
  }

  /** Those in code: whole lines of a block, and spans. */
  function commands(): { document: string; text: string }[] {
    const inSpans = mentions(/`clickledger ([^`\n]+)`/g);
    const inLines = mentions(/^\s*(?:\$ )?(?:npx )?clickledger ([a-z][^\n]*)$/gm);
    return [...inSpans, ...inLines];
  }

  test('exist, with their options', () => {
    expect(commands().length).toBeGreaterThan(10);
    const wrong = commands().flatMap(({ document, text }) => {
      const problem = problemOf(text.split('#')[0]!.trim().split(/\s+/));
      return problem === null ? [] : [`${document}: clickledger ${text}: ${problem}`];
    });
    expect(wrong).toEqual([]);
  });

  test('that do not exist, and options that do not, are found', () => {
    expect(problemOf(['dlq', 'list', '--limit', '5'])).toBeNull();
    expect(problemOf(['dlq', 'drop'])).toBe('no command dlq drop');
    expect(problemOf(['verify', '--fast'])).toBe('no option --fast of verify');
  });
});
