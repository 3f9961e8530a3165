/** Dead letters in batches: a log that was damaged, or written by others, has many, and large ones. */

export interface BatchLimits {
  readonly letters: number;
  readonly bytes: number;
}

/** In their order; a letter that is larger than a batch is one of its own. */
export function* letterBatches<T>(
  letters: readonly T[],
  limits: BatchLimits,
  sizeOf: (letter: T) => number,
): Generator<T[]> {
  let batch: T[] = [];
  let bytes = 0;
  for (const letter of letters) {
    const size = sizeOf(letter);
    if (batch.length === limits.letters || (batch.length > 0 && bytes + size > limits.bytes)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(letter);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}
