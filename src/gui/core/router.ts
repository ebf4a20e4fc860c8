/**
 * Real addresses under /ui/. The address is a signal; pages read path segments and query from it and write filters back,
 * so that everything on a page can be bookmarked and shared. Ordinary links work: one listener turns clicks on our own
 * links into steps of the history.
 */
import { computed, signal } from '@preact/signals';

export const ROOT = '/ui';

/** What is not loaded by then is not waited for. */
const SCROLL_BACK_MS = 3_000;

const location$ = signal(new URL(location.href));

/** Decoded segments below /ui/: `['executions', '17', 'graph']`. */
export const segments = computed(() =>
  location$.value.pathname
    .slice(ROOT.length)
    .split('/')
    .filter((each) => each !== '')
    .map(decodeURIComponent),
);
export const query = computed(() => location$.value.searchParams);
/** Path without query: changes when another page is shown. */
export const pagePath = computed(() => location$.value.pathname.replace(/\/+$/, ''));

export function navigate(to: string, options: { readonly replace?: boolean } = {}): void {
  const next = new URL(to, location.href);
  const isElsewhere = next.pathname !== location$.peek().pathname;
  if (options.replace === true) history.replaceState(null, '', next);
  else {
    history.replaceState({ scrolledTo: scrollY }, '');
    history.pushState(null, '', next);
    if (isElsewhere) scrollTo(0, 0);
  }
  location$.value = next;
}

/** The browser goes back to where a page was left before the page has loaded what reaches so far down. */
function scrollBack(y: number): void {
  const until = performance.now() + SCROLL_BACK_MS;
  const stop = new AbortController();
  for (const sign of ['wheel', 'pointerdown', 'keydown', 'popstate'])
    addEventListener(sign, () => stop.abort(), { signal: stop.signal, passive: true });
  const look = (): void => {
    if (stop.signal.aborted) return;
    const reaches = document.documentElement.scrollHeight - window.innerHeight >= y;
    if (reaches) scrollTo(0, y);
    if (reaches || performance.now() > until) stop.abort();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/** Changes some of the query; null removes. Replaces the history entry, unless it is `kept`. */
export function setQuery(patch: Readonly<Record<string, string | null>>, kept = false): void {
  const next = new URL(location$.peek());
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === '') next.searchParams.delete(key);
    else next.searchParams.set(key, value);
  }
  if (next.href !== location$.peek().href) navigate(next.href, { replace: !kept });
}

export function startRouter(): void {
  addEventListener('popstate', ({ state }: PopStateEvent) => {
    location$.value = new URL(location.href);
    if (typeof state?.scrolledTo === 'number') scrollBack(state.scrolledTo);
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.composedPath().find((each) => each instanceof HTMLAnchorElement);
    if (link === undefined || link.target !== '' || link.hasAttribute('download')) return;
    if (link.origin !== location.origin || !`${link.pathname}/`.startsWith(`${ROOT}/`)) return;
    event.preventDefault();
    navigate(link.href);
  });
}

export const to = {
  overview: `${ROOT}/`,
  executions: `${ROOT}/executions`,
  execution: (id: number | string, tab = 'summary') =>
    tab === 'summary' ? `${ROOT}/executions/${id}` : `${ROOT}/executions/${id}/${tab}`,
  playbooks: `${ROOT}/playbooks`,
  commands: `${ROOT}/commands`,
  playbook: (path: string, view?: string) =>
    `${ROOT}/playbooks/${path.split('/').map(encodeURIComponent).join('/')}${view === undefined ? '' : `?view=${view}`}`,
  editor: (path?: string) => `${ROOT}/editor${path === undefined ? '' : `?path=${encodeURIComponent(path)}`}`,
  machine: (name: string) => `${ROOT}/machines/${encodeURIComponent(name)}`,
};
