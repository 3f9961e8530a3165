/** One thing that the user sets off: runs once at a time, and says what became of it. */
import { useState } from 'preact/hooks';
import { type ApiError, asApiError } from '../api/problem.ts';

export interface Act {
  readonly busy: boolean;
  readonly error: ApiError | undefined;
  readonly run: (action: () => Promise<void>) => Promise<void>;
  readonly clear: () => void;
}

export function useAct(): Act {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  return {
    busy,
    error,
    clear: () => setError(undefined),
    async run(action) {
      if (busy) return;
      setBusy(true);
      setError(undefined);
      try {
        await action();
      } catch (caught) {
        setError(asApiError(caught));
      } finally {
        setBusy(false);
      }
    },
  };
}
