import { useState } from 'preact/hooks';
import { capital } from '../format.ts';
import { chooseTheme, storedTheme, THEMES, type Theme } from '../state/theme.ts';

export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(storedTheme);
  const choose = (value: string): void => {
    const chosen = THEMES.find((each) => each === value) ?? 'system';
    chooseTheme(chosen);
    setTheme(chosen);
  };
  return (
    <label class="theme-switch">
      <span class="visually-hidden">Colours</span>
      <select value={theme} onChange={(event) => choose(event.currentTarget.value)}>
        {THEMES.map((each) => (
          <option key={each} value={each} selected={each === theme}>
            {capital(each)}
          </option>
        ))}
      </select>
    </label>
  );
}
