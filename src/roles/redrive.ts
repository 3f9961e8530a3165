/** Appends dead letters to the log again. */
import { letterBatches } from '../counter/letter-batches.ts';
import type { DeadLetterHead, DeadLetterStore } from '../counter/port.ts';
import type { ClickLogWriter } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';

export interface RedriveParts {
  readonly deadLetters: Pick<DeadLetterStore, 'list' | 'read' | 'markRedriven'>;
  readonly writer: Pick<ClickLogWriter, 'append'>;
  readonly clock: Clock;
}

export interface RedriveWhich {
  readonly id?: string;
  readonly reason?: string;
  readonly all?: boolean;
}

/** Most of one request; the next one goes on behind them. */
const MAX_REDRIVEN = 1_000_000;
const PAGE = 10_000;
const AT_ONCE = { letters: 200, bytes: 4 << 20 };

/**
 * A letter is marked only after its record is durable: dying in between appends it once more, and
 * dedup by impression absorbs that. Which letters there are is settled before the first is appended:
 * one that cannot be counted again becomes a letter anew, and is not of this request.
 */
export async function redriveLetters(
  parts: RedriveParts,
  which: RedriveWhich,
): Promise<{ redriven: number }> {
  const heads = which.id === undefined ? await waiting(parts, which) : [await one(parts, which.id)];
  for (const batch of letterBatches(heads, AT_ONCE, ({ sizeBytes }) => sizeBytes)) {
    const ids = batch.map(({ id }) => id);
    const letters = await parts.deadLetters.read(ids);
    await Promise.all(letters.map(({ bytes }) => append(parts.writer, bytes)));
    await parts.deadLetters.markRedriven(ids, parts.clock());
  }
  return { redriven: heads.length };
}

type Asked = Pick<DeadLetterHead, 'id' | 'sizeBytes'>;

async function one({ deadLetters }: RedriveParts, id: string): Promise<Asked> {
  const [letter] = await deadLetters.read([id]);
  if (letter === undefined) throw unknownLetter(id);
  if (letter.redrivenAtMs !== null) {
    throw new LedgerError('dead_letter_redriven', `dead letter ${id} was redriven before`);
  }
  return letter;
}

async function waiting(
  { deadLetters }: RedriveParts,
  { reason, all }: RedriveWhich,
): Promise<Asked[]> {
  const found: Asked[] = [];
  const only = all === true || reason === undefined ? {} : { reason };
  while (found.length < MAX_REDRIVEN) {
    const last = found.at(-1);
    const behind = last === undefined ? {} : { after: last.id };
    const page = await deadLetters.list({ limit: PAGE, waitingOnly: true, ...only, ...behind });
    for (const { id, sizeBytes } of page) found.push({ id, sizeBytes });
    if (page.length < PAGE) break;
  }
  return found;
}

function append(writer: RedriveParts['writer'], bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    writer.append(bytes, bytes.length, (error) => (error ? reject(error) : resolve()));
  });
}

export function unknownLetter(id: string): LedgerError {
  return new LedgerError('dead_letter_unknown', `there is no dead letter ${id}`, {
    hint: '"clickledger dlq list" shows those that there are.',
  });
}
