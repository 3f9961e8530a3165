// Proves INV-12 of SPEC.md.
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { type AuditLog, openAuditLog } from '../../src/auth/audit-log.ts';
import { recordAct } from '../../src/auth/record-act.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let path: string;
let audit: AuditLog;
let now = 0;
const clock = (): number => now;
const ACT = { actor: 'cli', action: 'keys.retire', target: 'k1' };

beforeEach(() => {
  folder = tempDir('audit-log');
  path = join(folder.path, 'control.sqlite');
  now = 1_000;
  audit = openAuditLog({ path, clock });
});
afterEach(() => {
  audit.close();
  folder.remove();
});

/** What somebody with the file can do: the triggers are theirs to drop. */
function tamper(sql: string): void {
  const db = new Database(path);
  db.run('DROP TRIGGER audit_keeps_lines');
  db.run('DROP TRIGGER audit_keeps_words');
  db.run(sql);
  db.close();
}

function threeActs(): void {
  for (const target of ['k1', 'k2', 'k3']) {
    audit.end(audit.begin({ ...ACT, target }), { outcome: 'ok' });
  }
}

describe('an act', () => {
  test('is listed with what was done, by whom, and how it ended; newest first', () => {
    const id = audit.begin(ACT);
    now += 5;
    expect(audit.list({ limit: 10 })).toEqual([
      { ...ACT, id, atMs: 1_000, outcome: 'started', code: null, detail: '', endedAtMs: null },
    ]);
    audit.end(id, { outcome: 'refused', code: 'last_active_key' });
    const other = audit.begin({ ...ACT, action: 'keys.create', target: '' });
    audit.end(other, { outcome: 'ok', target: 'k2', detail: 'by hand' });
    expect(audit.list({ limit: 10 })).toEqual([
      {
        ...ACT,
        action: 'keys.create',
        id: other,
        target: 'k2',
        atMs: 1_005,
        outcome: 'ok',
        code: null,
        detail: 'by hand',
        endedAtMs: 1_005,
      },
      {
        ...ACT,
        id,
        atMs: 1_000,
        outcome: 'refused',
        code: 'last_active_key',
        detail: '',
        endedAtMs: 1_005,
      },
    ]);
    expect(audit.list({ limit: 10, beforeId: other }).map((each) => each.id)).toEqual([id]);
    expect(audit.list({ limit: 1 }).map((each) => each.id)).toEqual([other]);
  });

  test('runs between its lines, and its error is passed on and recorded', async () => {
    const seen = await recordAct(audit, ACT, (note) => {
      note({ target: 'k9' });
      return {
        taken: 3,
        hours: ['a', 'b'],
        atMs: 7,
        outcome: audit.list({ limit: 1 })[0]!.outcome,
      };
    });
    expect(seen.outcome).toBe('started');
    expect(audit.list({ limit: 1 })[0]).toMatchObject({
      target: 'k9',
      outcome: 'ok',
      detail: 'taken=3 hours=2',
    });
    const failing = (error: Error) => recordAct(audit, ACT, () => Promise.reject(error));
    const refusal = new LedgerError('kid_unknown', 'no such key');
    await expect(failing(refusal)).rejects.toBe(refusal);
    expect(audit.list({ limit: 1 })[0]).toMatchObject({ outcome: 'refused', code: 'kid_unknown' });
    await expect(failing(new LedgerError('x', 'x', { kind: 'retry' }))).rejects.toThrow();
    expect(audit.list({ limit: 1 })[0]).toMatchObject({ outcome: 'failed', code: 'x' });
    await expect(failing(new Error('secret inside'))).rejects.toThrow();
    expect(audit.list({ limit: 1 })[0]).toMatchObject({ outcome: 'failed', code: 'internal' });
    expect(JSON.stringify(audit.list({ limit: 10 }))).not.toContain('secret inside');
  });

  test('does not run when it cannot be recorded', async () => {
    tamper('DROP TABLE audit');
    let ran = false;
    const act = recordAct(audit, ACT, () => {
      ran = true;
    });
    await expect(act).rejects.toMatchObject({ code: 'audit_unavailable', kind: 'retry' });
    expect(ran).toBe(false);
  });

  test('keeps neither the text of a token nor more than a line', () => {
    const secret = 'A'.repeat(43);
    const id = audit.begin({ ...ACT, target: `clk_0123456789ab_${secret}` });
    audit.end(id, { outcome: 'ok', detail: 'x'.repeat(5_000) });
    const [entry] = audit.list({ limit: 1 });
    expect(entry!.target).toBe('clk_0123456789ab_…');
    expect(entry!.detail).toHaveLength(500);
    expect(audit.verify().broken).toBeNull();
  });

  test('keeps no control characters, which a terminal would obey', () => {
    audit.begin({ ...ACT, target: 'a\u001b[31m\nb\u202ec' });
    expect(audit.list({ limit: 1 })[0]!.target).toBe('a [31m b c');
    expect(audit.verify().broken).toBeNull();
  });
});

describe('the chain', () => {
  test('holds over all lines, also after the file was opened again', () => {
    expect(audit.verify()).toEqual({ head: { line: 0, hash: '' }, broken: null });
    threeActs();
    const before = audit.verify();
    expect(before.broken).toBeNull();
    expect(before.head).toEqual(audit.head());
    audit.close();
    audit = openAuditLog({ path, clock });
    threeActs();
    expect(audit.verify(before.head)).toMatchObject({ broken: null, head: { line: 12 } });
  });

  test.each([
    ["UPDATE audit SET target = 'k7' WHERE line = 3", 3],
    ["UPDATE audit SET actor = 'socket' WHERE line = 6", 6],
    ['UPDATE audit SET at_ms = at_ms + 1 WHERE line = 1', 1],
    ["UPDATE audit SET outcome = 'refused' WHERE line = 2", 2],
    ['UPDATE audit SET hash = zeroblob(32) WHERE line = 4', 4],
    ['DELETE FROM audit WHERE line = 1', 1],
    ['DELETE FROM audit WHERE line IN (3, 4)', 3],
    [
      `DELETE FROM audit WHERE line IN (3, 4);
       UPDATE audit SET line = line - 2, act = act - 2 WHERE line > 4`,
      3,
    ],
  ])('shows what was changed behind its back: %s', (sql, line) => {
    threeActs();
    tamper(sql);
    expect(audit.verify().broken?.line).toBe(line);
  });

  test('that was cut at its end, or written anew, shows against a head that was noted', () => {
    threeActs();
    const noted = audit.head();
    tamper('DELETE FROM audit WHERE line > 4');
    expect(audit.verify().broken).toBeNull();
    expect(audit.verify(noted).broken?.line).toBe(5);
    now += 1;
    for (let at = 0; at < 2; at++) audit.end(audit.begin(ACT), { outcome: 'ok' });
    expect(audit.verify().broken).toBeNull();
    expect(audit.verify(noted).broken).toEqual({
      line: 6,
      reason: 'it is not the line that was noted',
    });
  });

  test('lines are not changed or removed by mistake', () => {
    threeActs();
    const db = new Database(path);
    expect(() => db.run('DELETE FROM audit')).toThrow('stay');
    expect(() => db.run("UPDATE audit SET actor = 'x'")).toThrow('do not change');
    db.close();
  });

  test('is one chain when several processes write at once', async () => {
    const writer = `
      const { openAuditLog } = await import(${JSON.stringify(join(import.meta.dir, '../../src/auth/audit-log.ts'))});
      const audit = openAuditLog({ path: ${JSON.stringify(path)}, clock: () => 5 });
      for (let at = 0; at < 50; at++) {
        audit.end(audit.begin({ actor: 'cli', action: 'a', target: String(at) }), { outcome: 'ok' });
      }`;
    const children = Array.from({ length: 3 }, () =>
      Bun.spawn([process.execPath, '-e', writer], { stdout: 'inherit', stderr: 'inherit' }),
    );
    const codes = await Promise.all(children.map((child) => child.exited));
    expect(codes).toEqual([0, 0, 0]);
    expect(audit.verify()).toMatchObject({ broken: null, head: { line: 300 } });
    const entries = audit.list({ limit: 1_000 });
    expect(entries).toHaveLength(150);
    expect(entries.every(({ outcome }) => outcome === 'ok')).toBe(true);
  });
});
