/** Copies dead letters from one store to another, page by page; safe to repeat. */
import { letterBatches } from './letter-batches.ts';
import type { DeadLetterStore, DeadLetterTarget } from './port.ts';

const PAGE = 1_000;
/** What is held at once: letters can be large. */
const AT_ONCE = { letters: PAGE, bytes: 4 << 20 };

/** Returns how many were added, or marked as redriven, since a copy before. */
export async function copyDeadLetters(
  from: Pick<DeadLetterStore, 'list' | 'read'>,
  to: DeadLetterTarget,
): Promise<number> {
  let copied = 0;
  let after: string | undefined;
  for (;;) {
    const behind = after === undefined ? {} : { after };
    const page = await from.list({ limit: PAGE, waitingOnly: false, ...behind });
    for (const batch of letterBatches(page, AT_ONCE, ({ sizeBytes }) => sizeBytes)) {
      copied += await to.restore(await from.read(batch.map(({ id }) => id)));
    }
    const last = page.at(-1);
    if (last === undefined) return copied;
    after = last.id;
  }
}
