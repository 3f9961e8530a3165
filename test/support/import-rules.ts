/**
 * Who may import whom, as a table, and the checks over it.
 *
 * The most specific row of the table decides about a file. A file may import from its own row and
 * from what the row lists: a folder stands for all it holds but folders with a row of their own
 * (`src/log` does not stand for the adapter `src/log/disk`), a file for itself, and behind `type:`
 * only types may be taken. There is no list of exceptions: a new import across folders is allowed
 * here for everybody to see, or it is not made.
 */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isStringLiteral } from 'typescript/unstable/ast';
import { type Import, importsOf, type ParsedFile, walk } from './source-tree.ts';

/** Words that everybody may use. */
const COMMON = ['src/event', 'src/platform', 'src/version.ts'];
/** The shape of the configuration, never the loader: only roles and commands load. */
const SETTINGS = ['src/config/schema.ts', 'src/config/paths.ts'];

const EVERYTHING = ['src'];

export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  // Words and tools; the further up, the less it knows.
  'src/platform': [],
  'src/version.ts': ['package.json'],
  'src/event': ['src/platform'],
  'src/config': ['src/platform'],
  'src/signing': COMMON,
  'src/auth': COMMON,
  // Pure: nothing of the project, so that stream, recount and tests get the same answers.
  'src/counting': [],

  // Ports, and what is common to all their adapters.
  'src/log': COMMON,
  'src/ads': [...COMMON, 'src/control/port.ts'],
  'src/control': COMMON,
  'src/archive': [...COMMON, ...SETTINGS, 'src/log'],
  'src/warehouse': [...COMMON, ...SETTINGS],

  // Adapters: their own port's folder only.
  'src/log/disk': [...COMMON, 'src/log'],
  'src/log/kafka': [...COMMON, 'src/log'],
  'src/ads/lmdb': [...COMMON, 'src/ads'],
  'src/ads/postgres': [...COMMON, 'src/ads'],
  'src/archive/folder': [...COMMON, 'src/archive'],
  'src/archive/s3': [...COMMON, 'src/archive'],
  'src/warehouse/chdb': [...COMMON, ...SETTINGS, 'src/warehouse'],
  'src/warehouse/clickhouse': [...COMMON, 'src/warehouse'],
  'src/control/local': [...COMMON, 'src/control'],
  'src/control/postgres': [...COMMON, 'src/control'],
  'src/counter/sqlite': [...COMMON, 'src/counter'],
  'src/counter/postgres': [...COMMON, 'src/counter'],
  'src/disputes/postgres': [...COMMON, 'src/disputes'],
  'src/webhooks/postgres': [...COMMON, 'src/webhooks'],
  'src/auth/sqlite': [...COMMON, 'src/auth'],
  'src/auth/postgres': [...COMMON, 'src/auth'],
  'src/disputes/sqlite': [...COMMON, 'src/disputes'],
  // The journal is kept in a disk log of its own: an adapter made of another port's adapter.
  'src/counter/disk': [...COMMON, 'src/counter', 'src/log/disk'],

  // Services. The click path shares nothing with the ledger but the log and the catalog.
  'src/click': [
    ...COMMON,
    ...SETTINGS,
    'src/ads/port.ts',
    'src/ads/target-url.ts',
    'src/log/port.ts',
    'src/signing',
    'type:src/telemetry/port.ts',
  ],
  'src/counter': [
    ...COMMON,
    ...SETTINGS,
    'src/counting',
    'src/log/port.ts',
    'src/log/group.ts',
    'src/warehouse/port.ts',
    'type:src/telemetry/port.ts',
  ],
  // Recorded clicks: told apart by the very code that tells requests apart.
  'src/ingest': [
    ...COMMON,
    ...SETTINGS,
    'src/ads/port.ts',
    'src/click/address.ts',
    'src/click/agent.ts',
    'src/click/classify.ts',
    'src/click/countries.ts',
    'src/click/geo.ts',
    'src/click/place.ts',
    'src/log/port.ts',
    'type:src/api/admin-port.ts',
  ],
  // Verdicts are archived like clicks are: what they changed can be derived again.
  'src/verdicts': [...COMMON, 'src/archive', 'src/counting/impression-hash.ts'],
  'src/disputes': COMMON,
  'src/statements': [...COMMON, 'src/archive', 'src/warehouse'],
  'src/webhooks': [...COMMON, ...SETTINGS, 'type:src/warehouse/port.ts'],
  'src/webhooks/sqlite': [...COMMON, 'src/webhooks'],
  // Which clicks are traced is told by the hash that counting makes anyway.
  'src/telemetry': [...COMMON, ...SETTINGS, 'src/counting/impression-hash.ts'],
  'src/telemetry/otlp': [...COMMON, 'src/telemetry'],
  // Reads the archive, never the log or the counter: two ways to the same number.
  'src/reconcile': [
    ...COMMON,
    ...SETTINGS,
    'src/archive',
    'src/control/port.ts',
    'src/counting',
    'src/verdicts',
    'src/warehouse/port.ts',
  ],
  // Answers out of the warehouse. What else the ledger does reaches it through its own admin port.
  'src/api': [
    ...COMMON,
    ...SETTINGS,
    'src/auth',
    'src/config/suggest.ts',
    'src/console',
    'src/warehouse',
    'type:src/ads/port.ts',
    'type:src/disputes',
    'type:src/reconcile',
    'type:src/statements',
    'type:src/verdicts',
    'src/webhooks/port.ts',
    'type:src/webhooks',
  ],
  // Browser code: what it knows of the API are the types.
  'src/console': [...COMMON, 'type:src/api'],

  // A made-up day of clicks; what runs it is a command.
  'src/demo': [
    ...COMMON,
    'src/ads/port.ts',
    'src/archive',
    'src/signing',
    'type:src/api/admin-port.ts',
  ],

  // Whoever puts it together.
  'src/roles': EVERYTHING,
  'src/cli': EVERYTHING,
  'src/main.ts': EVERYTHING,
};

/** Folders that hold an adapter: only those who put things together know them. */
export const ADAPTERS = [
  'src/log/disk',
  'src/log/kafka',
  'src/ads/lmdb',
  'src/ads/postgres',
  'src/archive/folder',
  'src/archive/s3',
  'src/warehouse/chdb',
  'src/warehouse/clickhouse',
  'src/auth/sqlite',
  'src/auth/postgres',
  'src/control/local',
  'src/control/postgres',
  'src/counter/sqlite',
  'src/counter/postgres',
  'src/counter/disk',
  'src/disputes/postgres',
  'src/webhooks/postgres',
  'src/disputes/sqlite',
  'src/telemetry/otlp',
  'src/webhooks/sqlite',
];
const COMPOSERS = ['src/roles', 'src/cli', 'src/main.ts'];

/** Packages that one place hides from the rest of the project. */
export const PACKAGE_HOMES: Readonly<Record<string, readonly string[]>> = {
  chdb: ['src/warehouse/chdb'],
  '@clickhouse/client': ['src/warehouse'],
  lmdb: ['src/ads/lmdb'],
  '@node-rs/crc32': ['src/log/disk', 'src/log/kafka', 'src/archive'],
  '@platformatic/kafka': ['src/log/kafka'],
  'smol-toml': ['src/config'],
  maxmind: ['src/click'],
  '@opentelemetry': ['src/telemetry/otlp'],
  '@aws-sdk': ['src/archive/s3'],
  commander: ['src/cli', 'src/main.ts'],
  hono: ['src/api', 'src/console'],
  preact: ['src/console'],
  uplot: ['src/console'],
};

const isBelow = (path: string, place: string): boolean =>
  path === place || path.startsWith(`${place}/`);

/** The most specific row of the table for a file. */
export function rowOf(path: string): string | undefined {
  return Object.keys(MAY_IMPORT)
    .filter((row) => isBelow(path, row))
    .sort((a, b) => b.length - a.length)[0];
}

type Edge = { readonly file: ParsedFile; readonly imported: Import };

export function edgesOf(files: readonly ParsedFile[]): Edge[] {
  return files.flatMap((file) => importsOf(file).map((imported) => ({ file, imported })));
}

const shown = ({ file, imported }: Edge): string =>
  `${file.path}:${imported.line} imports ${imported.target ?? imported.specifier}`;

export function forbiddenImports(edges: readonly Edge[]): string[] {
  return edges
    .filter(({ file, imported }) => imported.target && !mayImport(file.path, imported))
    .map(shown);
}

function mayImport(path: string, { target = '', typeOnly }: Import): boolean {
  const from = rowOf(path);
  if (from === undefined) return false;
  const to = rowOf(target) ?? target;
  const allowed = MAY_IMPORT[from]!;
  if (from === to || allowed === EVERYTHING) return true;
  return allowed.some((each) => {
    const place = each.replace(/^type:/, '');
    if (each !== place && !typeOnly) return false;
    return isBelow(target, place) && (place === to || !isBelow(to, place));
  });
}

export function adapterLeaks(edges: readonly Edge[]): string[] {
  return edges
    .filter(({ file, imported }) => {
      const adapter = ADAPTERS.find((each) => isBelow(imported.target ?? '', each));
      if (adapter === undefined || isBelow(file.path, adapter)) return false;
      if (isBelow(file.path, 'src/counter/disk') && adapter === 'src/log/disk') return false;
      return !COMPOSERS.some((each) => isBelow(file.path, each));
    })
    .map(shown);
}

export function packageLeaks(edges: readonly Edge[]): string[] {
  return edges
    .filter(({ file, imported }) => {
      const name = Object.keys(PACKAGE_HOMES).find((each) => isBelow(imported.specifier, each));
      return name !== undefined && !PACKAGE_HOMES[name]!.some((home) => isBelow(file.path, home));
    })
    .map(shown);
}

/** Relative imports carry their ending and name a file that exists. */
export function unresolved(edges: readonly Edge[], exists: (path: string) => boolean): string[] {
  return edges
    .filter(({ imported }) => imported.target !== undefined && !exists(imported.target))
    .map(shown);
}

/** Cycles of imports that bring values; types leave nothing behind at run time. */
export function valueCycles(edges: readonly Edge[]): string[] {
  const next = new Map<string, string[]>();
  for (const { file, imported } of edges) {
    if (imported.typeOnly || imported.target === undefined) continue;
    next.set(file.path, [...(next.get(file.path) ?? []), imported.target]);
  }
  const cycles: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    const at = trail.indexOf(path);
    if (at >= 0) cycles.push([...trail.slice(at), path].join(' → '));
    if (at >= 0 || done.has(path)) return;
    for (const target of next.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of next.keys()) visit(path, []);
  return cycles;
}

/**
 * Files that nothing reaches from the entry point. A string that names a source file beside its own
 * (a process to start, a page to bundle) reaches it like an import does.
 */
export function deadFiles(files: readonly ParsedFile[], entry: string): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const reached = new Set<string>();
  const queue = [entry];
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    const file = byPath.get(path);
    if (file === undefined || reached.has(path)) continue;
    reached.add(path);
    const folder = dirname(path);
    for (const { target } of importsOf(file)) if (target !== undefined) queue.push(target);
    walk(file.tree, (node) => {
      if (isStringLiteral(node) && /\.tsx?$/.test(node.text)) queue.push(join(folder, node.text));
    });
  }
  return [...byPath.keys()].filter((path) => !reached.has(path) && !path.endsWith('.d.ts'));
}

export const existsIn =
  (root: string) =>
  (path: string): boolean =>
    /\.\w+$/.test(path) && existsSync(join(root, path));
