/** Light, dark, or as the system has it: kept by the browser, told to CSS by one attribute. */

export type Theme = 'system' | 'light' | 'dark';
export const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

const KEY = 'clickledger.theme';
/** Fired on `document` when colours have changed, for what is drawn and not styled. */
export const THEME_EVENT = 'clickledger:theme';

export function storedTheme(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === value) ?? 'system';
  } catch {
    return 'system';
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event(THEME_EVENT));
}

export function chooseTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A browser that keeps nothing still shows what was chosen.
  }
  applyTheme(theme);
}
