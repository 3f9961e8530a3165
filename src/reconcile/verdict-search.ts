/**
 * Finds the final hours that new verdicts change, and notes them for the next reconcile.
 *
 * Q1 Verdicts up to the noted sequence have been searched for in every hour that was final then; hours
 *    that turned final later were counted with them, or are pending. So what is behind the sequence is
 *    all there is to search, also after a restart, and for every process.
 * Q2 A search is made in a turn that was still held after the verdicts were read: who turns an hour
 *    final in a later turn has read them too.
 *
 * Why Q2: a search sees the hours that were final when its turn began. Made while another process
 * recounts an hour without the verdict, it would pass over that hour, note the sequence, and nobody
 * would look again: the verdict would be lost. With it there are two kinds of publications behind the
 * search's back: those of later turns, which are counted with the verdict, and one of an earlier turn that
 * arrives late, whose hour is pending (N2) and is recounted.
 *
 * The effects, and what holds if the process dies, or loses its turn, right after each:
 *   2. hours noted    – they are restated; the next search notes them once more, which changes nothing
 *   3. sequence noted – done
 * (Effect 1 is the verdicts' own archiving, `take-verdicts.ts`.)
 */
import { z } from 'zod';
import type { Manifest } from '../archive/manifest.ts';
import { yieldToEventLoop } from '../archive/parquet.ts';
import type { SharedState } from '../control/port.ts';
import type { HashIndex } from '../platform/hash-index.ts';
import type { VerdictArchive } from '../verdicts/archive.ts';
import type { VerdictProgress } from '../verdicts/port.ts';
import type { HourSource } from './hour-source.ts';
import type { PendingHours } from './pending-hours.ts';
import type { Turn } from './turns.ts';

const KEY = 'verdicts-searched';
const schema = z.strictObject({ sequence: z.int().min(0) });

/** Up to which object verdicts were searched for in final hours, by whichever process. */
export class SearchedVerdicts {
  readonly #state: SharedState;
  #sequence = 0;

  constructor(state: SharedState) {
    this.#state = state;
  }

  /** As it was read last. */
  get sequence(): number {
    return this.#sequence;
  }

  async load(): Promise<void> {
    this.#sequence = (await this.#state.get(KEY, schema))?.sequence ?? 0;
  }

  /** A search that ends after a newer one does not take it back. */
  async save(sequence: number): Promise<void> {
    const saved = await this.#state.update(KEY, schema, (old) => {
      return { sequence: Math.max(sequence, old?.sequence ?? 0) };
    });
    this.#sequence = saved.sequence;
  }
}

export interface VerdictSearchOptions {
  readonly verdicts: VerdictArchive;
  readonly source: Pick<HourSource, 'impressions'>;
  readonly manifest: Pick<Manifest, 'hours'>;
  readonly pending: PendingHours;
  readonly searched: SearchedVerdicts;
}

export class VerdictSearch {
  readonly #options: VerdictSearchOptions;

  constructor(options: VerdictSearchOptions) {
    this.#options = options;
  }

  /** Reads the verdicts that others have taken. What is wrong with them is in the archive's `problem`. */
  async learn(): Promise<void> {
    const { verdicts, searched } = this.#options;
    // In this order: what was searched for by then has been archived before.
    await searched.load();
    try {
      if (verdicts.problem === null) await verdicts.catchUp();
    } catch (error) {
      if (error !== verdicts.problem) throw error;
    }
    // A restored archive may lack its newest verdicts, and nothing else would tell.
    verdicts.expect(searched.sequence);
  }

  /** Whether a search would do something, or say what keeps it from it. */
  get isNeeded(): boolean {
    const { verdicts, searched } = this.#options;
    return verdicts.problem !== null || searched.sequence !== verdicts.sequence;
  }

  /** Hours before `finalUntilMs` that have an impression whose verdict is new, now noted as pending. */
  async run(
    finalUntilMs: number,
    turn: Pick<Turn, 'assertHeld'>,
    progress: VerdictProgress = () => {},
  ): Promise<number[]> {
    const { verdicts, source, manifest, pending, searched } = this.#options;
    // Also what was archived while its answer was lost: it is in force.
    await verdicts.catchUp();
    if (searched.sequence === verdicts.sequence) return [];
    const { sequence } = verdicts;
    await turn.assertHeld(); // Q2
    const { impressions, fromMs } = await verdicts.table.changedSince(searched.sequence);
    const hours = manifest.hours().filter((each) => each >= fromMs && each < finalUntilMs);
    const sieve = new Sieve(impressions);
    const found: number[] = [];
    if (impressions.size > 0) {
      for (const [index, hourMs] of hours.entries()) {
        progress('looking for the clicks in final hours', index, hours.length);
        if (sieve.hasAny(await source.impressions(hourMs))) found.push(hourMs);
        await yieldToEventLoop();
      }
    }
    await pending.add(found); // 2
    await searched.save(sequence); // 3
    return found;
  }
}

/** Most impressions are not looked for: 8 KB of bits, which stay in the nearest cache, tell at once. */
class Sieve {
  readonly #bits = new Uint32Array(0x1_0000 / 32);
  readonly #impressions: HashIndex;

  constructor(impressions: HashIndex) {
    this.#impressions = impressions;
    const words = impressions.words();
    for (let at = 0; at < words.length; at += 3) {
      const top = words[at]! >>> 16;
      this.#bits[top >>> 5]! |= 1 << (top & 31);
    }
  }

  hasAny(words: Uint32Array): boolean {
    const bits = this.#bits;
    for (let at = 0; at < words.length; at += 3) {
      const top = words[at]! >>> 16;
      if ((bits[top >>> 5]! & (1 << (top & 31))) === 0) continue;
      if (this.#impressions.find(words[at]!, words[at + 1]!, words[at + 2]!) >= 0) return true;
    }
    return false;
  }
}
