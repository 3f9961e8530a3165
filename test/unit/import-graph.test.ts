/** Who imports whom: the table is in `../support/import-rules.ts`, and there are no exceptions. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  ADAPTERS,
  adapterLeaks,
  deadFiles,
  edgesOf,
  existsIn,
  forbiddenImports,
  MAY_IMPORT,
  packageLeaks,
  rowOf,
  unresolved,
  valueCycles,
} from '../support/import-rules.ts';
import { type ParsedFile, parseSource, parseTexts, ROOT } from '../support/source-tree.ts';

let source: ParsedFile[] = [];
let edges: ReturnType<typeof edgesOf> = [];
beforeAll(async () => {
  source = await parseSource();
  edges = edgesOf(source);
});

describe('the rules find what they look for', () => {
  const paths = (problems: readonly string[]): string[] =>
    problems.map((problem) => problem.replace(/:\d+ imports /, ' > '));

  test('imports against the table, of adapters and of hidden packages are found', async () => {
    const found = edgesOf(
      await parseTexts({
        'src/counting/a.ts': "import type { X } from '../event/click-event.ts';",
        'src/click/a.ts':
          "import { w } from '../log/disk/writer.ts'; import type { L } from '../log/port.ts';",
        'src/api/a.ts':
          "const { c } = await import('../counter/counter.ts'); import 'chdb/connection';",
        'src/console/a.ts':
          "import type { T } from '../api/app.ts'; import { v } from '../api/app.ts';",
        'src/roles/a.ts': "export * from '../log/disk/writer.ts'; import 'chdb-elsewhere';",
        'src/log/disk/a.ts': "import { p } from '../port.ts'; import { b } from './b.ts';",
      }),
    );
    expect(paths(forbiddenImports(found))).toEqual([
      'src/api/a.ts > src/counter/counter.ts',
      'src/click/a.ts > src/log/disk/writer.ts',
      'src/console/a.ts > src/api/app.ts',
      'src/counting/a.ts > src/event/click-event.ts',
    ]);
    expect(paths(adapterLeaks(found))).toEqual(['src/click/a.ts > src/log/disk/writer.ts']);
    expect(paths(packageLeaks(found))).toEqual(['src/api/a.ts > chdb/connection']);
  });

  test('a cycle of values is found, one that a type closes is not', async () => {
    const files = await parseTexts({
      'src/a/one.ts': "import { two } from './two.ts';",
      'src/a/two.ts': "export { three } from './three.ts';",
      'src/a/three.ts': "import { one } from './one.ts';",
      'src/b/one.ts': "import { two } from './two.ts';",
      'src/b/two.ts': "import { type One } from './one.ts'; import type { A } from './one.ts';",
    });
    expect(valueCycles(edgesOf(files))).toEqual([
      'src/a/one.ts → src/a/two.ts → src/a/three.ts → src/a/one.ts',
    ]);
  });

  test('a file that nothing reaches is found, one that is started by its name is not', async () => {
    const files = await parseTexts({
      'src/main.ts': "import './a.ts'; start(new URL('./roles/worker.ts', import.meta.url));",
      'src/a.ts': '',
      'src/roles/worker.ts': '',
      'src/dead.ts': "import './a.ts';",
    });
    expect(deadFiles(files, 'src/main.ts')).toEqual(['src/dead.ts']);
  });
});

describe('the source', () => {
  test('every folder imports only what the table allows', () => {
    expect(source.map((file) => file.path).filter((path) => rowOf(path) === undefined)).toEqual([]);
    expect(forbiddenImports(edges)).toEqual([]);
  });

  test('adapters are known only to roles and commands', () => {
    expect(adapterLeaks(edges)).toEqual([]);
  });

  test('a package that an adapter hides is imported only there', () => {
    expect(packageLeaks(edges)).toEqual([]);
  });

  test('no values are imported in a circle', () => {
    expect(valueCycles(edges)).toEqual([]);
  });

  test('relative imports carry their ending and name a file that exists', () => {
    expect(unresolved(edges, existsIn(ROOT))).toEqual([]);
  });

  test('every folder below a port is either an adapter or named in the table', () => {
    const ports = readdirSync(join(ROOT, 'src')).filter((folder) =>
      existsSync(join(ROOT, 'src', folder, 'port.ts')),
    );
    const folders = ports.flatMap((folder) =>
      readdirSync(join(ROOT, 'src', folder), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map((entry) => `src/${folder}/${entry.name}`),
    );
    // Common to the adapters of the warehouse, and part of it.
    const shared = ['src/warehouse/sql'];
    expect(
      folders.filter((folder) => !ADAPTERS.includes(folder) && !shared.includes(folder)),
    ).toEqual([]);
    for (const adapter of ADAPTERS) expect(MAY_IMPORT[adapter]).toBeDefined();
  });

  test.skipIf(!existsSync(join(ROOT, 'src/main.ts')))('every file is reached from main.ts', () => {
    expect(deadFiles(source, 'src/main.ts')).toEqual([]);
  });
});
