/** Copies disputes from one store to another, page by page; safe to repeat. */
import type { DisputePosition, DisputeStore, DisputeTarget } from './port.ts';

const PAGE = 500;

/** Returns how many were added, or ended, since a copy before. */
export async function copyDisputes(
  from: Pick<DisputeStore, 'list'>,
  to: DisputeTarget,
): Promise<number> {
  const all = { advertiserId: undefined, adId: undefined, state: undefined, limit: PAGE };
  let copied = 0;
  let before: DisputePosition | undefined;
  for (;;) {
    const page = await from.list({ ...all, before });
    const last = page.at(-1);
    if (last === undefined) return copied;
    copied += await to.restore(page);
    before = { openedAtMs: last.opened.atMs, id: last.id };
  }
}
