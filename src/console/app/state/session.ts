/**
 * The token of this tab. It is kept in `sessionStorage`, so it ends with the tab, and it is never put
 * into an address, a link or `localStorage`.
 */

const KEY = 'clickledger.token';

export function storedToken(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function storeToken(token: string | null): void {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // Without storage the session lasts until the page is loaded again.
  }
}
