/** Runs before the page is painted: a theme that was chosen must not flash in after it. */
import { applyTheme, storedTheme } from './state/theme.ts';

applyTheme(storedTheme());
