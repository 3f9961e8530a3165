/** What a view shows while it waits, when there is nothing, and when something went wrong. */
import type { ComponentChildren } from 'preact';
import type { ApiError } from '../api/problem.ts';
import type { Query } from '../state/use-query.ts';
import { Button } from './button.tsx';

export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status">
      <span class="visually-hidden">Loading…</span>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} class="skeleton-line" aria-hidden="true" />
      ))}
    </div>
  );
}

export function ErrorNote({ error, onRetry }: { error: ApiError; onRetry?: () => void }) {
  return (
    <div class="note note-bad" role="alert">
      <div>
        <strong>{error.message}</strong>
        {error.hint !== undefined && <p>{error.hint}</p>}
      </div>
      {onRetry !== undefined && (
        <Button kind="plain" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Note(props: { tone?: 'good' | 'warn' | 'info'; children: ComponentChildren }) {
  return (
    <div class={`note note-${props.tone ?? 'info'}`} role="status">
      <div>{props.children}</div>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
    </div>
  );
}

interface LoadedProps<T> {
  readonly query: Query<T>;
  /** Lines of the placeholder: as high as what will come. */
  readonly lines?: number;
  readonly children: (data: T) => ComponentChildren;
}

/** An answer, or what there is in its place. An answer that could not be renewed stays, with a note. */
export function Loaded<T>({ query, lines, children }: LoadedProps<T>) {
  const { data, error, busy, reload } = query;
  return (
    <div class="loaded" aria-busy={busy}>
      {error !== undefined && <ErrorNote error={error} onRetry={reload} />}
      {data !== undefined && children(data)}
      {data === undefined && error === undefined && (
        <Loading {...(lines === undefined ? {} : { lines })} />
      )}
    </div>
  );
}
