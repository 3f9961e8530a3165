import { LedgerError } from '../platform/errors.ts';

/**
 * One look for all metrics of a scrape that need it. They are collected side by side: a metric that is
 * set while another is collected shows what it was at the scrape before.
 */
export function perScrape<T>(look: () => Promise<T>): () => Promise<T> {
  let current: Promise<T> | null = null;
  return () => {
    current ??= look().finally(() => {
      current = null;
    });
    return current;
  };
}

/**
 * What a look finds, or null while what it looks at is away: that must not take the metrics of
 * everything else along. Those of its own stay as they were.
 */
export async function unlessAway<T>(look: () => Promise<T>): Promise<T | null> {
  try {
    return await look();
  } catch (error) {
    if (error instanceof LedgerError && error.kind === 'retry') return null;
    throw error;
  }
}
