import { useEffect, useRef, useState } from 'preact/hooks';
import { Brand } from '../components/brand.tsx';
import { Button } from '../components/button.tsx';
import { Form, TextField } from '../components/field.tsx';
import { ThemeSwitch } from '../components/theme-switch.tsx';

interface SignInProps {
  readonly wasRefused: boolean;
  readonly onToken: (token: string) => void;
}

export function SignIn({ wasRefused, onToken }: SignInProps) {
  const [token, setToken] = useState('');
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    document.title = 'Sign in · ClickLedger';
    place.current?.querySelector('input')?.focus();
  }, []);
  return (
    <main class="sign-in">
      <div class="sign-in-card" ref={place}>
        <Brand />
        <h1>Sign in</h1>
        <p class="about">See the clicks that your ads got, and what every number is made of.</p>
        {wasRefused && (
          <div class="note note-bad" role="alert">
            <div>
              <strong>This token is not valid.</strong>
              <p>It is unknown, revoked or expired. Ask whoever runs ClickLedger for a new one.</p>
            </div>
          </div>
        )}
        <Form onSubmit={() => token.trim() !== '' && onToken(token.trim())}>
          <TextField
            label="Access token"
            type="password"
            value={token}
            onValue={setToken}
            required
            hint="It begins with clk_ and stays in this tab only."
          />
          <Button kind="primary" type="submit">
            Sign in
          </Button>
        </Form>
      </div>
      <ThemeSwitch />
    </main>
  );
}
