/**
 * Verdicts as routes. `POST /v1/verdicts` takes lines as fraud detection writes them; the socket takes
 * lines that a command has numbered, so that a mistake is told with the line of the caller's file.
 */
import { z } from 'zod';
import type { ByteSource } from '../platform/row-types.ts';
import { readRows } from '../platform/rows.ts';
import type { VerdictRow } from '../verdicts/port.ts';
import { streamAction } from './action-stream.ts';
import { followAct } from './acts.ts';
import type { LedgerAdmin } from './admin-port.ts';
import { bodyOf, ingestRows } from './admin-routes.ts';
import { actionAnswer, instantText } from './answers.ts';
import type { ApiApp } from './app.ts';
import { requireAdmin } from './auth.ts';
import type { ApiFeature, Operation } from './operation.ts';
import type { ErrorLog } from './problem.ts';

export interface VerdictRouteParts {
  readonly admin: Pick<LedgerAdmin, 'verdicts'>;
  readonly log: ErrorLog;
}

const NDJSON = 'application/x-ndjson';
const EXAMPLE = '{"impression_id":"imp-1","valid":false,"reason":"data centre"}\n';

const line = z.strictObject({
  impression_id: z.string().describe('Impression that the verdict is about.'),
  valid: z.boolean().describe('False takes its click back, true gives it back.'),
  reason: z.string().max(200).describe('Why, in up to 200 characters; shown as evidence.'),
});
const OPERATION: Operation = {
  method: 'POST',
  path: '/v1/verdicts',
  tag: 'Verdicts',
  summary: 'Say which clicks are invalid, or valid after all.',
  description:
    'One verdict a line. All lines are checked before the first is stored; the same lines again change nothing. ' +
    'Clicks of hours that are final already are taken back by a restatement with the cause "verdict".',
  scope: 'admin',
  action: 'verdicts.give',
  body: [{ type: NDJSON, schema: line, example: EXAMPLE }],
  answers: [
    actionAnswer({
      taken: z.int().describe('Lines given.'),
      new: z.int().describe('Verdicts that were stored, because they differ from those in force.'),
      unchanged: z.int().describe('Lines that said what was in force already.'),
      hours: z
        .array(instantText)
        .describe('Starts of the final hours that the next reconcile restates.'),
    }),
  ],
};

export function verdictsFeature({ admin, log }: VerdictRouteParts): ApiFeature {
  return {
    operations: [OPERATION],
    add(app) {
      app.post('/v1/verdicts', requireAdmin, (c) => {
        const rows = verdictRows(bodyOf(c));
        const run = followAct(c, (progress) => admin.verdicts(rows, progress));
        return streamAction(run, log, 'POST /v1/verdicts');
      });
    },
  };
}

/** A line that cannot be read is told together with what is wrong in the others. */
async function* verdictRows(body: ByteSource): AsyncGenerator<VerdictRow> {
  const columns = { required: Object.keys(line.shape), optional: [] };
  for await (const row of readRows(body, { columns, format: 'ndjson' })) {
    if (row.ok) yield { line: row.line, record: row.record };
    else yield { line: row.line, record: {}, problem: row.reason };
  }
}

/** For the unix socket, where there are no tokens. */
export function addNumberedVerdicts(app: ApiApp, { admin, log }: VerdictRouteParts): void {
  const path = '/v1/admin/verdicts';
  app.post(path, (c) => {
    const run = followAct(c, (progress) => admin.verdicts(ingestRows(bodyOf(c)), progress));
    return streamAction(run, log, path);
  });
}
