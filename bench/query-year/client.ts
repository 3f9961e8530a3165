/** Asks the API as an advertiser does, and keeps the time until the answer's last byte. */
import type { Params, Question } from './questions.ts';

export interface AnswerRow {
  readonly bucket_start?: string;
  readonly ad_id?: string;
  readonly campaign_id?: string;
  readonly country?: string;
  readonly device?: string;
  readonly clicks: number;
}
export interface Answer {
  readonly rows: readonly AnswerRow[];
  readonly next_cursor?: string | null;
  readonly total?: number;
}

export class ApiClient {
  readonly #base: string;
  readonly #headers: Record<string, string>;

  constructor(port: number, token: string) {
    this.#base = `http://127.0.0.1:${port}`;
    this.#headers = { Authorization: `Bearer ${token}` };
  }

  /** A question with more ads than a URL should hold is sent by POST. */
  async bytes({ path, params }: Pick<Question, 'path' | 'params'>): Promise<{
    ms: number;
    body: ArrayBuffer;
  }> {
    const post = (params.ad_ids?.length ?? 0) > 1;
    const url = `${this.#base}${path}`;
    const startedMs = performance.now();
    const response = post
      ? await fetch(url, {
          method: 'POST',
          headers: { ...this.#headers, 'Content-Type': 'application/json' },
          body: JSON.stringify(params),
        })
      : await fetch(`${url}?${searchOf(params)}`, { headers: this.#headers });
    const body = await response.arrayBuffer();
    const ms = performance.now() - startedMs;
    if (response.status !== 200) {
      throw new Error(`${path}: ${response.status} ${new TextDecoder().decode(body)}`);
    }
    return { ms, body };
  }

  async ask(question: Pick<Question, 'path' | 'params'>): Promise<{ ms: number; answer: Answer }> {
    const { ms, body } = await this.bytes(question);
    return { ms, answer: JSON.parse(new TextDecoder().decode(body)) as Answer };
  }

  metrics(params: Params): Promise<{ ms: number; answer: Answer }> {
    return this.ask({ path: '/v1/ads/metrics', params });
  }
}

function searchOf(params: Params): URLSearchParams {
  return new URLSearchParams(
    Object.entries(params).map(([name, value]): [string, string] => [name, String(value)]),
  );
}
