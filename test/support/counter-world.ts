/**
 * Several counters over one log in memory, each on a machine of its own: a journal folder that can be
 * lost, a process that can die or be stopped without knowing it.
 */

import { type CounterNote, decodeNote } from '../../src/counter/note.ts';
import type { DeadLetter } from '../../src/counter/port.ts';
import type { LiveGap } from '../../src/counter/takeover-notes.ts';
import { CounterWorker, type CounterWorkerOptions } from '../../src/counter/worker.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { COUNTING, LiveRows, MINUTE_MS, rowKeyOf } from '../crash/ledger-world.ts';
import { click } from './archive-fixtures.ts';
import { type AuditOutcomes, type AuditRecord, audit } from './auditor.ts';
import { until } from './log-tools.ts';
import { MemoryGroup, type MemoryMember } from './memory-group.ts';
import { MemoryJournals } from './memory-journal.ts';
import { MemoryLog } from './memory-log.ts';

export const START_MS = Date.UTC(2026, 4, 5, 10, 0, 0);
export { COUNTING, MINUTE_MS };

export interface Process {
  readonly worker: CounterWorker;
  readonly member: MemoryMember;
}

export class Machine {
  readonly name: string;
  readonly journals = new MemoryJournals();

  constructor(name: string) {
    this.name = name;
  }
}

export class CounterWorld {
  readonly log = new MemoryLog();
  readonly live = new LiveRows();
  readonly group: MemoryGroup;
  readonly letters = new Map<string, DeadLetter>();
  readonly gaps: LiveGap[] = [];
  readonly accepted = new Map<number, number>();
  readonly errors: Error[] = [];
  /** Everything that was ever appended, for the auditor. */
  readonly logs = new Map<number, AuditRecord[]>();
  rebuildId = 0;
  nowMs = START_MS;
  readonly #processes = new Set<Process>();

  constructor(partitions: readonly number[]) {
    this.group = new MemoryGroup(partitions);
    for (const partition of partitions) {
      this.log.create(partition);
      this.logs.set(partition, []);
    }
  }

  readonly clock = (): number => this.nowMs;

  append(partition: number, events: readonly ClickEvent[]): void {
    const log = this.logs.get(partition)!;
    for (const event of events) {
      const { impressionId, clickedAtMs, class: kind } = event;
      const [offset, rowKey] = [log.length, rowKeyOf(event)];
      log.push({ partition, offset, impressionId, clickedAtMs, class: kind, rowKey });
    }
    this.log.append(partition, events, this.nowMs);
  }

  /** `count` clicks of now on impressions of their own. */
  appendClicks(partition: number, count: number, over: Partial<ClickEvent> = {}): void {
    const from = this.logs.get(partition)!.length;
    const events = Array.from({ length: count }, (_, i) =>
      click(`imp-${partition}-${from + i}`, { clickedAtMs: this.nowMs, ...over }),
    );
    this.append(partition, events);
  }

  start(machine: Machine, over: Partial<CounterWorkerOptions> = {}): Process {
    const member = this.group.member(machine.name);
    const worker = new CounterWorker({
      group: member,
      reader: this.log,
      warehouse: this.live,
      deadLetters: {
        put: async (letters) => {
          for (const each of letters) this.letters.set(`${each.partition}-${each.offset}`, each);
        },
      },
      openJournal: (partition) => machine.journals.open(partition),
      dropJournal: machine.journals.drop,
      clock: this.clock,
      counting: COUNTING,
      upsertIntervalMs: 5,
      commitRecords: 50,
      maxHeldRows: 100_000,
      holder: machine.name,
      rebuildId: () => this.rebuildId,
      acceptedGaps: () => this.accepted,
      onGap: async (gap) => void this.gaps.push(gap),
      onError: (error) => void this.errors.push(error),
      ...over,
    });
    const process = { worker, member };
    this.#processes.add(process);
    worker.start();
    return process;
  }

  /** Dies at once: nothing more is written, not even what is under way. */
  kill({ worker, member }: Process, machine: Machine): void {
    this.group.remove(member);
    worker.lost();
    machine.journals.crash();
  }

  note(partition: number): CounterNote {
    return decodeNote(this.group.committed.get(partition)!.note)!;
  }

  endOf(partition: number): number {
    return this.logs.get(partition)!.length;
  }

  /** Whether everything in the log is counted and in the live rows, and the notes say so. */
  isCaughtUp(partition: number): boolean {
    const committed = this.group.committed.get(partition);
    if (committed === undefined) return false;
    return (
      committed.offset === this.endOf(partition) &&
      this.note(partition).upserted === committed.offset
    );
  }

  async caughtUp(partitions = this.group.partitions): Promise<void> {
    await until(
      () => partitions.every((partition) => this.isCaughtUp(partition)),
      `everything is counted: ${this.describe()}`,
    );
  }

  describe(): string {
    const ends = [...this.logs].map(([partition, log]) => `${partition}:${log.length}`);
    return `${ends.join(' ')} | ${this.errors.map(({ message }) => message).join(', ')}`;
  }

  /** What one counter over each whole log would have: partitions share no impressions. */
  expected(): { rows: Map<string, number>; outcomes: AuditOutcomes } {
    const rows = new Map<string, number>();
    const outcomes: AuditOutcomes = { counted: 0, duplicate: 0, late: 0, not_billable: 0 };
    for (const log of this.logs.values()) {
      const one = audit([log], { ...COUNTING, shards: 'partition' });
      for (const [name, clicks] of one.rows) rows.set(name, clicks);
      for (const key of ['counted', 'duplicate', 'late', 'not_billable'] as const) {
        outcomes[key] += one.outcomes[key];
      }
    }
    return { rows, outcomes };
  }

  outcomes(): AuditOutcomes {
    const sums: AuditOutcomes = { counted: 0, duplicate: 0, late: 0, not_billable: 0 };
    for (const partition of this.group.committed.keys()) {
      const { outcomes } = this.note(partition);
      for (const key of ['counted', 'duplicate', 'late', 'not_billable'] as const) {
        sums[key] += outcomes[key] ?? 0;
      }
    }
    return sums;
  }

  async dispose(): Promise<void> {
    for (const { worker, member } of this.#processes) {
      this.group.remove(member);
      worker.lost();
    }
    // What is under way ends by itself; journals are in memory.
    await Promise.all([...this.#processes].map(({ worker }) => worker.close().catch(() => {})));
  }
}
