import type {
  IngestRow,
  LedgerAdmin,
  LedgerStatus,
  RebuildOutcome,
} from '../../src/api/admin-port.ts';
import { type ApiDeps, createApi } from '../../src/api/api.ts';
import type { Finality } from '../../src/api/history.ts';
import type { AuditLog } from '../../src/auth/audit-log.ts';
import { requestLimits } from '../../src/auth/limits.ts';
import type { Principal } from '../../src/auth/tokens.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import type { VerdictRow } from '../../src/verdicts/port.ts';
import type {
  DriftRow,
  HourState,
  MetricsPage,
  MetricsQuery,
  Restatement,
} from '../../src/warehouse/port.ts';
import { testAudit } from './audit.ts';

/** An admin that remembers what it was asked; a test replaces what it wants to answer otherwise. */
export class FakeAdmin implements LedgerAdmin {
  readonly calls: unknown[] = [];
  readonly rows: IngestRow[] = [];

  async status(): Promise<LedgerStatus> {
    return STATUS;
  }

  reconcile: LedgerAdmin['reconcile'] = async (options, progress) => {
    this.calls.push(options);
    progress('recounting', 1, 2);
    return { hours: [], finalUntilMs: 7_200_000 };
  };

  ingest: LedgerAdmin['ingest'] = async (rows, progress) => {
    for await (const row of rows) {
      this.rows.push(row);
      progress('checked', this.rows.length);
    }
    return { taken: this.rows.length };
  };

  readonly verdictRows: VerdictRow[] = [];
  verdicts: LedgerAdmin['verdicts'] = async (rows, progress) => {
    for await (const row of rows) {
      this.verdictRows.push(row);
      progress('checking', this.verdictRows.length);
    }
    const taken = this.verdictRows.length;
    return { taken, new: taken, unchanged: 0, hours: [] };
  };

  deadLetters: LedgerAdmin['deadLetters'] = async (options) => {
    this.calls.push(options);
    return [LETTER];
  };

  deadLetter: LedgerAdmin['deadLetter'] = async (id) => {
    if (id === LETTER.id) return { ...LETTER, bytes: 'AAE=', event: null };
    throw new LedgerError('dead_letter_unknown', `there is no dead letter ${id}`, {
      hint: 'Look.',
    });
  };

  redrive: LedgerAdmin['redrive'] = async (which) => {
    this.calls.push(which);
    return { redriven: 3 };
  };

  verify: LedgerAdmin['verify'] = async () => ({
    hours: 1,
    rows: 2,
    clicks: 3,
    differences: [],
    archiveProblems: ['a hole'],
  });

  rebuild: LedgerAdmin['rebuild'] = (): Promise<RebuildOutcome> =>
    Promise.reject(
      new LedgerError('archive_unavailable', 'the archive does not answer', {
        kind: 'retry',
        hint: 'Try later.',
      }),
    );
}

/** Of an API whose operating routes do not matter to the test. */
export const READY_OPS: ApiDeps['ops'] = {
  health: () => new Response('ok\n'),
  ready: () => new Response('ready\n'),
  metrics: () => new Response(''),
};

export const LETTER = {
  id: '0-7',
  partition: 0,
  offset: 7,
  appendedAtMs: 1,
  reason: 'undecodable',
  redrivenAtMs: null,
  sizeBytes: 2,
};

const STATUS: LedgerStatus = {
  version: '0',
  nowMs: 1,
  partitions: [],
  outcomes: { counted: 5 },
  asOfMs: 1,
  finalUntilMs: 0,
  recentHours: [],
  stuck: null,
  deadLetters: {},
  counter: { claims: 0, claimBytes: 0, openRows: 0, heldRows: 0, forgotten: 0 },
  problems: [],
  clicks: null,
  rssBytes: 1,
};

/** A warehouse that answers with what the test put in, and remembers the queries. */
export class FakeWarehouse {
  readonly asked: { query: MetricsQuery; finalUntilMs: number }[] = [];
  page: MetricsPage = { rows: [], next: undefined };
  hourStates: HourState[] = [];
  changes: Restatement[] = [];
  drifts: DriftRow[] = [];
  failure: Error | null = null;

  async metrics(query: MetricsQuery, finalUntilMs: number): Promise<MetricsPage> {
    this.asked.push({ query, finalUntilMs });
    if (this.failure !== null) throw this.failure;
    return this.page;
  }

  async hours(): Promise<HourState[]> {
    return this.hourStates;
  }

  async restatements(_from: number, _to: number, advertiserId?: string): Promise<Restatement[]> {
    return this.changes.filter((row) => (advertiserId ?? row.advertiserId) === row.advertiserId);
  }

  async drift(_from: number, _to: number, advertiserId?: string): Promise<DriftRow[]> {
    return this.drifts.filter((row) => (advertiserId ?? row.advertiserId) === row.advertiserId);
  }
}

/** Half an hour of lateness and an hour of delay: 10:00 is due, 11:00 waits, 12:00 is open. */
export function testFinality(over: Partial<Finality> = {}): Finality {
  return {
    clock: () => NOON_MS,
    latenessMs: 1_800_000,
    delayMs: 3_600_000,
    stuck: () => null,
    coveredUntilMs: async () => NOON_MS - 60_000,
    ...over,
  };
}

const PRINCIPALS: Readonly<Record<string, Principal>> = {
  reader: { scope: 'read', advertiserId: 'adv-1', tokenId: 't1' },
  admin: { scope: 'admin', tokenId: 't2' },
};

let audit: AuditLog | null = null;
/** For tests that do not look at it. */
function sharedAudit(): AuditLog {
  audit ??= testAudit();
  return audit;
}

/** The time of the tests: the ledger has counted up to 12:34:56 and is final up to 10:00. */
export const NOON_MS = Date.UTC(2026, 2, 10, 12, 34, 56);
export const FINAL_MS = Date.UTC(2026, 2, 10, 10);

export function setUpApi(over: Partial<ApiDeps> = {}) {
  const warehouse = new FakeWarehouse();
  const admin = new FakeAdmin();
  const logged: { error: unknown; message: string }[] = [];
  const state = { finalUntilMs: FINAL_MS };
  const api = createApi({
    config: { maxRows: 100, maxAdIds: 50 },
    tokens: { authenticate: async (token) => PRINCIPALS[token] ?? null },
    limits: requestLimits(0, () => NOON_MS),
    audit: sharedAudit(),
    warehouse,
    admin,
    finalUntilMs: () => state.finalUntilMs,
    finality: testFinality(),
    asOfMs: () => NOON_MS,
    ops: {
      health: () => new Response('ok\n'),
      ready: () => new Response('not yet\n', { status: 503 }),
      metrics: async () => new Response('clicks 1\n'),
    },
    log: (error, message) => logged.push({ error, message }),
    ...over,
  });
  const send = (path: string, init: RequestInit = {}, token: string | null = 'reader') => {
    const headers = new Headers(init.headers);
    if (token !== null) headers.set('Authorization', `Bearer ${token}`);
    return api.fetch(new Request(`http://t.example${path}`, { ...init, headers }));
  };
  return { api, warehouse, admin, logged, state, send };
}

/** The body of an answer as plain JSON, for `expect`. */
export async function jsonOf(
  answer: Response | Promise<Response>,
): Promise<Record<string, unknown>> {
  return (await (await answer).json()) as Record<string, unknown>;
}
