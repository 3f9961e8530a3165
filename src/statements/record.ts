/**
 * The record of one version: what it is, and the checksums of its files. Its presence is the commit of
 * the version. It is read by people years later, so it says everything by name.
 */
import { z } from 'zod';
import { LedgerError } from '../platform/errors.ts';
import { recordOfName, statementId } from './names.ts';
import type { Statement } from './port.ts';

const count = z.int().min(0);
const file = z.strictObject({
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.int().min(1),
});
const recordSchema = z.strictObject({
  format: z.literal(1),
  id: z.string(),
  version: z.int().min(1),
  supersedes: z.int().min(1).nullable(),
  advertiserId: z.string(),
  fromMs: z.int(),
  toMs: z.int(),
  timezone: z.string(),
  finalUntilMs: count,
  rows: count,
  clicks: count,
  /** SHA-256 over the numbers: the next version has another one. */
  numbersDigest: z.string(),
  createdAtMs: count,
  files: z.strictObject({ csv: file, parquet: file }),
});

export interface StatementRecord extends Statement {
  readonly numbersDigest: string;
}

export function encodeRecord(record: StatementRecord): Uint8Array {
  return Buffer.from(`${JSON.stringify({ format: 1, ...record }, null, 1)}\n`);
}

/** Throws LedgerError `statement_damaged` when the bytes are not the record that their name says. */
export function decodeRecord(name: string, bytes: Uint8Array): StatementRecord {
  try {
    const { format: _, ...record } = recordSchema.parse(
      JSON.parse(Buffer.from(bytes).toString('utf8')),
    );
    const expected = recordOfName(name);
    if (expected?.id !== record.id || expected.version !== record.version) {
      throw new Error('it is the record of another version');
    }
    if (statementId(record) !== record.id) throw new Error('its period is not that of its id');
    return record;
  } catch (cause) {
    throw damaged(name, `it is no record: ${String(cause)}`);
  }
}

export function damaged(name: string, why: string): LedgerError {
  return new LedgerError('statement_damaged', `${name}: ${why}`, {
    hint: 'Ask for the statement again with POST /v1/statements: files that are damaged are then made anew. A damaged record has to be restored from a copy of the archive.',
  });
}
