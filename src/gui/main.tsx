/** Starts the GUI. */
import './styles/base.css';
import './styles/parts.css';
import './styles/pages.css';
import { render } from 'preact';
import { App } from './app.tsx';
import { startClock } from './core/clock.ts';
import { startPreferences } from './core/preferences.ts';
import { startRouter } from './core/router.ts';

startPreferences();
startClock();
startRouter();
const place = document.getElementById('app');
if (place !== null) render(<App />, place);
