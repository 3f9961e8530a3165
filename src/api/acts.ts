/**
 * Records what admins change, around the routes that change it.
 *
 * Owns: which requests are acts, and that each has its two lines in the audit log. Does not own: the
 * log (`auth/audit-log.ts`), nor whether somebody may act (`auth.ts`).
 *
 * What holds if the process dies after
 *  1. the line `started`: the act may have happened or not, and the log says that it began;
 *  2. the act: the same;
 *  3. the line with the outcome: all is told.
 * When 1 fails, the act is refused. When 3 fails, the act has happened: the answer stays what it is
 * and the error is logged.
 */
import type { Context, MiddlewareHandler } from 'hono';
import type { AuditEnd, AuditLog } from '../auth/audit-log.ts';
import { countsOf, endOfError } from '../auth/record-act.ts';
import type { Progress } from './admin-port.ts';
import type { ApiApp, ApiEnv } from './app.ts';
import { requireAdmin } from './auth.ts';
import type { Operation } from './operation.ts';
import { type ErrorLog, Problem } from './problem.ts';

type NamedOperation = Pick<Operation, 'method' | 'path' | 'action'>;

export interface ActParts {
  readonly audit: AuditLog;
  readonly log: ErrorLog;
  readonly actorOf: (c: Context<ApiEnv>) => string;
  /** Gives acts their names; one that is missing here is recorded by method and path. */
  readonly operations: readonly NamedOperation[];
}

export class PendingAct {
  readonly #parts: ActParts;
  readonly #id: number;
  #more: Pick<AuditEnd, 'target' | 'detail'> = {};
  #isFollowed = false;

  constructor(parts: ActParts, id: number) {
    this.#parts = parts;
    this.#id = id;
  }

  note(more: Pick<AuditEnd, 'target' | 'detail'>): void {
    this.#more = { ...this.#more, ...more };
  }

  /** The act ends with `run`, not with the beginning of its answer. */
  follow<T>(run: (progress: Progress) => Promise<T>): (progress: Progress) => Promise<T> {
    this.#isFollowed = true;
    return async (progress) => {
      let result: T;
      try {
        result = await run(progress);
      } catch (error) {
        await this.#end(endOf(error));
        throw error;
      }
      this.note({ detail: countsOf(result) });
      await this.#end({ outcome: 'ok' });
      return result;
    };
  }

  async answered(c: Context<ApiEnv>): Promise<void> {
    if (c.error !== undefined) await this.#end(endOf(c.error));
    else if (!this.#isFollowed) await this.#end(endOfStatus(c.res.status));
  }

  async #end(end: Pick<AuditEnd, 'outcome' | 'code'>): Promise<void> {
    try {
      await this.#parts.audit.end(this.#id, { ...this.#more, ...end }); // 3
    } catch (error) {
      this.#parts.log(error, `the end of act ${this.#id} is not in the audit log`);
    }
  }
}

export function recordActs(parts: ActParts): MiddlewareHandler<ApiEnv> {
  const nameOf = actNames(parts.operations);
  return async (c, next) => {
    if (!changes(c.req.method)) return next();
    const named = nameOf(c.req.method, c.req.path);
    const id = await parts.audit.begin({ actor: parts.actorOf(c), ...named }); // 1
    const act = new PendingAct(parts, id);
    c.set('act', act);
    await next(); // 2
    await act.answered(c);
  };
}

/** Adds to the act's line what only its route knows; nothing where acts are not recorded. */
export function noteAct(c: Context<ApiEnv>, more: Pick<AuditEnd, 'target' | 'detail'>): void {
  c.get('act')?.note(more);
}

/** For acts that answer line by line: their end is that of `run`. */
export function followAct<T>(
  c: Context<ApiEnv>,
  run: (progress: Progress) => Promise<T>,
): (progress: Progress) => Promise<T> {
  return c.get('act')?.follow(run) ?? run;
}

/** What only an admin may change is recorded, wherever its path lies. */
export function addActs(
  app: ApiApp,
  { audit, log }: Pick<ActParts, 'audit' | 'log'>,
  operations: readonly Operation[],
): void {
  const actorOf = (c: Context<ApiEnv>): string => c.get('principal').tokenId;
  const record = recordActs({ audit, log, operations, actorOf });
  app.use('/v1/admin/*', record);
  for (const { method, path, scope } of operations) {
    if (scope !== 'admin' || !changes(method) || path.startsWith('/v1/admin/')) continue;
    const only = (handler: MiddlewareHandler<ApiEnv>): MiddlewareHandler<ApiEnv> => {
      return (c, next) => (c.req.method === method ? handler(c, next) : next());
    };
    // Whoever may not act is refused before anything is written.
    app.use(path.replace(/\{(\w+)\}/g, ':$1'), only(requireAdmin), only(record));
  }
}

export function changes(method: string): boolean {
  return !['GET', 'HEAD', 'OPTIONS'].includes(method);
}

function endOf(error: unknown): Pick<AuditEnd, 'outcome' | 'code'> {
  if (!(error instanceof Problem)) return endOfError(error);
  return { outcome: error.status < 500 ? 'refused' : 'failed', code: error.code };
}

function endOfStatus(status: number): Pick<AuditEnd, 'outcome' | 'code'> {
  if (status < 400) return { outcome: 'ok' };
  return { outcome: status < 500 ? 'refused' : 'failed', code: `status_${status}` };
}

type ActName = { readonly action: string; readonly target: string };

/** What an act is called, and the ids in its path. */
function actNames(
  operations: readonly NamedOperation[],
): (method: string, path: string) => ActName {
  const known = operations
    .filter(({ method }) => changes(method))
    .map(({ method, path, action }) => ({
      method,
      pattern: new RegExp(`^${path.replace(/\{\w+\}/g, '([^/]+)')}$`),
      action: action ?? `${method} ${path}`,
    }));
  return (method, path) => {
    for (const each of known) {
      const match = each.method === method ? each.pattern.exec(path) : null;
      if (match !== null)
        return { action: each.action, target: match.slice(1).map(decoded).join(' ') };
    }
    return { action: `${method} ${path}`, target: '' };
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
