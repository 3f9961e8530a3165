/** The admin actions as routes. Whoever adds them decides who may call them. */
import type { Context } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import type { z } from 'zod';
import { LedgerError } from '../platform/errors.ts';
import type { ByteSource, RowFormat } from '../platform/row-types.ts';
import { readRows } from '../platform/rows.ts';
import { streamAction } from './action-stream.ts';
import { followAct, noteAct } from './acts.ts';
import type { IngestRow, LedgerAdmin, Progress } from './admin-port.ts';
import { deadLettersSchema, reconcileSchema, redriveSchema } from './admin-schemas.ts';
import type { ApiApp, ApiEnv } from './app.ts';
import { jsonObject, parseParameters, rawParameters } from './parameters.ts';
import { type ErrorLog, Problem, parameterProblem } from './problem.ts';
import { parseTime } from './time.ts';

/** Imports ads from a body; returns what the caller is told. */
export type ImportAds = (
  source: ByteSource,
  options: { format: RowFormat | undefined },
  progress: Progress,
) => Promise<object>;

export interface AdminParts {
  readonly admin: LedgerAdmin;
  readonly importAds?: ImportAds;
  readonly log: ErrorLog;
}

const MAX_BODY_BYTES = 1 << 20;

export function addAdminRoutes(app: ApiApp, { admin, importAds, log }: AdminParts): void {
  const limited = bodyLimit({ maxSize: MAX_BODY_BYTES, onError: refuseBody });
  const stream = (c: Context<ApiEnv>, run: (progress: Progress) => Promise<object>): Response =>
    streamAction(followAct(c, run), log, `${c.req.method} ${c.req.path}`);

  app.get('/v1/admin/status', async (c) => c.json(await admin.status()));
  app.get('/v1/admin/dead-letters', async (c) => {
    const { limit, waiting } = parseParameters(deadLettersSchema, await rawParameters(c));
    const deadLetters = await admin.deadLetters({ limit, waitingOnly: waiting === 'true' });
    return c.json({ deadLetters });
  });
  app.get('/v1/admin/dead-letters/:id', async (c) =>
    c.json(await admin.deadLetter(c.req.param('id'))),
  );
  app.post('/v1/admin/dead-letters/redrive', limited, async (c) => {
    const which = redriveOf(parseParameters(redriveSchema, await jsonObject(c)));
    noteAct(c, { target: which.id ?? which.reason ?? 'all' });
    return stream(c, () => admin.redrive(which));
  });
  app.post('/v1/admin/reconcile', limited, async (c) => {
    const params = parseParameters(reconcileSchema, await jsonObject(c));
    const hourMs = instant('hour', params.hour);
    const untilMs = instant('until', params.until);
    const options = {
      ...(hourMs === undefined ? {} : { hourMs }),
      ...(untilMs === undefined ? {} : { untilMs }),
    };
    noteAct(c, { target: params.hour ?? params.until ?? '' });
    return stream(c, (progress) => admin.reconcile(options, progress));
  });
  app.post('/v1/admin/ingest', (c) =>
    stream(c, (progress) => admin.ingest(ingestRows(bodyOf(c)), progress)),
  );
  app.post('/v1/admin/verify', (c) => stream(c, (progress) => admin.verify(progress)));
  app.post('/v1/admin/rebuild', (c) => stream(c, (progress) => admin.rebuild(progress)));
  if (importAds !== undefined) {
    app.post('/v1/admin/ads', (c) =>
      stream(c, (progress) => importAds(bodyOf(c), { format: formatOf(c) }, progress)),
    );
  }
}

function refuseBody(): never {
  throw new Problem(413, 'body_too_large', `A body has at most ${MAX_BODY_BYTES} bytes here.`);
}

function redriveOf(which: z.infer<typeof redriveSchema>): Parameters<LedgerAdmin['redrive']>[0] {
  const { id, reason, all } = which;
  if (id !== undefined && reason === undefined && all === undefined) return { id };
  if (id === undefined && reason !== undefined && all === undefined) return { reason };
  if (id === undefined && reason === undefined && all !== undefined) return { all };
  throw new Problem(400, 'parameters_invalid', 'Give exactly one of id, reason and all.');
}

function instant(parameter: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const parsed = parseTime(value, 'UTC');
  if ('ms' in parsed) return parsed.ms;
  throw parameterProblem([{ parameter, message: parsed.problem }]);
}

/**
 * The body as it arrives; what is not uploaded yet is not in memory. A connection that breaks is an
 * error, not an end: half a file must not pass for a whole one.
 */
export async function* bodyOf(c: Context<ApiEnv>): AsyncGenerator<Uint8Array> {
  if (c.req.raw.body === null) return;
  const reader = c.req.raw.body.getReader();
  for (;;) {
    let chunk: Awaited<ReturnType<typeof reader.read>>;
    try {
      chunk = await reader.read();
    } catch (cause) {
      throw new LedgerError(
        'upload_broken',
        'The connection broke before the upload was complete.',
        {
          kind: 'retry',
          cause,
        },
      );
    }
    if (chunk.done) return;
    yield chunk.value;
  }
}

function formatOf(c: Context): RowFormat | undefined {
  const type = c.req.header('Content-Type') ?? '';
  if (type.startsWith('text/csv')) return 'csv';
  return /^application\/(x-ndjson|jsonl|json)\b/.test(type) ? 'ndjson' : undefined;
}

/** Lines that a command has numbered: `{"line": …, "record": {…}}`, perhaps with a `problem`. */
export async function* ingestRows(body: ByteSource): AsyncGenerator<IngestRow> {
  const columns = { required: ['line', 'record'], optional: ['problem'] };
  for await (const row of readRows(body, { columns, format: 'ndjson' })) {
    const reason = row.ok ? rowProblem(row.record) : row.reason;
    if (reason !== null) {
      throw new LedgerError('ingest_malformed', `line ${row.line} of the body: ${reason}`, {
        hint: 'Every line is {"line": <number>, "record": {…}}.',
      });
    }
    if (row.ok) yield row.record as unknown as IngestRow;
  }
}

function rowProblem({ line, record, problem }: Readonly<Record<string, unknown>>): string | null {
  if (problem !== undefined && typeof problem !== 'string') return '"problem" is no text';
  if (!Number.isSafeInteger(line)) return '"line" is no whole number';
  const isObject = typeof record === 'object' && record !== null && !Array.isArray(record);
  return isObject ? null : '"record" is no object';
}
