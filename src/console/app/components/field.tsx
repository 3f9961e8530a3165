/** Inputs with their label, and a hint that belongs to them. */
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

interface FieldProps {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly name?: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly required?: boolean;
}

interface TextProps extends FieldProps {
  readonly type?: 'text' | 'password' | 'datetime-local' | 'month' | 'url' | 'date';
  readonly placeholder?: string;
  readonly autoComplete?: string;
  /** Values to pick from; others can be typed. */
  readonly suggestions?: readonly string[];
  readonly spellcheck?: boolean;
}

export function TextField(props: TextProps) {
  const id = useId();
  const { type = 'text', suggestions } = props;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <input
        id={id}
        // The types know which kinds take suggestions only one by one.
        type={type as 'date'}
        name={props.name}
        value={props.value}
        required={props.required ?? false}
        placeholder={props.placeholder}
        autocomplete={props.autoComplete ?? 'off'}
        spellcheck={false}
        list={suggestions === undefined ? undefined : `${id}-list`}
        aria-describedby={props.hint === undefined ? undefined : `${id}-hint`}
        onInput={(event) => props.onValue(event.currentTarget.value)}
      />
      {suggestions !== undefined && (
        <datalist id={`${id}-list`}>
          {suggestions.map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
      <Hint id={id} text={props.hint} />
    </div>
  );
}

export function TextArea(props: FieldProps & { readonly maxLength?: number }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <textarea
        id={id}
        name={props.name}
        value={props.value}
        rows={3}
        maxLength={props.maxLength}
        required={props.required ?? false}
        aria-describedby={props.hint === undefined ? undefined : `${id}-hint`}
        onInput={(event) => props.onValue(event.currentTarget.value)}
      />
      <Hint id={id} text={props.hint} />
    </div>
  );
}

export interface Choice {
  readonly value: string;
  readonly label: string;
  readonly disabled?: boolean;
}

export function SelectField(props: FieldProps & { readonly choices: readonly Choice[] }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <select
        id={id}
        name={props.name}
        value={props.value}
        aria-describedby={props.hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => props.onValue(event.currentTarget.value)}
      >
        {props.choices.map(({ value, label, disabled }) => (
          <option
            key={value}
            value={value}
            disabled={disabled ?? false}
            selected={value === props.value}
          >
            {label}
          </option>
        ))}
      </select>
      <Hint id={id} text={props.hint} />
    </div>
  );
}

export function CheckField(props: {
  readonly label: string;
  readonly checked: boolean;
  readonly onChecked: (checked: boolean) => void;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.checked}
        onChange={(event) => props.onChecked(event.currentTarget.checked)}
      />
      {props.label}
    </label>
  );
}

function Hint({ id, text }: { id: string; text: string | undefined }) {
  if (text === undefined) return null;
  return (
    <p class="hint" id={`${id}-hint`}>
      {text}
    </p>
  );
}

/** A form that never leaves the page: the browser itself sends nothing. */
export function Form(props: {
  readonly label?: string;
  readonly class?: string;
  readonly onSubmit: () => void;
  readonly children: ComponentChildren;
}) {
  return (
    <form
      class={props.class ?? 'form'}
      aria-label={props.label}
      onSubmit={(event) => {
        event.preventDefault();
        props.onSubmit();
      }}
    >
      {props.children}
    </form>
  );
}
