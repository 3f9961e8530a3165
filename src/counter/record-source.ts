/**
 * Turns the log's bytes into the records that counting takes, and sets aside what cannot be counted.
 */
import { ImpressionHash } from '../counting/impression-hash.ts';
import { emptyRecord } from '../counting/types.ts';
import { CLICK_CLASSES, clickedAtProblem, type DeadLetterReason } from '../event/click-event.ts';
import { EVENT_VERSION, EventView } from '../event/codec.ts';
import type { RecordBatch } from '../log/port.ts';

const CLICK = CLICK_CLASSES.indexOf('click');

export class RecordSource {
  readonly record = emptyRecord();
  readonly #view = new EventView();
  readonly #hash = new ImpressionHash();
  readonly #maxSkewMs: number;

  constructor(maxSkewMs: number) {
    this.#maxSkewMs = maxSkewMs;
  }

  /** Fills `record` from record `index` of the batch; returns the reason when it cannot be counted. */
  read(batch: RecordBatch, index: number): DeadLetterReason | null {
    const { bytes } = batch;
    const view = this.#view;
    if (!view.read(bytes, batch.bounds[2 * index]!, batch.bounds[2 * index + 1]!))
      return 'undecodable';
    if (view.version !== EVENT_VERSION) return 'unsupported_version';
    const problem = clickedAtProblem(view.clickedAtMs, batch.appendedAtMs, this.#maxSkewMs);
    if (problem !== null) return problem;
    const record = this.record;
    record.partition = batch.partition;
    record.shard = batch.partition;
    record.offset = batch.firstOffset + index;
    record.clickedAtMs = view.clickedAtMs;
    record.billable = view.class === CLICK;
    this.#hash.ofBytes(bytes, view.impressionStart, view.impressionEnd);
    record.hash0 = this.#hash.hash0;
    record.hash1 = this.#hash.hash1;
    record.hash2 = this.#hash.hash2;
    record.rowKey = bytes.latin1Slice(view.rowKeyStart, view.rowKeyEnd);
    return null;
  }

  /** The impression of the record read last; made on demand, since counting needs its hash only. */
  impressionId(batch: RecordBatch): string {
    return batch.bytes.latin1Slice(this.#view.impressionStart, this.#view.impressionEnd);
  }
}
