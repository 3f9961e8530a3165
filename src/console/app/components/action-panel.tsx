/** A long action of the ledger: a button, its progress, and what came of it. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ActionProgress } from '../api/client.ts';
import { useAct } from '../state/use-act.ts';
import { Button } from './button.tsx';
import { ErrorNote } from './states.tsx';

interface ActionPanelProps<T> {
  readonly action: string;
  readonly kind?: 'primary' | 'plain' | 'danger';
  readonly disabled?: boolean;
  readonly run: (onProgress: (progress: ActionProgress) => void) => Promise<T>;
  readonly result: (result: T) => ComponentChildren;
}

export function ActionPanel<T>(props: ActionPanelProps<T>) {
  const act = useAct();
  const [progress, setProgress] = useState<ActionProgress>();
  const [result, setResult] = useState<T>();
  const start = (): Promise<void> =>
    act.run(async () => {
      setResult(undefined);
      setProgress({ message: 'starting' });
      try {
        setResult(await props.run(setProgress));
      } finally {
        setProgress(undefined);
      }
    });
  return (
    <div class="action-panel">
      <Button
        kind={props.kind ?? 'plain'}
        busy={act.busy}
        disabled={props.disabled ?? false}
        onClick={() => void start()}
      >
        {props.action}
      </Button>
      <div class="action-outcome" aria-live="polite">
        {progress !== undefined && <ProgressLine progress={progress} />}
        {act.error !== undefined && <ErrorNote error={act.error} />}
        {result !== undefined && props.result(result)}
      </div>
    </div>
  );
}

function ProgressLine({ progress }: { progress: ActionProgress }) {
  const { message, done, total } = progress;
  const known = done !== undefined && total !== undefined && total > 0;
  return (
    <div class="progress">
      <span>
        {message}
        {done !== undefined && ` · ${done}${total === undefined ? '' : ` of ${total}`}`}
      </span>
      <progress aria-label={message} {...(known ? { value: done, max: total } : {})} />
    </div>
  );
}
