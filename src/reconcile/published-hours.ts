/** The published state of every hour, as the warehouse has it: ours, and those of other processes. */
import { HOUR_MS } from '../archive/names.ts';
import type { HourState, Publication, Warehouse } from '../warehouse/port.ts';

export class PublishedHours {
  readonly #warehouse: Pick<Warehouse, 'hours' | 'publish' | 'refresh'>;
  #states = new Map<number, HourState>();
  /** Rises when a publication begins and when it ends. */
  #publications = 0;

  constructor(warehouse: Pick<Warehouse, 'hours' | 'publish' | 'refresh'>) {
    this.#warehouse = warehouse;
  }

  async load(): Promise<void> {
    await this.#warehouse.refresh();
    const publications = this.#publications;
    const hours = await this.#warehouse.hours(0, Number.MAX_SAFE_INTEGER);
    // One of our own has come meanwhile, which may not be among them.
    if (publications !== this.#publications) return;
    this.#states = new Map(hours.map((hour) => [hour.hourMs, hour]));
  }

  async publish(publication: Publication): Promise<void> {
    this.#publications++;
    await this.#warehouse.publish(publication);
    this.#publications++;
    this.#states.set(publication.hour.hourMs, publication.hour);
  }

  get all(): ReadonlyMap<number, HourState> {
    return this.#states;
  }

  /** Sum over all hours. */
  get revisions(): number {
    let sum = 0;
    for (const { revision } of this.#states.values()) sum += revision;
    return sum;
  }

  get(hourMs: number): HourState | undefined {
    return this.#states.get(hourMs);
  }

  /** End of the last final hour, ms UTC; 0 when none is final. */
  get finalUntilMs(): number {
    let last = Number.NEGATIVE_INFINITY;
    for (const hourMs of this.#states.keys()) if (hourMs > last) last = hourMs;
    return Number.isFinite(last) ? last + HOUR_MS : 0;
  }
}
