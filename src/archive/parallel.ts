/** Work on many things at a time, but not on all. */

/**
 * Runs `work` for every item, for at most `limit` at a time. After a failure no other item is begun;
 * it is thrown once all that were begun have ended.
 */
export async function inParallel<T>(
  items: Iterable<T> | AsyncIterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator =
    Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  let failed = false;
  const worker = async () => {
    try {
      while (!failed) {
        const next = await iterator.next();
        if (next.done) return;
        await work(next.value);
      }
    } catch (error) {
      failed = true;
      throw error;
    }
  };
  const results = await Promise.allSettled(Array.from({ length: limit }, worker));
  if (failed) await iterator.return?.();
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
