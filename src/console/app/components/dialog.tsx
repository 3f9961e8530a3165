/** A question or a form above the page: the browser's own dialog, which keeps the focus in it. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { useAct } from '../state/use-act.ts';
import { Button } from './button.tsx';
import { ErrorNote } from './states.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const id = useId();
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class="dialog"
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header class="dialog-head">
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" label="Close" onClick={onClose}>
          ✕
        </Button>
      </header>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly action: string;
  readonly danger?: boolean;
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before something that cannot be taken back; stays open with the reason when it fails. */
export function Confirm(props: ConfirmProps) {
  const act = useAct();
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <div class="dialog-body">{props.children}</div>
      {act.error !== undefined && <ErrorNote error={act.error} />}
      <footer class="dialog-foot">
        <Button onClick={props.onClose}>Cancel</Button>
        <Button
          kind={props.danger === true ? 'danger' : 'primary'}
          busy={act.busy}
          onClick={() =>
            void act.run(async () => {
              await props.onConfirm();
              props.onClose();
            })
          }
        >
          {props.action}
        </Button>
      </footer>
    </Dialog>
  );
}
