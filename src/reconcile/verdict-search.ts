/**
 * Finds the final hours that new verdicts change, and notes them for the next reconcile.
 *
 * Q1 Verdicts up to the noted sequence have been searched for in every hour that was final then; hours
 *    that turned final later were counted with them. So what is behind the sequence is all there is
 *    to search, also after a restart.
 *
 * The effects, and what holds if the process dies right after each:
 *   2. hours noted    – they are restated; the next search notes them once more, which changes nothing
 *   3. sequence noted – done
 * (Effect 1 is the verdicts' own archiving, `take-verdicts.ts`.)
 */
import { existsSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Manifest } from '../archive/manifest.ts';
import { yieldToEventLoop } from '../archive/parquet.ts';
import type { HashIndex } from '../platform/hash-index.ts';
import type { VerdictArchive } from '../verdicts/archive.ts';
import type { VerdictProgress } from '../verdicts/port.ts';
import type { HourSource } from './hour-source.ts';
import { writeJsonFile } from './json-file.ts';
import type { PendingHours } from './pending-hours.ts';

const fileSchema = z.strictObject({ sequence: z.int().min(0) });

/** Up to which object verdicts were searched for in final hours, in a file. */
export class SearchedVerdicts {
  readonly #path: string;
  #sequence: number;

  constructor(path: string) {
    this.#path = path;
    const text = existsSync(path) ? readFileSync(path, 'utf8') : '{"sequence":0}';
    this.#sequence = fileSchema.parse(JSON.parse(text)).sequence;
  }

  get sequence(): number {
    return this.#sequence;
  }

  save(sequence: number): void {
    writeJsonFile(this.#path, { sequence });
    this.#sequence = sequence;
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
    // A restored archive may lack its newest verdicts, and nothing else would tell.
    options.verdicts.expect(options.searched.sequence);
  }

  /** Hours before `finalUntilMs` that have an impression whose verdict is new, now noted as pending. */
  async run(finalUntilMs: number, progress: VerdictProgress = () => {}): Promise<number[]> {
    const { verdicts, source, manifest, pending, searched } = this.#options;
    // Also what was archived while its answer was lost: it is in force.
    await verdicts.catchUp();
    if (searched.sequence === verdicts.sequence) return [];
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
    pending.add(found); // 2
    searched.save(verdicts.sequence); // 3
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
