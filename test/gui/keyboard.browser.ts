/** Without a mouse: run a playbook, find the step that failed, read its error; travel in time; use the palette. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import { tabTo } from './support/keys.ts';
import { type DevServer, startDevServer } from './support/server.ts';

let server: DevServer;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  [server, browser] = await Promise.all([startDevServer(), openBrowser()]);
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => {
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.setDefaultTimeout(15_000);
});

afterEach(() => page.close());

test('a playbook is run, its failed step found and its error read by keyboard alone', async () => {
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

test('events are walked with arrows, opened with Enter and closed with Escape', async () => {
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

test('time travel goes by arrow keys and is kept in the address', async () => {
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

test('the palette opens an execution by its number', async () => {
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

test('the editor shows what the server says at its place and registers', async () => {
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
