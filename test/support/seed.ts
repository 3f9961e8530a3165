/**
 * What every random test gives to `fc.assert`: the seed from the environment when it is set, so that
 * a failure that fast-check printed can be run again.
 */
export function fcParams(numRuns = 200): { numRuns: number; seed?: number } {
  const seed = process.env.FC_SEED;
  return seed === undefined ? { numRuns } : { numRuns, seed: Number(seed) };
}
