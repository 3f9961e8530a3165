/** A secret that is shown once: to be copied now, and gone when the page changes. */
import { useState } from 'preact/hooks';
import { Button } from './button.tsx';

export function Secret({ label, value }: { label: string; value: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(value);
      setCopied(true);
    } catch {
      // Only allowed on https and localhost; the text can be marked and copied by hand.
      setCopied(false);
    }
  };
  return (
    <div class="secret" role="status">
      <p>
        <strong>{label}</strong> It is shown this once: keep it in a safe place.
      </p>
      <div class="secret-row">
        <code data-testid="secret">{value}</code>
        <Button onClick={() => void copy()}>{copied ? 'Copied' : 'Copy'}</Button>
      </div>
    </div>
  );
}
