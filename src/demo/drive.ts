/**
 * Sends a traffic plan over HTTP and writes down what was acknowledged.
 *
 * Owns the bound on concurrency, one retry of a lost request, and the acknowledgements. Does not
 * decide what is right: it compares each status with the plan's and reports what differs.
 *
 * D1 An impression is acknowledged once a billable request on it was answered with a redirect.
 * D2 An impression is in doubt when a billable request on it was sent and none was acknowledged: a
 *    lost connection or a 503 may hide a click that is in the log all the same.
 */
import { monotonicMs } from '../platform/clock.ts';
import { signedLink } from '../signing/signature.ts';
import { type Answer, ConnectionLost, HttpConnection } from './connection.ts';
import { isBillable, type PlannedRequest, REQUEST_KINDS, type RequestKind } from './plan.ts';

export interface DriveProgress {
  readonly sent: number;
  readonly total: number;
  readonly perSecond: number;
}

export interface DriveOptions {
  /** Where the click service answers, e.g. `http://127.0.0.1:8080`. */
  readonly baseUrl: string;
  readonly requests: readonly PlannedRequest[];
  readonly key: { readonly kid: string; readonly secret: string };
  readonly concurrency?: number;
  readonly onProgress?: (progress: DriveProgress) => void;
}

export interface DriveResult {
  /** Requests answered, by kind. */
  readonly answered: Readonly<Record<RequestKind, number>>;
  /** Impression → ad (D1). */
  readonly acknowledged: ReadonlyMap<string, string>;
  /** Impression → ad (D2). */
  readonly inDoubt: ReadonlyMap<string, string>;
  /** Requests that were sent a second time because the connection was lost. */
  readonly resent: number;
  readonly unexpectedCount: number;
  /** The first of them. */
  readonly unexpected: readonly string[];
}

const CONCURRENCY = 64;
const UNEXPECTED_SHOWN = 20;
const PROGRESS_EVERY_MS = 250;

export async function driveTraffic(options: DriveOptions): Promise<DriveResult> {
  const drive = new Drive(options);
  const concurrency = Math.min(options.concurrency ?? CONCURRENCY, options.requests.length);
  await Promise.all(Array.from({ length: concurrency }, () => drive.work()));
  return drive.result();
}

class Drive {
  readonly #options: DriveOptions;
  readonly #base: URL;
  readonly #acknowledged = new Map<string, string>();
  readonly #inDoubt = new Map<string, string>();
  readonly #answered = Object.fromEntries(REQUEST_KINDS.map((kind) => [kind, 0])) as Record<
    RequestKind,
    number
  >;
  readonly #unexpected: string[] = [];
  #unexpectedCount = 0;
  #resent = 0;
  #next = 0;
  #sent = 0;
  #shown = { sent: 0, atMs: monotonicMs() };
  #failed = false;

  constructor(options: DriveOptions) {
    this.#options = options;
    this.#base = new URL(options.baseUrl);
  }

  /** One of several that take requests in turn, each over a connection of its own. */
  async work(): Promise<void> {
    const connection = new HttpConnection(this.#base);
    const { requests } = this.#options;
    try {
      while (this.#next < requests.length && !this.#failed) {
        const request = requests[this.#next++]!;
        this.#note(request, await this.#send(connection, request));
      }
    } catch (error) {
      this.#failed = true;
      throw error;
    } finally {
      connection.close();
    }
  }

  result(): DriveResult {
    return {
      answered: this.#answered,
      acknowledged: this.#acknowledged,
      inDoubt: this.#inDoubt,
      resent: this.#resent,
      unexpectedCount: this.#unexpectedCount,
      unexpected: this.#unexpected,
    };
  }

  /** Null when the answer was lost twice. The second try has the same link: it is no new click. */
  async #send(connection: HttpConnection, request: PlannedRequest): Promise<Answer | null> {
    const target = this.#targetOf(request);
    for (let tries = 1; ; tries++) {
      try {
        return await connection.send(request.method, target, request.headers);
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw error;
        if (tries === 2) return null;
        this.#resent += 1;
      }
    }
  }

  #targetOf(request: PlannedRequest): string {
    const { kid, secret } = this.#options.key;
    const link = signedLink({
      base: this.#base.origin,
      imp: request.impressionId,
      ad: request.signedAdId,
      secret: request.link === 'wrong_secret' ? `${secret}-not` : secret,
      kid,
    });
    const target = link.slice(this.#base.origin.length);
    switch (request.link) {
      case 'signed':
      case 'wrong_secret':
        return target;
      case 'other_ad':
        return target.replace(`&ad=${request.signedAdId}&`, `&ad=${request.adId}&`);
      case 'html_escaped':
        return target.replaceAll('&', '&amp;');
    }
  }

  #note(request: PlannedRequest, answer: Answer | null): void {
    const { kind, impressionId, adId, expectedStatus } = request;
    const isRedirect = answer !== null && answer.status === 302 && answer.location !== null;
    if (isBillable(kind)) {
      if (isRedirect) {
        this.#acknowledged.set(impressionId, adId);
        this.#inDoubt.delete(impressionId);
      } else if (!this.#acknowledged.has(impressionId)) {
        this.#inDoubt.set(impressionId, adId);
      }
    }
    if (answer !== null) this.#answered[kind] += 1;
    if (expectedStatus === 302 ? !isRedirect : answer?.status !== expectedStatus) {
      this.#unexpectedCount += 1;
      if (this.#unexpected.length < UNEXPECTED_SHOWN) {
        const got = answer === null ? 'no answer, twice' : `status ${answer.status}`;
        this.#unexpected.push(`${kind} on ${impressionId}: ${got}, not ${expectedStatus}`);
      }
    }
    this.#sent += 1;
    this.#tellProgress();
  }

  #tellProgress(): void {
    const total = this.#options.requests.length;
    const nowMs = monotonicMs();
    const passedMs = nowMs - this.#shown.atMs;
    if (passedMs < PROGRESS_EVERY_MS && this.#sent < total) return;
    const perSecond = Math.round(((this.#sent - this.#shown.sent) * 1000) / Math.max(1, passedMs));
    this.#shown = { sent: this.#sent, atMs: nowMs };
    this.#options.onProgress?.({ sent: this.#sent, total, perSecond });
  }
}
