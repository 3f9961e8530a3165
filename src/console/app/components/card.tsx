import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

interface CardProps {
  readonly title: string;
  readonly hint?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A part of a view, with a heading that names it. */
export function Card({ title, hint, actions, children }: CardProps) {
  const id = useId();
  return (
    <section class="card" aria-labelledby={id}>
      <header class="card-head">
        <div>
          <h2 id={id}>{title}</h2>
          {hint !== undefined && <p class="hint">{hint}</p>}
        </div>
        {actions !== undefined && <div class="card-actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

interface StatProps {
  readonly label: string;
  readonly value: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly tone?: 'good' | 'warn' | 'bad' | undefined;
}

/** One number that matters, what it is, and what it means. */
export function Stat({ label, value, note, tone }: StatProps) {
  return (
    <div class={`stat${tone === undefined ? '' : ` stat-${tone}`}`}>
      <dt>{label}</dt>
      <dd>
        <span class="stat-value">{value}</span>
        <span class="stat-note">{note ?? ' '}</span>
      </dd>
    </div>
  );
}

export function Stats({ children }: { children: ComponentChildren }) {
  return <dl class="stats">{children}</dl>;
}

export type Tone = 'good' | 'warn' | 'bad' | 'quiet';

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}

/** The head of a view: the one `h1`, what it is about, and what can be done. */
export function PageHead(props: {
  readonly title: string;
  readonly about?: ComponentChildren;
  readonly actions?: ComponentChildren;
}) {
  return (
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{props.title}</h1>
        {props.about !== undefined && <p class="about">{props.about}</p>}
      </div>
      {props.actions !== undefined && <div class="card-actions">{props.actions}</div>}
    </header>
  );
}

/** A list of facts: what, and what it is. */
export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
