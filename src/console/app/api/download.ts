/** Files out of the API: fetched with the token, then handed to the browser to keep. */
import type { ApiClient, Params } from './client.ts';

const REVOKE_MS = 60_000;

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_MS);
}

export async function saveFrom(api: ApiClient, path: string, name: string): Promise<void> {
  const response = await api.fetch('GET', path, { accept: '*/*' });
  saveFile(name, await response.blob());
}

/** All pages of a CSV answer as one file with one header row. */
export async function wholeCsv(api: ApiClient, params: Params): Promise<Blob> {
  const parts: string[] = [];
  let cursor: string | null = null;
  do {
    const response: Response = await api.fetch('GET', '/v1/ads/metrics', {
      params: cursor === null ? params : { ...params, cursor },
      accept: 'text/csv',
    });
    const text = await response.text();
    parts.push(parts.length === 0 ? text : text.slice(text.indexOf('\n') + 1));
    cursor = response.headers.get('X-Next-Cursor');
  } while (cursor !== null && cursor !== '');
  return new Blob(parts, { type: 'text/csv' });
}
