/** An audit log of its own for a test, in a folder that goes with the process. */
import { join } from 'node:path';
import type { AuditLog } from '../../src/auth/audit-log.ts';
import { openAuditLog } from '../../src/auth/sqlite/audit-log.ts';
import { tempDir } from './temp-dir.ts';

let folder: ReturnType<typeof tempDir> | null = null;
let made = 0;

export function testAudit(clock: () => number = () => made): AuditLog {
  if (folder === null) {
    folder = tempDir('audit');
    process.on('exit', folder.remove);
  }
  made += 1;
  return openAuditLog({ path: join(folder.path, `audit-${made}.sqlite`), clock });
}
