/** Clicks for the tests of the Kafka log: made, appended under load, and counted from what was read. */
import { Counting } from '../../src/counting/counting.ts';
import { ImpressionHash } from '../../src/counting/impression-hash.ts';
import { emptyRecord } from '../../src/counting/types.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { EventView, encodeEvent, MAX_EVENT_BYTES } from '../../src/event/codec.ts';
import type { ClickLogReader, ClickLogWriter } from '../../src/log/port.ts';

const CLICK: Omit<ClickEvent, 'impressionId' | 'clickedAtMs'> = {
  adId: 'ad1',
  advertiserId: 'adv1',
  campaignId: 'c1',
  country: 'DE',
  device: 'mobile',
  class: 'click',
  source: 'http',
  geoVersion: 1,
  ip: '192.0.2.1',
  userAgent: 'Mozilla/5.0 (X11; Linux x86_64)',
  referer: '',
};

export function clickOf(impressionId: string): Buffer {
  const out = Buffer.alloc(MAX_EVENT_BYTES);
  const end = encodeEvent({ ...CLICK, impressionId, clickedAtMs: Date.now() }, out, 0);
  return out.subarray(0, end);
}

/** Appends clicks one by one, `perMs` of them each millisecond or so, until it is told to stop. */
export class Load {
  readonly acknowledged = new Set<string>();
  readonly failures: Error[] = [];
  slowestMs = 0;
  taken = 0;
  #stopped = false;
  #answered = 0;
  readonly #running: Promise<void>;

  constructor(writer: ClickLogWriter, perMs = 2) {
    this.#running = this.#run(writer, perMs);
  }

  async #run(writer: ClickLogWriter, perMs: number): Promise<void> {
    while (!this.#stopped) {
      for (let i = 0; i < perMs; i++) {
        const id = `imp-${this.taken++}`;
        const click = clickOf(id);
        const startedMs = performance.now();
        writer.append(click, click.length, (error) => {
          this.#answered++;
          if (error === null) this.acknowledged.add(id);
          else this.failures.push(error);
          this.slowestMs = Math.max(this.slowestMs, performance.now() - startedMs);
        });
      }
      await Bun.sleep(1);
    }
  }

  /** Stops, and waits until every click was answered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
    await until('every click is answered', () => this.#answered === this.taken);
  }
}

export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + 60_000;
  while (!(await holds())) {
    if (performance.now() > deadlineMs) throw new Error(`not within a minute: ${what}`);
    await Bun.sleep(5);
  }
}

export interface Counted {
  readonly records: number;
  readonly counted: number;
  readonly duplicates: number;
  readonly impressions: ReadonlySet<string>;
}

/** Counts the whole log with the module that the stream and the recount use. */
export async function countLog(reader: ClickLogReader): Promise<Counted> {
  const counting = new Counting({
    dedupWindowMs: 86_400_000,
    watermarkLagMs: 10_000,
    latenessMs: 300_000,
    maxClaims: 1_000_000,
  });
  const view = new EventView();
  const hash = new ImpressionHash();
  const record = emptyRecord();
  const impressions = new Set<string>();
  const outcomes: Record<string, number> = {};
  let records = 0;
  for (const partition of await reader.partitions()) {
    for (let next = 0; ; ) {
      const batches = await reader.read(partition, next, 1024 * 1024);
      if (batches.length === 0) break;
      for (const { firstOffset, count, bytes, bounds } of batches) {
        for (let i = 0; i < count; i++) {
          const start = bounds[2 * i]!;
          if (!view.read(bytes, start, bounds[2 * i + 1]!)) throw new Error('not a click');
          const impression = bytes.latin1Slice(view.impressionStart, view.impressionEnd);
          hash.ofText(impression);
          Object.assign(record, { partition, offset: firstOffset + i, shard: 0, billable: true });
          record.clickedAtMs = view.clickedAtMs;
          record.hash0 = hash.hash0;
          record.hash1 = hash.hash1;
          record.hash2 = hash.hash2;
          record.rowKey = bytes.latin1Slice(view.rowKeyStart, view.rowKeyEnd);
          const outcome = counting.apply(record);
          outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
          impressions.add(impression);
          records++;
        }
        next = firstOffset + count;
      }
    }
  }
  const { counted = 0, duplicate: duplicates = 0 } = outcomes;
  return { records, counted, duplicates, impressions };
}
