/** Pages by cursor: forward with what the answer gave, back with what was remembered. */
import { useEffect, useState } from 'preact/hooks';

export interface Pages {
  readonly cursor: string | undefined;
  readonly page: number;
  readonly next: (cursor: string | null) => void;
  readonly previous: () => void;
}

/** Begins anew when the question changes. */
export function usePages(key: string): Pages {
  const [trail, setTrail] = useState<readonly string[]>([]);
  // another question has other pages.
  useEffect(() => setTrail([]), [key]);
  return {
    cursor: trail.at(-1),
    page: trail.length + 1,
    next: (cursor) => {
      if (cursor !== null) setTrail([...trail, cursor]);
    },
    previous: () => setTrail(trail.slice(0, -1)),
  };
}
