/** The frame around every page: navigation, preferences, what goes wrong for all of them, and keys that work anywhere. */
import { useSignal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { BASE, get, online } from './core/api.ts';
import { THEMES, type Theme, TIME_STYLES, type TimeStyle, theme, timeStyle } from './core/preferences.ts';
import { navigate, pagePath, ROOT, segments, to } from './core/router.ts';
import { recallUser, signInWanted, signOut, token, user } from './core/sign-in.ts';
import { Icon, type IconName } from './parts/icons.tsx';
import { KeySheet } from './parts/key-sheet.tsx';
import { PageHead } from './parts/page.tsx';
import { Palette } from './parts/palette.tsx';
import { SignIn } from './parts/sign-in.tsx';
import { Failed, Loading } from './parts/states.tsx';
import { Toasts } from './parts/toasts.tsx';

type PageLoader = () => Promise<ComponentType>;

const PAGES: Readonly<Record<string, PageLoader>> = {
  '': () => import('./pages/overview.tsx').then((each) => each.Overview),
  executions: () => import('./pages/executions.tsx').then((each) => each.Executions),
  execution: () => import('./pages/execution.tsx').then((each) => each.ExecutionPage),
  playbooks: () => import('./pages/playbooks.tsx').then((each) => each.Playbooks),
  playbook: () => import('./pages/playbook.tsx').then((each) => each.PlaybookPage),
  editor: () => import('./pages/editor.tsx').then((each) => each.EditorPage),
  machines: () => import('./pages/machines.tsx').then((each) => each.Machines),
  commands: () => import('./pages/commands.tsx').then((each) => each.Commands),
  credentials: () => import('./pages/credentials.tsx').then((each) => each.Credentials),
  keychain: () => import('./pages/keychain.tsx').then((each) => each.Keychain),
  batches: () => import('./pages/batches.tsx').then((each) => each.Batches),
  schedules: () => import('./pages/schedules.tsx').then((each) => each.Schedules),
  recovery: () => import('./pages/recovery.tsx').then((each) => each.Recovery),
};

const NAVIGATION: readonly (readonly { readonly id: string; readonly name: string; readonly icon: IconName }[])[] = [
  [
    { id: '', name: 'Overview', icon: 'overview' },
    { id: 'executions', name: 'Executions', icon: 'runs' },
    { id: 'playbooks', name: 'Playbooks', icon: 'book' },
    { id: 'editor', name: 'Editor', icon: 'edit' },
    { id: 'schedules', name: 'Schedules', icon: 'clock' },
  ],
  [
    { id: 'machines', name: 'Machines', icon: 'chart' },
    { id: 'commands', name: 'Workers', icon: 'workers' },
    { id: 'batches', name: 'Batches', icon: 'batch' },
  ],
  [
    { id: 'credentials', name: 'Credentials', icon: 'key' },
    { id: 'keychain', name: 'Keychain', icon: 'chain' },
    { id: 'recovery', name: 'Recovery', icon: 'recover' },
  ],
];

/** After `g`, the key of a page. */
const JUMPS: Readonly<Record<string, string>> = {
  o: '',
  e: 'executions',
  p: 'playbooks',
  d: 'editor',
  m: 'machines',
  w: 'commands',
  b: 'batches',
  c: 'credentials',
  k: 'keychain',
  r: 'recovery',
  s: 'schedules',
};

/** Until a server that did not answer is asked whether it is back. */
const KNOCK_MS = 3_000;

const loaded = new Map<string, ComponentType>();

export function App() {
  const open = useSignal<'palette' | 'keys' | null>(null);
  useShortcuts(open);
  useKnocking();
  const current = segments.value[0] ?? '';
  // In a narrow window the navigation is behind a button, and a page that was chosen closes it.
  const [menuOn, setMenuOn] = useState<string | null>(null);
  const menu = menuOn === pagePath.value;
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={skip}>
        Skip to content
      </button>
      <aside class="side">
        <a class="brand" href={to.overview}>
          <Logo />
          Callboard
        </a>
        <button
          type="button"
          class="button tiny menu"
          aria-expanded={menu}
          aria-controls="navigation"
          onClick={() => setMenuOn(menu ? null : pagePath.value)}
        >
          {menu ? 'Close' : 'Menu'}
        </button>
        <div id="navigation" class={menu ? 'side-body open' : 'side-body'}>
          {NAVIGATION.map((group, index) => (
            <nav key={group[0]?.id} aria-label={['Runs and playbooks', 'Engine', 'Secrets and recovery'][index]}>
              {group.map((each) => (
                <a key={each.id} href={`${ROOT}/${each.id}`} aria-current={each.id === current ? 'page' : undefined}>
                  <Icon name={each.icon} /> {each.name}
                </a>
              ))}
            </nav>
          ))}
          <Preferences />
        </div>
      </aside>
      <div>
        {!online.value && (
          <div class="offline" role="alert">
            <Icon name="cloud" /> The server does not answer. What you see may be old; it is tried again.
          </div>
        )}
        <main id="content" tabIndex={-1}>
          {signInWanted.value === null ? <CurrentPage /> : <SignIn reason={signInWanted.value} />}
        </main>
      </div>
      {open.value === 'palette' && <Palette onClose={() => (open.value = null)} />}
      {open.value === 'keys' && <KeySheet onClose={() => (open.value = null)} />}
      <Toasts />
    </div>
  );
}

function CurrentPage() {
  const [first = '', ...rest] = segments.value;
  const name =
    rest.length === 0 ? first : first === 'executions' ? 'execution' : first === 'playbooks' ? 'playbook' : first;
  const [error, setError] = useState<Error | null>(null);
  const [, setCount] = useState(0);
  const Page = loaded.get(name);
  const load = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
  useEffect(() => {
    setError(null);
    if (Page !== undefined || load === undefined) return;
    load().then(
      (page) => {
        loaded.set(name, page);
        setCount((before) => before + 1);
      },
      (caught: unknown) => setError(caught instanceof Error ? caught : new Error(String(caught))),
    );
  }, [name]);
  if (load === undefined) {
    return <PageHead title="There is no such page" lead={<a href={to.overview}>Go to the overview</a>} />;
  }
  if (Page !== undefined) return <Page key={name === 'execution' || name === 'playbook' ? pageKey() : name} />;
  if (error !== null) return <Failed error={error} retry={() => location.reload()} />;
  return <Loading what="the page" />;
}

/** Tabs of one execution are one page. */
function pageKey(): string {
  return segments.value[0] === 'executions' ? segments.value.slice(0, 2).join('/') : pagePath.value;
}

function Preferences() {
  return (
    <div class="side-foot">
      <Who />
      <label>
        Theme
        <select
          value={theme.value}
          onChange={(event) => {
            // The options are exactly these.
            theme.value = event.currentTarget.value as Theme;
          }}
        >
          {THEMES.map((each) => (
            <option key={each} value={each}>
              {each === 'contrast' ? 'high contrast' : each}
            </option>
          ))}
        </select>
      </label>
      <label>
        Times
        <select
          value={timeStyle.value}
          onChange={(event) => {
            // The options are exactly these.
            timeStyle.value = event.currentTarget.value as TimeStyle;
          }}
        >
          {TIME_STYLES.map((each) => (
            <option key={each} value={each}>
              {each === 'utc' ? 'UTC' : each}
            </option>
          ))}
        </select>
      </label>
      <span>
        <kbd>Ctrl K</kbd> go to · <kbd>?</kbd> keys
      </span>
      <a href="/docs">API documentation</a>
    </div>
  );
}

/** Whose token this tab holds; nothing where none is needed. */
function Who() {
  useEffect(() => void recallUser(BASE), []);
  // Signals are read first: what is not read is not followed.
  const { display_name, email, roles = [] } = user.value ?? {};
  if (signInWanted.value !== null || token() === null) return null;
  return (
    <div class="who">
      <span class="break">
        <Icon name="key" size={13} /> {display_name ?? email ?? 'Signed in'}
        {roles.length > 0 && <span class="who-roles">{roles.join(', ')}</span>}
      </span>
      <button type="button" class="button quiet tiny" onClick={signOut}>
        Sign out
      </button>
    </div>
  );
}

function Logo() {
  return (
    <svg width="26" height="26" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#4a3fc4" />
      <path d="M8 9h16M8 16h10M8 23h13" stroke="#fff" stroke-width="3" stroke-linecap="round" />
      <circle cx="24" cy="16" r="2.6" fill="#ffc83d" />
    </svg>
  );
}

/** Asks a server that is away until it answers: a page that loads nothing more would never notice that it is back. */
function useKnocking(): void {
  const away = !online.value;
  useEffect(() => {
    if (!away) return;
    const timer = setInterval(() => void get('/api/health').catch(() => {}), KNOCK_MS);
    return () => clearInterval(timer);
  }, [away]);
}

function skip(): void {
  document.getElementById('content')?.focus();
}

function useShortcuts(open: { value: 'palette' | 'keys' | null }): void {
  useEffect(() => {
    let jumping = false;
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        open.value = 'palette';
        return;
      }
      const target = event.composedPath()[0];
      const typing =
        target instanceof HTMLElement &&
        (target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName));
      if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') !== null)
        return;
      if (event.key === '?') open.value = 'keys';
      const page = JUMPS[event.key];
      if (jumping && page !== undefined) {
        event.preventDefault();
        navigate(`${ROOT}/${page}`);
      }
      jumping = event.key === 'g';
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}
