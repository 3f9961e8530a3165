/** The present, as often as it matters; stands still while nobody looks. */
import { useEffect, useState } from 'preact/hooks';
import { useApp } from './context.ts';

export function useTick(everyMs: number): number {
  const { clock } = useApp();
  const [nowMs, setNowMs] = useState(clock);
  useEffect(() => {
    const step = (): void => {
      if (!document.hidden) setNowMs(clock());
    };
    const timer = setInterval(step, everyMs);
    document.addEventListener('visibilitychange', step);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', step);
    };
  }, [clock, everyMs]);
  return nowMs;
}
