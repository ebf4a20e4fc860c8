/** What the GUI promises about executions, row by row of its specification, in a real browser. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import type { Server } from './support/server.ts';
import { sharedServer } from './support/shared.ts';

const PARTIAL = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: partial, path: rows/partial }
workload: { items: [1, 2, 3, 4] }
workflow:
  - step: start
    tool: { kind: noop, result: { token: "kept {{ execution_id }}" } }
    next: { arcs: [{ step: each_item }] }
  - step: each_item
    loop: { in: "{{ workload.items }}", iterator: item }
    tool: { kind: python, input: { item: "{{ iter.item }}" }, code: "if item == 3:\\n    raise ValueError('three is not wanted')\\nresult = item" }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop, result: { said: "{{ start.token }}" } }
`;

const BUSY = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: busy, path: rows/busy }
workflow:
  - step: start
    loop: { in: "{{ range(900) | list }}", iterator: item }
    tool: { kind: python, code: "import time; time.sleep(0.1)" }
`;

const SLEEPER = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: sleeper, path: rows/sleeper }
workflow:
  - step: start
    tool: { kind: python, code: "import time; time.sleep(600)" }
`;

let server: Server;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  server = sharedServer();
  browser = await openBrowser();
  for (const content of [PARTIAL, BUSY, SLEEPER]) await server.call('POST', '/api/catalog/register', { content });
});

afterAll(() => browser?.close());

beforeEach(async () => {
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.setDefaultTimeout(15_000);
});

afterEach(() => page.close());

test('row 1, execution page, summary first: error, failing step, what it was given, children, copies', async () => {
  const id = await server.run('rows/partial');
  await page.goto(`${server.base}/ui/executions/${id}`);
  await page.getByRole('heading', { name: 'Step each_item failed' }).waitFor();
  expect(await page.getByTestId('error').first().textContent()).toContain('three is not wanted');
  await page.getByRole('region', { name: 'input of the step' }).getByText('raise ValueError').waitFor();
  await page.getByRole('button', { name: 'Copy error' }).waitFor();
  // Of a loop each error stands with the item it belongs to.
  const twice = await server.run('rows/partial', { items: [0, 3, 7, 3] });
  await page.goto(`${server.base}/ui/executions/${twice}`);
  await page.locator('.failure').nth(1).getByText('iteration 4', { exact: true }).waitFor();
  const first = page.locator('.failure', { hasText: 'iteration 2' });
  expect(await first.getByRole('region').textContent()).toMatch(/"index": 1,/);
  const second = page.locator('.failure', { hasText: 'iteration 4' });
  await second.getByText('Input of the step').click();
  await second.getByRole('region').getByText('"index": 3,').waitFor();
  const nested = await server.run('examples/nested');
  await page.goto(`${server.base}/ui/executions/${nested}`);
  await page.getByRole('link', { name: '3 executions' }).click();
  await page.getByRole('link', { name: 'examples/hello' }).first().click();
  await page.getByText(`child of #${nested}`).waitFor();
  await page.getByRole('region', { name: 'result' }).waitFor();
});

test('row 2, event history: filters by kind, status, step and text, a walk with the event open, a jump by number', async () => {
  const id = await server.run('rows/partial');
  const rows = page.locator('.virtual-row');
  await page.goto(`${server.base}/ui/executions/${id}/events`);
  await rows.first().waitFor();
  await page.getByLabel('Kind of event').selectOption('call.*');
  await page.getByRole('button', { name: 'Failed only' }).click();
  await page.getByText(/^1 event matches$/).waitFor();
  expect(await rows.first().textContent()).toContain('three is not wanted');
  expect(page.url()).toContain('status=failed');
  await page.getByLabel('Kind of event').selectOption('');
  await page.getByLabel('Status of the event').selectOption('completed');
  await page.getByLabel('Step', { exact: true }).fill('start');
  await page.getByLabel('Step', { exact: true }).press('Enter');
  await rows.filter({ hasText: 'step.exit' }).waitFor();
  expect(await rows.filter({ hasText: 'each_item' }).count()).toBe(0);

  await page.goto(`${server.base}/ui/executions/${id}/events?q=three`);
  await rows.filter({ hasText: 'playbook.failed' }).waitFor();
  await page.goto(`${server.base}/ui/executions/${id}/events`);
  await page.getByLabel('Number of an event').fill('2');
  await page.getByLabel('Number of an event').press('Enter');
  await page.getByRole('heading', { name: '2 · step.enter' }).waitFor();
  await page.getByRole('listbox').focus();
  await page.keyboard.press('ArrowDown');
  await page.getByRole('heading', { name: '1 · execution.started' }).waitFor();
});

test('row 3, step graph: the whole plan with its states, and of a step its output, input and iterations, failed ones first', async () => {
  const id = await server.run('rows/partial');
  await page.goto(`${server.base}/ui/executions/${id}/graph?step=each_item`);
  await page.locator('[data-node=each_item]', { hasText: '1 failed' }).waitFor();
  expect(await page.locator('[data-node]').count()).toBe(3);
  await page.locator('[data-node=end].unreached').waitFor();
  const rounds = page.getByRole('list', { name: 'Iterations of each_item' }).getByRole('listitem');
  await rounds.first().waitFor();
  expect(await rounds.first().textContent()).toContain('three is not wanted');
  expect(await rounds.count()).toBe(4);
  await page.locator('[data-node=start]').click();
  await page.getByRole('region', { name: 'output of start' }).getByText(`kept ${id}`).waitFor();
  await page.locator('summary', { hasText: 'Input' }).click();
  await page.getByRole('region', { name: 'input of start' }).getByText('noop').waitFor();
  await page.getByRole('button', { name: 'Show as a table' }).click();
  await page.getByRole('table', { name: 'Steps and where they lead' }).getByText('not reached').waitFor();
});

test('row 5, executions list: presets with live counts, filters in the address, saved views', async () => {
  await server.run('rows/partial');
  await page.goto(`${server.base}/ui/executions`);
  const failed = page.getByRole('link', { name: /^Failed today/ });
  await failed.locator('.count').waitFor();
  expect(Number(await failed.locator('.count').textContent())).toBeGreaterThan(0);
  await failed.click();
  await page.getByRole('searchbox', { name: 'Path or number' }).fill('rows/partial');
  await page.getByRole('searchbox', { name: 'Path or number' }).press('Enter');
  await page.getByText('three is not wanted').first().waitFor();
  expect(new URL(page.url()).search).toBe('?status=failed&started=24h&q=rows%2Fpartial');
  await page.getByRole('button', { name: 'Save this view' }).click();
  await page.getByLabel('Name of this view').fill('my failures');
  await page.keyboard.press('Enter');
  await page.goto(`${server.base}/ui/executions`);
  await page.getByRole('link', { name: 'my failures' }).click();
  await page.getByText('three is not wanted').first().waitFor();
  await page.goto(`${server.base}/ui/executions?path=rows/partial`);
  await page.getByRole('button', { name: 'Any playbook' }).click();
  expect(new URL(page.url()).search).toBe('');
});

test('row 6, run dialog: form and JSON, and a rerun from a chosen step with edited input', async () => {
  await page.goto(`${server.base}/ui/playbooks/rows/partial`);
  await page.getByRole('button', { name: 'Run…' }).click();
  await page.getByRole('button', { name: 'Edit as JSON' }).click();
  expect(JSON.parse(await page.getByLabel('Input as JSON').inputValue())).toEqual({ items: [1, 2, 3, 4] });
  await page.getByLabel('Input as JSON').fill('{ "items": [3] }');
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('heading', { name: 'Step each_item failed' }).waitFor();
  const first = /executions\/(\d+)/.exec(page.url())?.[1];

  await page.getByRole('button', { name: 'Run again from each_item…' }).click();
  await page.getByLabel('Begin at').locator('option', { hasText: 'step start' }).waitFor({ state: 'attached' });
  expect(await page.getByLabel('Begin at').inputValue()).toBe('each_item');
  await page.getByLabel('items').fill('[1, 2]');
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await page.locator('.page-head').getByText('completed').waitFor();
  await page.getByText(`again after #${first}`).waitFor();
  // The value that start made in the first run is still there: it did not run again.
  await page.getByRole('region', { name: 'result' }).getByText(`kept ${first}`).waitFor();

  // An input that is set back to its default is no more that of the first run.
  await page.getByRole('button', { name: 'Run again…' }).click();
  await page.getByLabel('items').fill('[1, 2, 3, 4]');
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('region', { name: 'input' }).getByText('4', { exact: true }).waitFor();
});

test('row 7, cleanup: the dry run is shown first, and a word has to be typed', async () => {
  await page.goto(`${server.base}/ui/recovery`);
  await page.route('**/api/executions/cleanup', (route) => {
    const { dry_run } = route.request().postDataJSON() as { dry_run: boolean };
    return route.fulfill({
      json: { cancelled_count: 1, execution_ids: [victim], message: 'Cancelled 1 stuck execution', dry_run },
    });
  });
  const victim = await server.run('rows/partial');
  await page.getByRole('button', { name: 'Show what would be cancelled' }).click();
  await page.getByText('1 would be cancelled. Nothing has been changed yet.').waitFor();
  await page.getByRole('link', { name: 'rows/partial' }).waitFor();
  await page.getByRole('button', { name: 'Cancel it…' }).click();
  const act = page.getByRole('dialog').getByRole('button', { name: 'Cancel it', exact: true });
  expect(await act.isDisabled()).toBe(true);
  await page.getByRole('dialog').getByRole('textbox').fill('clean up');
  await act.click();
  await page.getByText('Cancelled 1 stuck execution').waitFor();
});

test('row 8, live updates: by stream, and by looking where there is no stream', async () => {
  const running = await server.run('rows/sleeper', {}, 0);
  await page.goto(`${server.base}/ui/executions/${running}`);
  await page.getByText('live', { exact: true }).waitFor();
  const other = await browser.newPage();
  await other.route('**/stream?*', (route) => route.abort());
  await other.goto(`${server.base}/ui/executions/${running}`);
  await other.getByText('looked up every 2 s').waitFor();
  await server.call('POST', `/api/executions/${running}/cancel`, {});
  await page.locator('.page-head').getByText('cancelled').waitFor();
  await other.locator('.page-head').getByText('cancelled').waitFor();
  await other.close();
});

test('row 8, live updates: why a run ended is told also where the stream breaks off with its status', async () => {
  const id = await server.run('rows/sleeper', {}, 0);
  await page.route('**/stream?*', async (route) => {
    await server.call('POST', `/api/executions/${id}/cancel`, { reason: 'not wanted any more' });
    const { error: _, ...status } = await server.call('GET', `/api/executions/${id}/status`);
    await route.fulfill({
      contentType: 'text/event-stream',
      body: `event: status\ndata: ${JSON.stringify({ ...status, error: null })}\n\n`,
    });
  });
  await page.goto(`${server.base}/ui/executions/${id}`);
  await page.getByText('not wanted any more').waitFor();
});

test('row 8, live updates: a run that never rests is shown while it runs, and filters find what is new', async () => {
  const id = await server.run('rows/busy', {}, 0);
  // Slower than its events come, so that what is asked for is always old when it arrives.
  for (const path of ['**/graph?*', '**/trace?*', '**/api/events/*'])
    await page.route(path, async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 600));
      await route.continue();
    });
  await page.goto(`${server.base}/ui/executions/${id}`);
  await page.locator('td', { hasText: /\d+\/900 iterations/ }).waitFor();
  await page.getByRole('link', { name: 'Timeline' }).click();
  await page.locator('.timeline-row .try').first().waitFor();
  await page.getByRole('link', { name: 'Statechart' }).click();
  await page.locator('.state-box.active', { hasText: 'working' }).first().waitFor();
  await page.goto(`${server.base}/ui/executions/${id}/events?type=command.completed`);
  const count = page.getByRole('region', { name: 'Events' }).getByRole('status');
  await count.getByText('match').waitFor();
  const before = await count.textContent();
  await expect.poll(() => count.textContent(), { timeout: 15_000 }).not.toBe(before);
  expect(await page.locator('.page-head').getByText('running', { exact: true }).count()).toBe(1);
  await server.call('POST', `/api/executions/${id}/cancel`, {});
});

test('in a narrow window the tab and the state that are shown are in sight', async () => {
  const id = await server.run('examples/hello');
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${server.base}/ui/executions/${id}/children`);
  const tab = page.getByRole('link', { name: 'Children' });
  await tab.waitFor();
  await expect.poll(async () => (await tab.boundingBox())?.x ?? 999).toBeLessThan(320);
  await page.goto(`${server.base}/ui/machines/keychain`);
  const state = page.locator('.state-box.active');
  await state.waitFor();
  await expect.poll(async () => (await state.boundingBox())?.x ?? 999).toBeLessThan(270);
});

test('row 13, timeline: a stretch is dragged over and looked at, by pointer and by keys, and shared by its address', async () => {
  const id = await server.run('examples/loop');
  await page.goto(`${server.base}/ui/executions/${id}/timeline`);
  const status = page.getByRole('region', { name: 'Timeline' }).getByRole('status');
  await status.getByText('in all').waitFor();
  const lane = await page.locator('.lane').first().boundingBox();
  if (lane === null) throw new Error('There is no lane');
  await page.mouse.move(lane.x + lane.width * 0.25, lane.y + 8);
  await page.mouse.down();
  await page.mouse.move(lane.x + lane.width * 0.5, lane.y + 8, { steps: 4 });
  await page.locator('.brush').waitFor();
  await page.mouse.up();
  await page.waitForURL(/from=\d+&to=\d+/);
  await status.getByText(' of ').waitFor();
  await page.reload();
  await status.getByText(' of ').waitFor();
  await page.getByRole('group', { name: /When each step ran/ }).focus();
  await page.keyboard.press('+');
  const near = new URL(page.url()).search;
  await page.keyboard.press('ArrowRight');
  expect(new URL(page.url()).search).not.toBe(near);
  await page.keyboard.press('0');
  await status.getByText('in all').waitFor();
  expect(new URL(page.url()).search).toBe('');
});
