/**
 * The chain over the lines of an audit log, whatever keeps them: A1–A3 of `audit-log.ts`.
 *
 * The hash of a line depends on nothing but its content and the line before, so that a chain can be
 * copied from one adapter to another and still holds.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import { assert, LedgerError } from '../platform/errors.ts';
import type {
  AuditAct,
  AuditCheck,
  AuditEnd,
  AuditEntry,
  AuditHead,
  AuditLog,
} from './audit-log.ts';

export interface AuditLine extends AuditAct {
  readonly line: number;
  readonly atMs: number;
  /** Line in which the act began: this one, or one before. */
  readonly act: number;
  readonly outcome: string;
  readonly code: string | null;
  readonly detail: string;
}

export interface StoredLine extends AuditLine {
  readonly hash: Uint8Array;
}

/** What an adapter keeps. */
export interface AuditLines {
  /**
   * Adds what `next` makes of the chain's head, in one transaction that keeps other writers out (A3).
   * Durable when it resolves. Throws LedgerError of kind `retry` when it cannot be written.
   */
  add(next: (head: AuditHead) => readonly StoredLine[]): Promise<void>;
  head(): Promise<AuditHead>;
  find(line: number): Promise<StoredLine | null>;
  /** Lines behind `line`, in order. */
  after(line: number, limit: number): Promise<StoredLine[]>;
  /** Acts newest first, those that began before `beforeId`. */
  acts(options: { limit: number; beforeId: number }): Promise<AuditEntry[]>;
  close(): Promise<void>;
}

/** Lines that are held in memory at once. */
const PAGE_LINES = 1_000;
const MAX_TEXT = 500;
const NO_LINE: AuditHead = { line: 0, hash: '' };

export function auditLog(lines: AuditLines, clock: Clock): AuditLog {
  return new ChainedAuditLog(lines, clock);
}

class ChainedAuditLog implements AuditLog {
  readonly #lines: AuditLines;
  readonly #clock: Clock;

  constructor(lines: AuditLines, clock: Clock) {
    this.#lines = lines;
    this.#clock = clock;
  }

  async begin({ actor, action, target }: AuditAct): Promise<number> {
    const content = { actor: short(actor), action: short(action), target: short(target) };
    const started = { ...content, outcome: 'started', code: null, detail: '' };
    try {
      return await this.#append((line) => ({ ...started, act: line }));
    } catch (cause) {
      if (!isPassing(cause)) throw cause;
      throw notRecorded(cause.code, 'the act cannot be recorded and was not begun', cause);
    }
  }

  async end(id: number, { outcome, code, target, detail }: AuditEnd): Promise<void> {
    try {
      const begun = await this.#lines.find(id);
      assert(begun !== null, `the audit log has no line ${id}`);
      await this.#append(() => ({
        act: id,
        actor: begun.actor,
        action: begun.action,
        target: target === undefined ? begun.target : short(target),
        outcome,
        code: code === undefined ? null : short(code),
        detail: short(detail ?? ''),
      }));
    } catch (cause) {
      if (!isPassing(cause)) throw cause;
      throw notRecorded('audit_end_lost', 'the act ended, and its end cannot be recorded', cause);
    }
  }

  /** Returns the new line's number. */
  async #append(content: (line: number) => Omit<AuditLine, 'line' | 'atMs'>): Promise<number> {
    let added = 0;
    await this.#lines.add((head) => {
      added = head.line + 1;
      const line: AuditLine = { line: added, atMs: this.#clock(), ...content(added) };
      return [{ ...line, hash: hashOf(head.hash, line) }];
    });
    return added;
  }

  list({ limit, beforeId }: { limit: number; beforeId?: number }): Promise<AuditEntry[]> {
    return this.#lines.acts({ limit, beforeId: beforeId ?? Number.MAX_SAFE_INTEGER });
  }

  head(): Promise<AuditHead> {
    return this.#lines.head();
  }

  async verify(noted?: AuditHead): Promise<AuditCheck> {
    const walk = new ChainWalk(noted);
    // A writer beside it adds lines behind those of this moment; it sees them or not.
    for await (const line of allLines(this.#lines)) walk.see(line);
    return walk.end();
  }

  close(): Promise<void> {
    return this.#lines.close();
  }
}

/** Looks at the lines in their order, and keeps the first thing that is wrong. */
class ChainWalk {
  readonly #noted: AuditHead | undefined;
  #head = NO_LINE;
  #broken: AuditCheck['broken'] = null;

  constructor(noted: AuditHead | undefined) {
    this.#noted = noted;
  }

  see({ hash, ...line }: StoredLine): void {
    const expected = hashOf(this.#head.hash, line);
    if (line.line !== this.#head.line + 1) {
      this.#found(this.#head.line + 1, 'the line is missing');
    } else if (!expected.equals(hash)) {
      this.#found(line.line, 'the line or the one before it was changed');
    }
    this.#head = headOf({ ...line, hash });
    if (this.#noted?.line === line.line && this.#noted.hash !== this.#head.hash) {
      this.#found(line.line, 'it is not the line that was noted');
    }
  }

  end(): AuditCheck {
    const noted = this.#noted?.line ?? 0;
    if (noted > this.#head.line) {
      this.#found(this.#head.line + 1, `lines up to ${noted} were noted`);
    }
    return { head: this.#head, broken: this.#broken };
  }

  #found(line: number, reason: string): void {
    this.#broken ??= { line, reason };
  }
}

/**
 * Copies a chain to where none is, or where an attempt to copy it has ended early; returns how many
 * lines were added. Safe to repeat, also when the copy has gone on since. Throws LedgerError
 * `audit_log_not_empty` when other lines are there: one log cannot hold two chains.
 */
export async function copyAuditLog(from: AuditLines, to: AuditLines): Promise<number> {
  const { broken } = await auditLog(from, () => 0).verify();
  if (broken !== null) {
    throw new LedgerError('audit_broken', `line ${broken.line}: ${broken.reason}`, {
      hint: 'Look at the audit log of the file first; a copy of it would hold no better.',
    });
  }
  let copied = 0;
  for (;;) {
    const { line } = await to.head();
    if (!(await isSameChain(from, to, line))) throw otherChain(line);
    const page = await from.after(line, PAGE_LINES);
    if (page.length === 0) return copied;
    await to.add((head) => {
      if (head.line !== line) throw otherChain(head.line);
      return page;
    });
    copied += page.length;
  }
}

/** A hash stands for its line and all before it, so the last line that both have decides. */
async function isSameChain(from: AuditLines, to: AuditLines, lines: number): Promise<boolean> {
  const common = Math.min((await from.head()).line, lines);
  if (common === 0) return true;
  return headOf(await from.find(common)).hash === headOf(await to.find(common)).hash;
}

function otherChain(lines: number): LedgerError {
  return new LedgerError(
    'audit_log_not_empty',
    `the audit log has ${lines} lines which are not those of the file`,
    { hint: 'Import before anything else is done with the database, and once.' },
  );
}

/** The line as the head of a chain that ends with it. */
export function headOf(
  last: { readonly line: number; readonly hash: Uint8Array } | null,
): AuditHead {
  if (last === null) return NO_LINE;
  return { line: last.line, hash: Buffer.from(last.hash).toString('hex') };
}

async function* allLines(lines: AuditLines): AsyncGenerator<StoredLine> {
  let last = 0;
  for (;;) {
    const page = await lines.after(last, PAGE_LINES);
    yield* page;
    last = page.at(-1)?.line ?? last;
    if (page.length < PAGE_LINES) return;
  }
}

/** Ids, codes and short sentences; whatever else got here is cut, so that a line stays a line. */
function short(text: string): string {
  // A path can name control characters, which a terminal that lists the log would obey.
  const plain = text.slice(0, MAX_TEXT).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
  return plain.replace(TOKEN_TEXT, '$1_…').toWellFormed();
}

/** Somebody will name a token by its text one day; only its id may be kept. */
const TOKEN_TEXT = /(clk_[0-9a-f]{12})_[A-Za-z0-9_-]+/g;

function hashOf(before: string, row: AuditLine): Buffer {
  const { line, atMs, act, actor, action, target, outcome, code, detail } = row;
  const content = [before, line, atMs, act, actor, action, target, outcome, code, detail];
  return createHash('sha256').update(JSON.stringify(content)).digest();
}

function isPassing(error: unknown): error is LedgerError {
  return error instanceof LedgerError && error.kind === 'retry';
}

function notRecorded(code: string, message: string, cause: LedgerError): LedgerError {
  const { hint } = cause;
  return new LedgerError(code, message, {
    kind: 'retry',
    cause,
    ...(hint === undefined ? {} : { hint }),
  });
}
