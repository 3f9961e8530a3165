import { Database } from 'bun:sqlite';
import { join } from 'node:path';
import { openAuditLines, openAuditLog } from '../../src/auth/sqlite/audit-log.ts';
import { ROOT } from '../support/source-tree.ts';
import { tempDir } from '../support/temp-dir.ts';
import { auditLogSuite } from './audit-log-suite.ts';

auditLogSuite('SQLite', () => {
  const folder = tempDir('audit-log');
  const path = join(folder.path, 'control.sqlite');
  const module = JSON.stringify(join(ROOT, 'src/auth/sqlite/audit-log.ts'));
  const change = async (sql: string): Promise<void> => {
    const db = new Database(path);
    try {
      db.run(sql);
    } finally {
      db.close();
    }
  };
  return {
    change,
    open: async (clock) => openAuditLog({ path, clock }),
    openLines: async () => openAuditLines(path),
    tamper: (sql) =>
      change(`DROP TRIGGER audit_keeps_lines; DROP TRIGGER audit_keeps_words; ${sql}`),
    child: {
      open: `const { openAuditLog } = await import(${module});
        const audit = openAuditLog({ path: ${JSON.stringify(path)}, clock: () => 5 });`,
      close: 'await audit.close();',
    },
    remove: folder.remove,
  };
});
