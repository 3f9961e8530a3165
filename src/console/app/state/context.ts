/** What every view needs: who is signed in, how to ask, where we are, what time it is. */
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Clock } from '../../../platform/clock.ts';
import type { ApiClient } from '../api/client.ts';
import type { Me } from '../api/types.ts';
import { hrefOf, type Route, sharedQuery } from './route.ts';

export interface AppState {
  readonly api: ApiClient;
  readonly me: Me;
  readonly clock: Clock;
  readonly route: Route;
  readonly signOut: () => void;
}

export const AppContext = createContext<AppState | null>(null);

export function useApp(): AppState {
  const state = useContext(AppContext);
  if (state === null) throw new Error('used outside of the signed-in app');
  return state;
}

export const browserZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

export interface Scope {
  readonly zone: string;
  /** Whose numbers; undefined until an operator has picked one. */
  readonly advertiser: string | undefined;
  /** For the API: a read token needs no advertiser. */
  readonly advertiserParams: { readonly advertiser_id?: string };
}

export function useScope(): Scope {
  const { me, route } = useApp();
  const zone = route.query.tz ?? browserZone();
  if (me.scope === 'read') {
    return { zone, advertiser: me.advertiser_id ?? undefined, advertiserParams: {} };
  }
  const advertiser = route.query.adv;
  return {
    zone,
    advertiser,
    advertiserParams: advertiser === undefined ? {} : { advertiser_id: advertiser },
  };
}

export interface Navigation {
  /** A link that keeps advertiser, zone and range. */
  readonly href: (path: string, query?: Readonly<Record<string, string | undefined>>) => string;
  /** Changes parts of this view's address; undefined removes one. */
  readonly setQuery: (changes: Readonly<Record<string, string | undefined>>) => void;
  readonly go: (path: string, query?: Readonly<Record<string, string | undefined>>) => void;
}

export function useNavigation(): Navigation {
  const { route } = useApp();
  const href: Navigation['href'] = (path, query = {}) =>
    hrefOf(path, { ...sharedQuery(route.query), ...query });
  return {
    href,
    setQuery: (changes) => {
      location.hash = hrefOf(route.path, { ...route.query, ...changes });
    },
    go: (path, query) => {
      location.hash = href(path, query);
    },
  };
}
