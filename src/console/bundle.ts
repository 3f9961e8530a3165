/**
 * Makes what a browser loads out of the console's source: no build step, and nothing on disk.
 *
 * The names carry a hash of the content, so a browser may keep a file for ever and still never runs
 * an old console against a new server.
 */
import { fileURLToPath } from 'node:url';
import { LedgerError } from '../platform/errors.ts';
import { consolePage } from './page.ts';

export interface ConsoleFile {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly gzipped: Uint8Array<ArrayBuffer>;
}

export interface ConsoleBundle {
  readonly page: string;
  /** By file name; nothing else is served. */
  readonly files: ReadonlyMap<string, ConsoleFile>;
}

const ENTRIES = {
  app: './app/main.tsx',
  theme: './app/theme.ts',
  style: './app/style/console.css',
} as const;

/** Beside this file, so that an installation without the project's own `tsconfig.json` works too. */
const TSCONFIG = new URL('./bundle.tsconfig.json', import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};

export async function bundleConsole(): Promise<ConsoleBundle> {
  const files = new Map<string, ConsoleFile>();
  const names: Record<string, string> = {};
  for (const [entry, path] of Object.entries(ENTRIES)) {
    const { name, file } = await bundleOne(entry, fileURLToPath(new URL(path, import.meta.url)));
    files.set(name, file);
    names[entry] = name;
  }
  return { page: consolePage(names as Record<keyof typeof ENTRIES, string>), files };
}

async function bundleOne(
  entry: string,
  path: string,
): Promise<{ name: string; file: ConsoleFile }> {
  try {
    const { outputs } = await Bun.build({
      entrypoints: [path],
      target: 'browser',
      minify: true,
      sourcemap: 'none',
      tsconfig: fileURLToPath(TSCONFIG),
      define: { 'process.env.NODE_ENV': '"production"' },
    });
    const output = outputs[0];
    if (output === undefined) throw new Error(`nothing came out of ${path}`);
    const ending = path.endsWith('.css') ? 'css' : 'js';
    const bytes = new Uint8Array(await output.arrayBuffer());
    const hash = new Bun.CryptoHasher('sha256').update(bytes).digest('hex').slice(0, 16);
    return {
      name: `${entry}-${hash}.${ending}`,
      file: { type: TYPES[ending]!, bytes, gzipped: Bun.gzipSync(bytes) },
    };
  } catch (cause) {
    throw new LedgerError('console_unbuilt', 'The web console could not be put together.', {
      kind: 'retry',
      hint: 'Run "npm ci" in the product\'s folder and try again; the log of the ledger says what is wrong. The API works without it.',
      cause,
    });
  }
}
