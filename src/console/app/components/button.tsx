import type { ComponentChildren } from 'preact';

interface ButtonProps {
  readonly kind?: 'primary' | 'plain' | 'danger' | 'quiet';
  readonly type?: 'button' | 'submit';
  readonly busy?: boolean;
  readonly disabled?: boolean;
  readonly label?: string;
  readonly onClick?: () => void;
  readonly children: ComponentChildren;
}

export function Button(props: ButtonProps) {
  const { kind = 'plain', type = 'button', busy = false, disabled = false, label } = props;
  return (
    <button
      type={type}
      class={`button button-${kind}`}
      disabled={disabled}
      aria-disabled={busy || disabled}
      aria-label={label}
      onClick={(event) => {
        if (busy) event.preventDefault();
        else props.onClick?.();
      }}
    >
      {props.children}
      {busy && <span class="spinner" aria-hidden="true" />}
    </button>
  );
}
