#!/usr/bin/env node
// Starts the TypeScript entry point under the Bun that npm installed, so that a user needs npm only.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);

let bun;
try {
  bun = join(dirname(require.resolve('bun/package.json')), 'bin', 'bun.exe');
} catch {
  process.stderr.write('clickledger: the npm package "bun" is missing; run "npm ci" first.\n');
  process.exit(1);
}

const child = spawn(bun, [join(root, 'src', 'main.ts'), ...process.argv.slice(2)], {
  stdio: 'inherit',
});
// The child decides how to stop; this wrapper only passes the wish on and waits.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('error', (error) => {
  process.stderr.write(`clickledger: cannot start Bun (${error.message}); run "npm ci" again.\n`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  process.exit(code ?? 128 + (signal ? (constants.signals[signal] ?? 0) : 0));
});
