/** Signed in or not: one of the two is on the screen. */
import { useMemo, useState } from 'preact/hooks';
import type { Clock } from '../../platform/clock.ts';
import { ApiClient } from './api/client.ts';
import type { Me } from './api/types.ts';
import { Button } from './components/button.tsx';
import { ErrorNote, Loading } from './components/states.tsx';
import { Shell } from './shell.tsx';
import { AppContext } from './state/context.ts';
import { useRoute } from './state/route.ts';
import { storedToken, storeToken } from './state/session.ts';
import { useQuery } from './state/use-query.ts';
import { SignIn } from './views/sign-in.tsx';

export function App({ clock }: { clock: Clock }) {
  const [token, setToken] = useState(storedToken);
  const [wasRefused, setWasRefused] = useState(false);
  const signIn = (typed: string): void => {
    storeToken(typed);
    setWasRefused(false);
    setToken(typed);
  };
  const leave = (refused: boolean): void => {
    storeToken(null);
    setWasRefused(refused);
    setToken(null);
  };
  if (token === null) return <SignIn wasRefused={wasRefused} onToken={signIn} />;
  return <SignedIn key={token} token={token} clock={clock} onLeave={leave} />;
}

interface SignedInProps {
  readonly token: string;
  readonly clock: Clock;
  readonly onLeave: (refused: boolean) => void;
}

function SignedIn({ token, clock, onLeave }: SignedInProps) {
  const route = useRoute();
  // one client for one token.
  const api = useMemo(() => new ApiClient(token, () => onLeave(true)), [token]);
  const me = useQuery('me', (signal) => api.get<Me>('/v1/me', { signal }));
  if (me.data === undefined) {
    return (
      <main class="lonely">
        {me.error === undefined ? (
          <Loading />
        ) : (
          <>
            <ErrorNote error={me.error} onRetry={me.reload} />
            <Button onClick={() => onLeave(false)}>Sign in with another token</Button>
          </>
        )}
      </main>
    );
  }
  const state = { api, clock, route, me: me.data, signOut: () => onLeave(false) };
  return (
    <AppContext.Provider value={state}>
      <Shell />
    </AppContext.Provider>
  );
}
