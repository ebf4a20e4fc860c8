/** Every page in every theme: readable for everyone, as it was seen before, nothing fetched from elsewhere. */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ALL_THEMES, violations } from './support/axe.ts';
import { openBrowser } from './support/browser.ts';
import { openPage, sideways, steady, steadyPage } from './support/pages.ts';
import { type Gallery, openGallery, SHARE_SEEN } from './support/pictures.ts';
import { pagesOf, type Scenes, SECRET, setTheScene } from './support/scenes.ts';
import { type DevServer, startDevServer } from './support/server.ts';

const NAMES = pagesOf({ failed: 0, completed: 0, looped: 0, nested: 0, running: 0 }).map(([name]) => name);
/** Pages whose order of things differs from run to run, so that their form for screen readers is not kept. */
const UNREAD = ['events', 'timeline', 'statechart', 'recovery', 'workers', 'event'];
/** Pages that were looked at in both themes and kept as pictures (npm run gui:pictures after a wanted change). */
const PICTURED = [
  'overview',
  'executions-none',
  'execution-failed',
  'execution-running',
  'execution-unknown',
  'graph-running',
  'graph-step',
  'playbooks',
  'playbook',
  'playbook-source',
  'playbook-versions',
  'editor',
  'machines',
  'credentials',
  'keychain',
];
const WINDOW = { width: 1280, height: 860 };
const NARROW = [360, 768];
const LISTS = [
  ['overview', '/ui/'],
  ['executions', '/ui/executions'],
  ['playbooks', '/ui/playbooks'],
  ['workers', '/ui/commands'],
  ['credentials', '/ui/credentials'],
  ['keychain', '/ui/keychain'],
] as const;

let server: DevServer;
let browser: Browser;
let scenes: Scenes;

beforeAll(async () => {
  [server, browser] = await Promise.all([startDevServer(), openBrowser()]);
  scenes = await setTheScene(server);
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

describe('row 12, every page in every theme', () => {
  let context: BrowserContext;
  let page: Page;
  let gallery: Gallery;
  let foreign: string[];
  let complaints: string[];

  beforeAll(async () => {
    gallery = await openGallery(browser);
    context = await browser.newContext({
      viewport: WINDOW,
      colorScheme: 'light',
      reducedMotion: 'reduce',
    });
    await context.route('**/*', (route) => {
      const url = route.request().url();
      if (url.startsWith(server.base)) return route.continue();
      foreign.push(url);
      return route.abort();
    });
    page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      // A page that is not there says so on purpose.
      if (message.type() === 'error' && !message.text().includes('404')) complaints.push(message.text());
    });
  });
  afterAll(async () => {
    await gallery?.close();
    await context?.close();
  });

  test.each(NAMES)(
    '%s: accessible, as it was read and seen before, complains of nothing, asks nobody else',
    async (name) => {
      foreign = [];
      complaints = [];
      const path = pagesOf(scenes).find(([each]) => each === name)?.[1] ?? '';
      await openPage(page, server.base + path);
      if (!UNREAD.includes(name)) {
        const text = await page.locator('main').ariaSnapshot();
        await expect(`${steady(text)}\n`).toMatchFileSnapshot(`snapshots/${name}.aria.yml`);
      }
      for (const width of NARROW) {
        await page.setViewportSize({ width, height: 780 });
        expect(await sideways(page), `at ${width} px`).toBe(0);
      }
      await page.setViewportSize(WINDOW);
      expect(await violations(page, ALL_THEMES)).toEqual([]);
      expect(foreign).toEqual([]);
      expect(complaints).toEqual([]);
      expect(await page.content()).not.toContain(SECRET);
      if (PICTURED.includes(name)) {
        await steadyPage(page);
        for (const theme of ['light', 'dark'] as const) {
          await page.evaluate((each) => {
            document.documentElement.dataset['theme'] = each;
          }, theme);
          expect((await gallery.compare(page, `${name}-${theme}`)) ?? 0).toBeLessThan(SHARE_SEEN);
        }
      }
    },
  );

  test.each(LISTS)('%s with nothing to show, and with a server that fails: accessible and told', async (_, path) => {
    foreign = [];
    complaints = [];
    await page.route('**/api/**', (route) => route.fulfill(nothingFor(new URL(route.request().url()).pathname)));
    await openPage(page, server.base + path);
    await page.locator('.state').first().waitFor();
    expect(await violations(page, ['light', 'dark'])).toEqual([]);
    await page.unroute('**/api/**');
    await page.route('**/api/**', (route) =>
      route.fulfill({ status: 500, json: { detail: 'It broke', code: 'internal', request_id: 'r-1' } }),
    );
    await openPage(page, server.base + path);
    await page.getByText('It broke').first().waitFor();
    expect(await violations(page, ['light', 'dark'])).toEqual([]);
    await page.unroute('**/api/**');
  });
});

/** What a server without any contents answers. */
function nothingFor(path: string): { readonly json: unknown; readonly headers?: Record<string, string> } {
  if (path === '/api/dashboard/stats') return { json: { total_executions: 0, running_executions: 0, queue_depth: 0 } };
  if (path === '/api/executions' || path === '/api/catalog/playbooks')
    return { json: [], headers: { 'x-total-count': '0' } };
  return { json: { items: [], commands: [], next_after: null, entries: [], sweeps: [], settings: {}, lease: null } };
}

test('row 10, credentials: a secret is shown on demand only, and hidden when the dialog closes', async () => {
  const page = await browser.newPage();
  await openPage(page, `${server.base}/ui/credentials`);
  await page.getByRole('button', { name: 'Reveal billing_api' }).click();
  expect(await page.content()).not.toContain(SECRET);
  await page.getByRole('button', { name: 'Reveal it' }).click();
  await page.getByText(SECRET).waitFor();
  await page.keyboard.press('Escape');
  await page.getByText(SECRET).waitFor({ state: 'detached' });
  await page.close();
});

test('row 12, themes: high contrast is a theme of its own and is remembered', async () => {
  const page = await browser.newPage();
  await openPage(page, `${server.base}/ui/`);
  await page.getByLabel('Theme').selectOption('contrast');
  await page.reload();
  await page.locator('h1').waitFor();
  expect(await page.locator('html').getAttribute('data-theme')).toBe('contrast');
  expect(await violations(page, ['contrast'])).toEqual([]);
  await page.close();
});

test('row 7, cancel: what is cancelled is shown first, with its children, and the list follows', async () => {
  const page = await browser.newPage();
  const id = await server.run('demo/nightly-report', { region: 'cancel-me' }, 0);
  await openPage(page, `${server.base}/ui/executions/${id}`);
  await page.getByRole('button', { name: 'Cancel…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(`#${id}`).waitFor();
  await dialog.getByRole('button', { name: 'Cancel it' }).click();
  await page.locator('.page-head').getByText('cancelled').waitFor();
  await page.getByRole('link', { name: 'Executions' }).first().click();
  await page
    .getByRole('row')
    .filter({ hasText: `#${id}` })
    .getByText('cancelled', { exact: true })
    .waitFor();
  await page.close();
});

test('long names, deep values and many steps stay inside narrow windows', async () => {
  const long = (name: string) => `${name}_with_a_name_that_nobody_would_want_to_read_twice`;
  const path = `demo/${long('folder')}/${long('playbook')}`;
  const steps = [1, 2, 3].map((n) => ({
    step: n === 1 ? 'start' : long(`step_${n}`),
    tool: { kind: 'noop', result: '{{ workload.deep }}' },
    ...(n === 3 ? {} : { next: { arcs: [{ step: long(`step_${n + 1}`), when: "{{ 'x' * 80 != '' }}" }] } }),
  }));
  const playbook = { apiVersion: 'callboard/v2', kind: 'Playbook', workload: { deep: {}, [long('input')]: '' } };
  const register = (metadata: object, workflow: object) =>
    server.call('POST', '/api/catalog/register', { content: JSON.stringify({ ...playbook, metadata, workflow }) });
  await register({ name: 'long', path }, steps);
  const failing = { step: long('step_3'), tool: { kind: 'shell', command: `echo ${'w'.repeat(300)} >&2; exit 3` } };
  await register({ name: 'failing', path: `${path}_failing` }, [...steps.slice(0, 2), failing]);
  let deep: unknown = 'x'.repeat(400);
  for (let level = 0; level < 40; level++) deep = { [`level_${level}`]: deep };
  const id = await server.run(path, { deep });
  const failed = await server.run(`${path}_failing`, { deep });
  const page = await browser.newPage({ viewport: { width: 360, height: 780 } });
  for (const address of [
    `/ui/executions/${id}`,
    `/ui/executions/${failed}`,
    `/ui/executions/${id}/graph?step=${long('step_2')}`,
    `/ui/executions/${id}/timeline`,
    `/ui/executions/${id}/events?event=2`,
    `/ui/playbooks/${path}`,
    '/ui/keychain',
    '/ui/playbooks',
    '/ui/executions',
    '/ui/',
  ]) {
    await openPage(page, server.base + address);
    expect(await sideways(page), address).toBe(0);
  }
  await openPage(page, `${server.base}/ui/playbooks/${path}`);
  await page.getByRole('button', { name: 'Run…' }).click();
  const isInside = await page.locator('dialog[open]').evaluate((dialog) => dialog.scrollWidth <= dialog.clientWidth);
  expect(isInside).toBe(true);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Menu' }).click();
  await page.getByRole('link', { name: 'Workers', exact: true }).click();
  await page.getByRole('heading', { name: 'Workers and commands' }).waitFor();
  expect(await page.getByRole('link', { name: 'Credentials' }).isVisible()).toBe(false);
  await page.close();
});

test('an editor whose text cannot be checked says so, and checks it when asked again', async () => {
  const page = await browser.newPage();
  await openPage(page, `${server.base}/ui/editor`);
  await page.getByText('No problems.').waitFor();
  await page.route('**/playbooks/validate', (route) => route.fulfill({ status: 503, json: { detail: 'Not now' } }));
  await page.locator('.cm-content').focus();
  await page.keyboard.insertText('# changed\n');
  await page.getByRole('alert').getByText('Not now').waitFor();
  expect(await page.getByRole('button', { name: 'Register…' }).isDisabled()).toBe(true);
  await page.unroute('**/playbooks/validate');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('No problems.').waitFor();
  await openPage(page, `${server.base}/ui/editor?path=no/such/playbook`);
  expect(await page.locator('h1').innerText()).toBe('no/such/playbook');
  await page.close();
});

test('what was written in the editor is still there after leaving it, until it is discarded', async () => {
  const page = await browser.newPage();
  await openPage(page, `${server.base}/ui/editor`);
  await page.getByText('No problems.').waitFor();
  await page.locator('.cm-content').focus();
  await page.keyboard.insertText('# half a thought\n');
  await page.getByRole('link', { name: 'Playbooks', exact: true }).first().click();
  await page.getByRole('heading', { name: 'Playbooks' }).waitFor();
  await page.goBack();
  await page.locator('.cm-content', { hasText: 'half a thought' }).waitFor();
  await page.reload();
  await page.locator('.cm-content', { hasText: 'half a thought' }).waitFor();
  await page.getByRole('button', { name: 'Discard it' }).click();
  await page.locator('.cm-content', { hasText: 'half a thought' }).waitFor({ state: 'detached' });
  await page.reload();
  await page.getByText('No problems.').waitFor();
  expect(await page.getByRole('button', { name: 'Discard it' }).count()).toBe(0);
  await page.close();
});

test('going back finds a list where it was left, and what one tab remembers holds in the other', async () => {
  const context = await browser.newContext({ viewport: { width: 1000, height: 400 } });
  const page = await context.newPage();
  await page.route('**/api/executions?*', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 400));
    await route.continue();
  });
  await openPage(page, `${server.base}/ui/executions`);
  await page.locator('tbody a').last().scrollIntoViewIfNeeded();
  const left = await page.evaluate(() => scrollY);
  expect(left).toBeGreaterThan(100);
  await page.locator('tbody a').last().click();
  await page.getByRole('heading', { name: 'Steps' }).waitFor();
  expect(await page.evaluate(() => scrollY)).toBe(0);
  await page.goBack();
  await expect.poll(() => page.evaluate(() => scrollY)).toBe(left);

  const other = await context.newPage();
  await openPage(other, `${server.base}/ui/`);
  await other.getByLabel('Theme').selectOption('contrast');
  await expect.poll(() => page.getByLabel('Theme').inputValue()).toBe('contrast');
  await context.close();
});

test('an address that leads nowhere has a title, and a way back', async () => {
  const page = await browser.newPage();
  await openPage(page, `${server.base}/ui/nowhere`);
  expect(await page.locator('h1').innerText()).toBe('There is no such page');
  expect(await page.title()).toContain('There is no such page');
  expect(await violations(page, ['light'])).toEqual([]);
  await page.getByRole('link', { name: 'Go to the overview' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.close();
});

test('a server that is gone is told, and what was loaded stays', async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await openPage(page, `${server.base}/ui/executions`);
  await context.setOffline(true);
  await page.getByRole('alert').getByText('The server does not answer').waitFor({ timeout: 20_000 });
  expect(await page.getByRole('row').count()).toBeGreaterThan(1);
  await context.close();
});
