/**
 * Where in the console we are: everything that decides what is shown stands in the address after `#`,
 * so that a view can be linked, and back and forward do what they say.
 */
import { useEffect, useState } from 'preact/hooks';

export type RouteQuery = Readonly<Record<string, string>>;

export interface Route {
  /** `/clicks`, `/disputes/d-1`. */
  readonly path: string;
  readonly query: RouteQuery;
}

/** What goes along from view to view. */
const SHARED = ['adv', 'tz', 'range', 'from', 'to'];

export function parseRoute(hash: string): Route {
  const [path, query] = hash.replace(/^#/, '').split('?', 2);
  return {
    path: path === undefined || path === '' ? '/' : path,
    query: Object.fromEntries(new URLSearchParams(query ?? '')),
  };
}

export function hrefOf(path: string, query: Readonly<Record<string, string | undefined>> = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(kept as [string, string][]).toString();
  return `#${path}${text === '' ? '' : `?${text}`}`;
}

export function sharedQuery(query: RouteQuery): RouteQuery {
  return Object.fromEntries(Object.entries(query).filter(([name]) => SHARED.includes(name)));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const follow = (): void => setRoute(parseRoute(location.hash));
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return route;
}
