/**
 * Statements as routes: make one, find it, fetch its files.
 *
 * Owns no numbers and no files (`../statements`). Another advertiser's statement and a missing one give
 * the same answer.
 */

import type { Context } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import { LedgerError } from '../platform/errors.ts';
import type { FileKind, FoundStatement, Statement, Statements } from '../statements/port.ts';
import { formatInZone } from '../warehouse/buckets.ts';
import type { ApiApp, ApiEnv } from './app.ts';
import { advertiserOf, oneAdvertiserOf } from './auth.ts';
import { instantOrNull } from './metrics-format.ts';
import { id, timeZone } from './metrics-request.ts';
import type { ApiFeature } from './operation.ts';
import { jsonObject, parseParameters, rawParameters, text, wholeNumber } from './parameters.ts';
import { type ErrorLog, Problem } from './problem.ts';
import { STATEMENT_OPERATIONS } from './statement-operations.ts';
import { parseRange } from './time.ts';

export interface StatementRouteParts {
  readonly statements: Statements;
  readonly log: ErrorLog;
}

const MAX_BODY_BYTES = 16 * 1024;
const MAX_VERSION = 999_999_999;
const MAX_LIST = 1_000;
const FILE_TYPES: Readonly<Record<FileKind, string>> = {
  csv: 'text/csv; charset=utf-8; header=present',
  parquet: 'application/vnd.apache.parquet',
};

const createSchema = z.strictObject({
  from: text('the first day'),
  to: text('the day after the last'),
  timezone: timeZone,
  advertiser_id: id.optional(),
});
const versionSchema = z.strictObject({ version: wholeNumber(1, MAX_VERSION).optional() });
const listSchema = z.strictObject({
  advertiser_id: id.optional(),
  limit: wholeNumber(1, MAX_LIST).default(100),
  cursor: text('the next_cursor of the page before').optional(),
});

export function statementsFeature(parts: StatementRouteParts): ApiFeature {
  return { operations: STATEMENT_OPERATIONS, add: (app) => addRoutes(app, parts) };
}

function addRoutes(app: ApiApp, parts: StatementRouteParts): void {
  const { statements } = parts;
  const limited = bodyLimit({ maxSize: MAX_BODY_BYTES, onError: refuseBody });
  app.post('/v1/statements', limited, async (c) => {
    const { from, to, timezone, advertiser_id } = parseParameters(
      createSchema,
      await jsonObject(c),
    );
    const advertiserId = oneAdvertiserOf(c.get('principal'), advertiser_id);
    const period = { advertiserId, timezone, ...parseRange(from, to, timezone) };
    const { statement, created } = await orDamaged(parts, c, () => statements.create(period));
    const found = { statement, latestVersion: statement.version };
    if (!created) return c.json(shown(found));
    return c.json(shown(found), 201, { Location: `/v1/statements/${statement.id}` });
  });
  app.get('/v1/statements', async (c) => {
    const { advertiser_id, limit, cursor } = parseParameters(listSchema, await rawParameters(c));
    const advertiserId = advertiserOf(c.get('principal'), advertiser_id);
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const page = await orDamaged(parts, c, () => statements.list({ advertiserId, after, limit }));
    return c.json({
      statements: page.statements.map((statement) =>
        shown({ statement, latestVersion: statement.version }),
      ),
      next_cursor: page.next === undefined ? null : encodeCursor(page.next),
    });
  });
  app.get('/v1/statements/:id', async (c) => c.json(shown(await find(parts, c))));
  for (const kind of ['csv', 'parquet'] as const) {
    app.get(`/v1/statements/:id/${kind}`, async (c) => {
      const { statement } = await find(parts, c);
      return sendFile(c, { statement, kind }, parts);
    });
  }
}

async function find(parts: StatementRouteParts, c: Context<ApiEnv>): Promise<FoundStatement> {
  const { version } = parseParameters(versionSchema, await rawParameters(c));
  const principal = c.get('principal');
  const advertiserId = principal.scope === 'admin' ? undefined : principal.advertiserId;
  const which = { id: c.req.param('id') ?? '', version, advertiserId };
  const found = await orDamaged(parts, c, () => parts.statements.find(which));
  if (found !== null) return found;
  throw new Problem(404, 'statement_unknown', 'There is no such statement, or no such version.');
}

async function sendFile(
  c: Context<ApiEnv>,
  { statement, kind }: { statement: Statement; kind: FileKind },
  parts: StatementRouteParts,
): Promise<Response> {
  const { sha256 } = statement.files[kind];
  const headers = {
    ETag: `"${sha256}"`,
    'Repr-Digest': `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`,
  };
  if (isMatch(c.req.header('If-None-Match'), sha256)) return c.body(null, 304, headers);
  const bytes = await orDamaged(parts, c, () => parts.statements.file(statement, kind));
  return c.body(new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length), 200, {
    ...headers,
    'Content-Type': FILE_TYPES[kind],
    'Content-Length': String(bytes.length),
    'Content-Disposition': `attachment; filename="${statement.id}-v${statement.version}.${kind}"`,
  });
}

function isMatch(header: string | undefined, sha256: string): boolean {
  if (header === undefined) return false;
  return header.split(',').some((each) => {
    const tag = each.trim();
    return tag === '*' || tag.replace(/^W\//, '') === `"${sha256}"`;
  });
}

/** Damage is the operator's to know in full; the caller learns that the file is not what was made. */
async function orDamaged<T>(
  { log }: StatementRouteParts,
  c: Context<ApiEnv>,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof LedgerError && error.code === 'statement_damaged')) throw error;
    log(error, `${c.req.method} ${c.req.path}: ${error.message}`);
    throw new Problem(500, error.code, 'The stored statement is not as it was made.', {
      hint: 'It is not sent. Ask for the statement again with POST /v1/statements, or tell the operator.',
    });
  }
}

function shown({ statement, latestVersion }: FoundStatement): object {
  const { id, version, timezone, files } = statement;
  const file = (kind: FileKind): object => ({
    url: `/v1/statements/${id}/${kind}?version=${version}`,
    sha256: files[kind].sha256,
    size_bytes: files[kind].sizeBytes,
  });
  return {
    id,
    version,
    supersedes: statement.supersedes,
    latest_version: latestVersion,
    advertiser_id: statement.advertiserId,
    from: formatInZone(statement.fromMs, timezone),
    to: formatInZone(statement.toMs, timezone),
    timezone,
    final_until: instantOrNull(statement.finalUntilMs),
    rows: statement.rows,
    clicks: statement.clicks,
    created_at: instantOrNull(statement.createdAtMs),
    files: { csv: file('csv'), parquet: file('parquet') },
  };
}

function encodeCursor(after: string): string {
  return Buffer.from(after).toString('base64url');
}

function decodeCursor(cursor: string): string {
  const after = Buffer.from(cursor, 'base64url').toString('utf8');
  if (/^st_[0-9a-f_]{1,60}$/.test(after)) return after;
  throw new LedgerError('cursor_invalid', 'The cursor is damaged.', {
    hint: 'Send it as it was given.',
  });
}

function refuseBody(): never {
  throw new Problem(413, 'body_too_large', `A body has at most ${MAX_BODY_BYTES} bytes here.`);
}
