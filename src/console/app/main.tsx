/** The entry point of the page. */
import { render } from 'preact';
import { systemClock } from '../../platform/clock.ts';
import { App } from './app.tsx';

const place = document.getElementById('app');
if (place !== null) render(<App clock={systemClock} />, place);
