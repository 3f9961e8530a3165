import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A fresh folder for one test, and the way to remove it. */
export function tempDir(label: string): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), `clickledger-${label}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
