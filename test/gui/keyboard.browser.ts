/** Without a mouse: run a playbook, find the step that failed, read its error; travel in time; use the palette. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import { tabTo } from './support/keys.ts';
import type { Server } from './support/server.ts';
import { sharedServer } from './support/shared.ts';

let server: Server;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  server = sharedServer();
  browser = await openBrowser();
});

afterAll(() => browser?.close());

beforeEach(async () => {
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.setDefaultTimeout(15_000);
});

afterEach(() => page.close());

test('rows 1, 3, 6: a playbook is run, its failed step found and its error read by keyboard alone', async () => {
  await page.goto(`${server.base}/ui/`);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('p');
  await page.getByRole('button', { name: 'Run examples/retry' }).waitFor();
  await tabTo(page, 'Run examples/retry');
  await page.keyboard.press('Enter');
  await page.getByLabel('fails').waitFor();
  await tabTo(page, 'fails');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('9');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Step start failed' }).waitFor({ timeout: 30_000 });
  expect(await page.getByTestId('error').textContent()).toContain('nobody answers');

  await tabTo(page, 'Graph');
  await page.keyboard.press('Enter');
  await page.locator('[data-node=start]').waitFor();
  await tabTo(page, /^start, failed/);
  await page.keyboard.press('ArrowDown');
  expect(await page.locator(':focus').getAttribute('data-node')).toBe('end');
  await page.keyboard.press('f');
  expect(await page.locator(':focus').textContent()).toContain('start, failed');
  await page.keyboard.press('Enter');
  await page.locator('.problem').getByText('nobody answers').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.problem').waitFor({ state: 'detached' });
});

test('row 2, event history: events are walked with arrows, opened with Enter and closed with Escape', async () => {
  const id = await server.run('examples/hello');
  await page.goto(`${server.base}/ui/executions/${id}/events`);
  await page.locator('.virtual-row').first().waitFor();
  await tabTo(page, 'Events, newest first');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: '1 · execution.started' }).waitFor();
  expect(page.url()).toContain('event=1');
  await page.keyboard.press('Escape');
  await page.getByRole('heading', { name: '1 · execution.started' }).waitFor({ state: 'detached' });
  expect(await page.locator(':focus').getAttribute('aria-label')).toBe('Events, newest first');
});

test('row 4, statechart with scrubber: time travel goes by arrow keys and is kept in the address', async () => {
  const id = await server.run('examples/hello');
  await page.goto(`${server.base}/ui/executions/${id}/statechart`);
  await page.getByRole('slider', { name: 'Frame' }).waitFor();
  await tabTo(page, 'Frame');
  await page.keyboard.press('Home');
  await page.locator('.state-box.active', { hasText: 'working' }).first().waitFor();
  expect(page.url()).toContain('at=1');
  await page.keyboard.press('Shift+ArrowRight');
  await page.locator('.state-box.active', { hasText: 'completed' }).waitFor();
  await page.reload();
  await page.locator('.state-box.active', { hasText: 'completed' }).waitFor();
});

test('row 16, command palette: it opens an execution by its number', async () => {
  const id = await server.run('examples/hello');
  await page.goto(`${server.base}/ui/`);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /Go to/ }).waitFor();
  await page.keyboard.type(String(id));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'examples/hello' }).waitFor();
  expect(page.url()).toContain(`/ui/executions/${id}`);
});

test('row 9, editor: it shows what the server says at its place and registers', async () => {
  await page.goto(`${server.base}/ui/editor`);
  const text = page.locator('.cm-content');
  await text.waitFor();
  await page.getByText('No problems.').waitFor();
  await text.focus();
  await page.keyboard.press('Control+End');
  await page.keyboard.insertText('  - step: lost\n');
  await page.getByRole('button', { name: /Missing 'tool' field/ }).waitFor();
  expect(await page.getByRole('button', { name: 'Register…' }).isDisabled()).toBe(true);
  await page.locator('.cm-lintRange-error').first().waitFor();
  await text.focus();
  await page.keyboard.press('Control+z');
  await page.getByText('No problems.').waitFor();
  await page.getByRole('button', { name: 'Register…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click();
  await page.getByRole('heading', { name: 'my/first' }).waitFor();
});

test('row 9, editor: a key is explained under the pointer, and a completion beside it', async () => {
  await page.goto(`${server.base}/ui/editor`);
  await page.getByText('No problems.').waitFor();
  await page.locator('.cm-line', { hasText: 'workload:' }).locator('span').first().hover();
  await page.locator('.cm-explanation', { hasText: 'Inputs with their defaults' }).waitFor();
  await page.mouse.move(0, 0);
  await page.locator('.cm-content').focus();
  await page.keyboard.press('Control+End');
  await page.keyboard.insertText('  - step: lost\n    ');
  await page.keyboard.press('Control+Space');
  await page.locator('.cm-tooltip-autocomplete', { hasText: 'loop' }).waitFor();
  await page.locator('.cm-completionInfo').waitFor();
});
