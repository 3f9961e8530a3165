/**
 * An answer of the API, and what became of asking for it.
 *
 * While a new answer is on its way the old one stays on the screen: nothing jumps. An answer that
 * comes after a newer question was asked is dropped.
 */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { type ApiError, asApiError, isAbort } from '../api/problem.ts';

export interface Query<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  readonly busy: boolean;
  readonly reload: () => void;
}

export interface QueryOptions {
  /** Asks again so often while the page is visible. */
  readonly everyMs?: number;
  /** Keeps showing the answer to another question meanwhile, for a filter or a range that changes. */
  readonly keep?: boolean;
}

interface State<T> {
  readonly key: string | null;
  readonly data?: T;
  readonly error?: ApiError;
}

/** `key` is the question; null asks nothing. */
export function useQuery<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  { everyMs, keep = false }: QueryOptions = {},
): Query<T> {
  const [state, setState] = useState<State<T>>({ key: null });
  const [busy, setBusy] = useState(key !== null);
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((before) => before + 1), []);

  // the key stands for what `load` asks.
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    setBusy(true);
    load(abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return;
        setState({ key, data });
        setBusy(false);
      },
      (error: unknown) => {
        if (abort.signal.aborted || isAbort(error)) return;
        setState((before) => ({
          ...(before.key === key || keep ? before : {}),
          key,
          error: asApiError(error),
        }));
        setBusy(false);
      },
    );
    return () => abort.abort();
  }, [key, round]);

  useEffect(() => {
    if (everyMs === undefined || key === null) return;
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, key, reload]);

  const isShown = state.key === key || keep;
  // From the very render in which the question changes: what is shown answers the one before.
  const isBehind = key !== null && state.key !== key;
  return {
    data: isShown ? state.data : undefined,
    error: state.key === key ? state.error : undefined,
    busy: busy || isBehind,
    reload,
  };
}
