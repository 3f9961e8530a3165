// Proves INV-12 of SPEC.md.
/** The contract of `src/auth/audit-log.ts` (A1–A3) for every adapter. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { type AuditLines, copyAuditLog } from '../../src/auth/audit-chain.ts';
import type { AuditLog } from '../../src/auth/audit-log.ts';
import { recordAct } from '../../src/auth/record-act.ts';
import { openAuditLines, openAuditLog } from '../../src/auth/sqlite/audit-log.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { tempDir } from '../support/temp-dir.ts';

export interface AuditWorld {
  /** Another handle on the same lines. */
  open(clock: () => number): Promise<AuditLog>;
  openLines(): Promise<AuditLines>;
  /** Whatever anybody with access to the table can do by mistake. */
  change(sql: string): Promise<void>;
  /** What its owner can do: the triggers are theirs to drop. */
  tamper(sql: string): Promise<void>;
  /** Statements that open the log as `audit`, and let go of it, in a process of their own. */
  readonly child: { readonly open: string; readonly close: string };
  remove(): Promise<void> | void;
}

const ACT = { actor: 'cli', action: 'keys.retire', target: 'k1' };

export function auditLogSuite(name: string, make: () => Promise<AuditWorld> | AuditWorld): void {
  let world: AuditWorld;
  let audit: AuditLog;
  let nowMs: number;
  const clock = (): number => nowMs;
  const newest = async () => (await audit.list({ limit: 1 }))[0]!;

  async function threeActs(log = audit): Promise<void> {
    for (const target of ['k1', 'k2', 'k3']) {
      await log.end(await log.begin({ ...ACT, target }), { outcome: 'ok' });
    }
  }

  beforeEach(async () => {
    world = await make();
    nowMs = 1_800_000_000_000;
    audit = await world.open(clock);
  });
  afterEach(async () => {
    await audit.close();
    await world.remove();
  });

  describe(`an act in the audit log of ${name}`, () => {
    test('is listed with what was done, by whom, and how it ended; newest first', async () => {
      const atMs = nowMs;
      const id = await audit.begin(ACT);
      nowMs += 5;
      expect(await audit.list({ limit: 10 })).toEqual([
        { ...ACT, id, atMs, outcome: 'started', code: null, detail: '', endedAtMs: null },
      ]);
      await audit.end(id, { outcome: 'refused', code: 'last_active_key' });
      const other = await audit.begin({ ...ACT, action: 'keys.create', target: '' });
      await audit.end(other, { outcome: 'ok', target: 'k2', detail: 'by hand' });
      const [made, retired] = await audit.list({ limit: 10 });
      expect(made).toEqual({
        ...{ ...ACT, action: 'keys.create', target: 'k2', id: other, atMs: nowMs },
        ...{ outcome: 'ok', code: null, detail: 'by hand', endedAtMs: nowMs },
      });
      expect(retired).toEqual({
        ...{ ...ACT, id, atMs, outcome: 'refused', code: 'last_active_key' },
        ...{ detail: '', endedAtMs: nowMs },
      });
      const ids = async (options: { limit: number; beforeId?: number }) =>
        (await audit.list(options)).map((each) => each.id);
      expect(await ids({ limit: 10, beforeId: other })).toEqual([id]);
      expect(await ids({ limit: 1 })).toEqual([other]);
    });

    test('runs between its lines, and its error is passed on and recorded', async () => {
      const seen = await recordAct(audit, ACT, async (note) => {
        note({ target: 'k9' });
        return { taken: 3, hours: ['a', 'b'], atMs: 7, outcome: (await newest()).outcome };
      });
      expect(seen.outcome).toBe('started');
      expect(await newest()).toMatchObject({
        target: 'k9',
        outcome: 'ok',
        detail: 'taken=3 hours=2',
      });
      const failing = (error: Error) => recordAct(audit, ACT, () => Promise.reject(error));
      const refusal = new LedgerError('kid_unknown', 'no such key');
      await expect(failing(refusal)).rejects.toBe(refusal);
      expect(await newest()).toMatchObject({ outcome: 'refused', code: 'kid_unknown' });
      await expect(failing(new LedgerError('x', 'x', { kind: 'retry' }))).rejects.toThrow();
      expect(await newest()).toMatchObject({ outcome: 'failed', code: 'x' });
      await expect(failing(new Error('secret inside'))).rejects.toThrow();
      expect(await newest()).toMatchObject({ outcome: 'failed', code: 'internal' });
      expect(JSON.stringify(await audit.list({ limit: 10 }))).not.toContain('secret inside');
    });

    test('does not run when it cannot be recorded', async () => {
      await world.tamper('DROP TABLE audit');
      let ran = false;
      const act = recordAct(audit, ACT, () => {
        ran = true;
      });
      await expect(act).rejects.toMatchObject({ kind: 'retry' });
      expect(ran).toBe(false);
    });

    test('whose end cannot be recorded says that it has happened', async () => {
      const act = recordAct(audit, ACT, () => world.tamper('DROP TABLE audit'));
      await expect(act).rejects.toMatchObject({ code: 'audit_end_lost', kind: 'retry' });
    });

    test('ends once', async () => {
      const id = await audit.begin(ACT);
      await audit.end(id, { outcome: 'ok' });
      await expect(audit.end(id, { outcome: 'failed' })).rejects.toThrow();
      expect(await audit.verify()).toMatchObject({ broken: null, head: { line: 2 } });
    });

    test('keeps neither the text of a token nor more than a line', async () => {
      const secret = 'A'.repeat(43);
      const id = await audit.begin({ ...ACT, target: `clk_0123456789ab_${secret}` });
      await audit.end(id, { outcome: 'ok', detail: 'x'.repeat(5_000) });
      expect((await newest()).target).toBe('clk_0123456789ab_…');
      expect((await newest()).detail).toHaveLength(500);
      expect((await audit.verify()).broken).toBeNull();
    });

    test('keeps no characters that a terminal would obey or a database refuse', async () => {
      await audit.begin({ ...ACT, target: 'a\u001b[31m\nb\u202ec\u0000d\ud800' });
      expect((await newest()).target).toBe('a [31m b c d\ufffd');
      expect((await audit.verify()).broken).toBeNull();
    });
  });

  describe(`the chain in the audit log of ${name}`, () => {
    test('holds over all lines, also after it was opened again', async () => {
      expect(await audit.verify()).toEqual({ head: { line: 0, hash: '' }, broken: null });
      await threeActs();
      const before = await audit.verify();
      expect(before.broken).toBeNull();
      expect(before.head).toEqual(await audit.head());
      await audit.close();
      audit = await world.open(clock);
      await threeActs();
      expect(await audit.verify(before.head)).toMatchObject({ broken: null, head: { line: 12 } });
    });

    test.each([
      ["UPDATE audit SET target = 'k7' WHERE line = 3", 3],
      ["UPDATE audit SET actor = 'socket' WHERE line = 6", 6],
      ['UPDATE audit SET at_ms = at_ms + 1 WHERE line = 1', 1],
      ["UPDATE audit SET outcome = 'refused' WHERE line = 2", 2],
      ['UPDATE audit SET hash = (SELECT hash FROM audit WHERE line = 1) WHERE line = 4', 4],
      ['DELETE FROM audit WHERE line = 1', 1],
      ['DELETE FROM audit WHERE line IN (3, 4)', 3],
      [
        `DELETE FROM audit WHERE line IN (3, 4);
         UPDATE audit SET line = line - 2, act = act - 2 WHERE line > 4`,
        3,
      ],
    ])('shows what was changed behind its back: %s', async (sql, line) => {
      await threeActs();
      await world.tamper(sql);
      expect((await audit.verify()).broken?.line).toBe(line);
    });

    test('that was cut at its end, or written anew, shows against a head that was noted', async () => {
      await threeActs();
      const noted = await audit.head();
      await world.tamper('DELETE FROM audit WHERE line > 4');
      expect((await audit.verify()).broken).toBeNull();
      expect((await audit.verify(noted)).broken?.line).toBe(5);
      nowMs += 1;
      for (let at = 0; at < 2; at++) await audit.end(await audit.begin(ACT), { outcome: 'ok' });
      expect((await audit.verify()).broken).toBeNull();
      expect((await audit.verify(noted)).broken).toEqual({
        line: 6,
        reason: 'it is not the line that was noted',
      });
    });

    test('has lines that are not changed or removed by mistake', async () => {
      await threeActs();
      await expect(world.change('DELETE FROM audit')).rejects.toThrow('stay');
      await expect(world.change("UPDATE audit SET actor = 'x'")).rejects.toThrow('do not change');
      expect(await audit.verify()).toMatchObject({ broken: null, head: { line: 6 } });
    });

    test('is one chain when several processes write at once', async () => {
      const writer = `${world.child.open}
        for (let at = 0; at < 30; at++) {
          const id = await audit.begin({ actor: 'cli', action: 'a', target: String(at) });
          await audit.end(id, { outcome: 'ok' });
        }
        ${world.child.close}`;
      const children = Array.from({ length: 3 }, () =>
        Bun.spawn([process.execPath, '-e', writer], { stderr: 'inherit' }),
      );
      expect(await Promise.all(children.map((child) => child.exited))).toEqual([0, 0, 0]);
      expect(await audit.verify()).toMatchObject({ broken: null, head: { line: 180 } });
      const entries = await audit.list({ limit: 1_000 });
      expect(entries).toHaveLength(90);
      expect(entries.every(({ outcome }) => outcome === 'ok')).toBe(true);
    });

    test('is one chain when acts of one process overlap', async () => {
      await Promise.all(Array.from({ length: 8 }, () => threeActs()));
      expect(await audit.verify()).toMatchObject({ broken: null, head: { line: 48 } });
    });
  });

  describe(`a chain that is copied into the audit log of ${name}`, () => {
    let folder: ReturnType<typeof tempDir>;
    let old: AuditLog;
    let from: AuditLines;
    let to: AuditLines;
    beforeEach(async () => {
      folder = tempDir('audit-copied');
      const path = `${folder.path}/control.sqlite`;
      old = openAuditLog({ path, clock });
      await threeActs(old);
      from = openAuditLines(path);
      to = await world.openLines();
    });
    afterEach(async () => {
      for (const each of [old, from, to]) await each.close();
      folder.remove();
    });

    test('is the same chain, goes on, and is copied once', async () => {
      const noted = await old.head();
      expect(await copyAuditLog(from, to)).toBe(6);
      expect(await audit.verify()).toEqual({ head: noted, broken: null });
      expect(await audit.list({ limit: 10 })).toEqual(await old.list({ limit: 10 }));
      await threeActs();
      expect(await copyAuditLog(from, to)).toBe(0);
      expect(await audit.verify(noted)).toMatchObject({ broken: null, head: { line: 12 } });
    });

    test('is finished when a copy of it has ended early', async () => {
      const half = await from.after(0, 3);
      await to.add(() => half);
      expect(await copyAuditLog(from, to)).toBe(3);
      expect(await audit.verify(await old.head())).toMatchObject({ broken: null });
    });

    test('is refused where other lines are, and when it is broken itself', async () => {
      const refusal = { code: 'audit_log_not_empty', kind: 'refuse' };
      await audit.begin({ ...ACT, actor: 'socket' });
      await expect(copyAuditLog(from, to)).rejects.toMatchObject(refusal);
      expect(await audit.head()).toMatchObject({ line: 1 });
      // One that is shorter, one that is longer, one that has gone on elsewhere.
      for (let at = 0; at < 3; at++) {
        await threeActs();
        await expect(copyAuditLog(from, to)).rejects.toMatchObject(refusal);
      }
      await expect(copyAuditLog(gapped(from), to)).rejects.toMatchObject({ code: 'audit_broken' });
      expect(await audit.verify()).toMatchObject({ broken: null, head: { line: 19 } });
    });
  });
}

/** The same lines without the second. */
function gapped(lines: AuditLines): AuditLines {
  return {
    add: (next) => lines.add(next),
    head: () => lines.head(),
    find: (line) => lines.find(line),
    acts: (options) => lines.acts(options),
    close: () => lines.close(),
    after: async (line, limit) =>
      (await lines.after(line, limit)).filter((each) => each.line !== 2),
  };
}
