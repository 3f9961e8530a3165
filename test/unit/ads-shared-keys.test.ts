/** Signing keys of many machines: made on one, known to all, retired for all. */
import { describe, expect, test } from 'bun:test';
import { createKey, retireKey } from '../../src/ads/keys.ts';
import type { KeyStore, SigningKey } from '../../src/ads/port.ts';
import { SharedKeys } from '../../src/ads/shared-keys.ts';
import { MemoryState } from '../support/memory-state.ts';

class Machine implements KeyStore {
  readonly #keys = new Map<string, SigningKey>();

  keys(): readonly SigningKey[] {
    return [...this.#keys.values()];
  }

  activeKeys(): readonly SigningKey[] {
    return this.keys().filter(({ retiredAtMs }) => retiredAtMs === null);
  }

  async putKey(key: SigningKey): Promise<void> {
    this.#keys.set(key.kid, key);
  }
}

const clock = (): number => 1_000;

function twoMachines() {
  const state = new MemoryState();
  const [one, other] = [new Machine(), new Machine()];
  return {
    state,
    one,
    other,
    keys: new SharedKeys(state, one),
    others: new SharedKeys(state, other),
  };
}

describe('a signing key', () => {
  test('made on one machine verifies on all', async () => {
    const { keys, others, other } = twoMachines();
    const key = await createKey(keys, clock, 'k1');
    expect(other.activeKeys()).toEqual([]);
    expect(await others.pull()).toBe(1);
    expect(other.activeKeys()).toEqual([key]);
    expect(await others.pull()).toBe(0);
  });

  test('retired on one machine verifies nowhere, and stays retired', async () => {
    const { state, keys, others, one, other } = twoMachines();
    await createKey(keys, clock, 'k1');
    await createKey(keys, clock, 'k2');
    await others.pull();
    await retireKey(others, clock, { kid: 'k1' });
    expect(await keys.pull()).toBe(1);
    expect(one.activeKeys().map(({ kid }) => kid)).toEqual(['k2']);
    // A machine that has not heard of it brings its keys: the retirement holds.
    const late = new Machine();
    await late.putKey({ ...one.keys()[0]!, retiredAtMs: null });
    const lateKeys = new SharedKeys(state, late);
    await lateKeys.push();
    await lateKeys.pull();
    await others.pull();
    expect(late.activeKeys().map(({ kid }) => kid)).toEqual(['k2']);
    expect(other.activeKeys().map(({ kid }) => kid)).toEqual(['k2']);
  });

  test('that was retired stays so where the shared state comes back from before', async () => {
    const { keys, others, one, other } = twoMachines();
    const key = await createKey(keys, clock, 'k1');
    await others.pull();
    await other.putKey({ ...key, retiredAtMs: 2 });
    expect(await others.pull()).toBe(0);
    expect([one.activeKeys().length, other.activeKeys().length]).toEqual([1, 0]);
  });

  test('of a name that another machine has taken is refused, and nowhere to be found', async () => {
    const { keys, others, other } = twoMachines();
    await createKey(keys, clock, 'k1');
    await expect(createKey(others, clock, 'k1')).rejects.toMatchObject({ code: 'kid_taken' });
    expect(other.keys()).toEqual([]);
  });

  test('is made by no machine while the shared state is away', async () => {
    const { state, keys, one } = twoMachines();
    state.failure = new Error('away');
    await expect(createKey(keys, clock, 'k1')).rejects.toThrow('away');
    expect(one.keys()).toEqual([]);
  });

  test('that a machine had when it ran alone is brought to the others', async () => {
    const { keys, one, others, other } = twoMachines();
    const key = await createKey(one, clock, 'old');
    await keys.push();
    await others.pull();
    expect(other.keys()).toEqual([key]);
  });
});
