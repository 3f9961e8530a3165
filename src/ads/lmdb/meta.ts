/** The single values of an environment: versions, and how far another system's table was read. */
import type { Database } from 'lmdb';

const NUMBER_BYTES = 6;

/** `version` rises with every change, `adsVersion` with every change of ads only. */
export type MetaNumber =
  | 'version'
  | 'ads_version'
  /** Ads version of the map file in use, 0 for none; missing in folders of older releases. */
  | 'map_version'
  /** Ads version of the map file that is being written, 0 for none. */
  | 'map_pending'
  | 'changed_count';

const SYNC_STATE = 'sync_state';

export class Meta {
  readonly #db: Database<Buffer, string>;

  constructor(db: Database<Buffer, string>) {
    this.#db = db;
  }

  read(name: MetaNumber): number {
    return this.find(name) ?? 0;
  }

  find(name: MetaNumber): number | undefined {
    return this.#db.getBinaryFast(name)?.readUIntLE(0, NUMBER_BYTES);
  }

  write(name: MetaNumber, value: number): void {
    const bytes = Buffer.alloc(NUMBER_BYTES);
    bytes.writeUIntLE(value, 0, NUMBER_BYTES);
    this.#db.putSync(name, bytes);
  }

  raise(name: MetaNumber): number {
    const next = this.read(name) + 1;
    this.write(name, next);
    return next;
  }

  get syncState(): string | null {
    return this.#db.get(SYNC_STATE)?.toString('utf8') ?? null;
  }

  set syncState(state: string) {
    this.#db.putSync(SYNC_STATE, Buffer.from(state));
  }
}
