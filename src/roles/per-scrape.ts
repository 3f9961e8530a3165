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
