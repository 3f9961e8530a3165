/** Where everything lies below the data folder. No other file spells these names. */
import { join } from 'node:path';

export interface DataPaths {
  readonly root: string;
  /** The click log: `p<partition>/<first offset>.log`. */
  readonly log: string;
  /** With Kafka: clicks that it did not take in time, `p<worker>/…`, and how far they are shipped. */
  readonly spool: string;
  /** LMDB environment with ads and signing keys, mapped by every click worker. */
  readonly catalog: string;
  /** The counter's journal. */
  readonly counterState: string;
  readonly archive: string;
  /** Recount indexes; derived from the archive. */
  readonly recountIndex: string;
  readonly warehouse: string;
  /** SQLite: dead letters. */
  readonly deadLetters: string;
  /** SQLite: the audit log, API tokens, disputes, webhooks. */
  readonly control: string;
  /** Lock, sockets and process ids of a running product. */
  readonly run: string;
  /** There while the warehouse is being built again. */
  readonly rebuildMarker: string;
  /** Unix socket of the ledger's admin API. */
  readonly adminSocket: string;
}

/** The partition that the ledger itself writes: recorded clicks and redriven dead letters. */
export const LEDGER_PARTITION = 1000;

export function dataPaths(root: string): DataPaths {
  return {
    root,
    log: join(root, 'log'),
    spool: join(root, 'spool'),
    catalog: join(root, 'catalog'),
    counterState: join(root, 'counter'),
    archive: join(root, 'archive'),
    recountIndex: join(root, 'recount'),
    warehouse: join(root, 'warehouse'),
    deadLetters: join(root, 'dead-letters.sqlite'),
    control: join(root, 'control.sqlite'),
    run: join(root, 'run'),
    rebuildMarker: join(root, 'run', 'rebuilding'),
    adminSocket: join(root, 'run', 'admin.sock'),
  };
}
