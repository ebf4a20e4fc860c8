/** Schedules are planned, paused, changed, started at once and deleted, by a form and with what they will do told first. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import type { Server } from './support/server.ts';
import { sharedServer } from './support/shared.ts';

const NAME = 'Greeting of the hour';

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
  await page.goto(`${server.base}/ui/schedules`);
});

afterEach(() => page.close());

async function stored(): Promise<Record<string, unknown> | undefined> {
  const { items } = await server.call('GET', '/api/schedules');
  // The list of the API.
  return (items as Record<string, unknown>[]).find((each) => each['name'] === NAME);
}

/** What a first try has left. */
async function removed(): Promise<void> {
  const known = await stored();
  if (known !== undefined) await server.call('DELETE', `/api/schedules/${known['schedule_id']}`);
}

test('a schedule is planned by a form, and refused with the reason of the server', async () => {
  await removed();
  await page.getByRole('button', { name: 'New schedule' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill(NAME);
  await dialog.getByLabel('Playbook').fill('examples/hello');
  await dialog.getByLabel('Cron expression').fill('61 * * * *');
  await dialog.getByRole('button', { name: 'Create schedule' }).click();
  await dialog.getByRole('alert').getByText('minute').waitFor();
  expect(await stored()).toBeUndefined();

  await dialog.getByLabel('When', { exact: true }).selectOption('interval');
  await dialog.getByLabel('Every').fill('2');
  await dialog.getByLabel('Unit').selectOption('hours');
  await dialog.getByLabel('Input, as JSON').fill('{"who": "the hour"}');
  await dialog.getByLabel('When the one before still runs').selectOption('skip');
  await dialog.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByRole('cell', { name: 'every 2 hours' }).waitFor();
  expect(await stored()).toMatchObject({
    path: 'examples/hello',
    interval_seconds: 7_200,
    workload: { who: 'the hour' },
    overlap: 'skip',
    enabled: true,
  });
});

test('it is paused, changed, started at once, and deleted after a question', async () => {
  await removed();
  const planned = { name: NAME, path: 'examples/hello', interval_seconds: 7_200, overlap: 'skip' };
  await server.call('POST', '/api/schedules', planned);
  await page.reload();
  const row = page.getByRole('row', { name: NAME });
  await page.getByRole('button', { name: `Pause ${NAME}` }).click();
  await row.getByText('paused').waitFor();

  await page.getByRole('button', { name: `Change ${NAME}` }).click();
  const dialog = page.getByRole('dialog');
  expect(await dialog.getByLabel('Every').inputValue()).toBe('2');
  await dialog.getByLabel('When', { exact: true }).selectOption('cron');
  await dialog.getByLabel('Cron expression').fill('30 6 * * 1');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await row.getByText('30 6 * * 1').waitFor();
  expect(await stored()).toMatchObject({ interval_seconds: null, overlap: 'skip', enabled: false });

  await page.getByRole('button', { name: `Run now: ${NAME}` }).click();
  await row.getByText('completed').waitFor();

  await page.getByRole('button', { name: `Delete ${NAME}` }).click();
  await dialog.getByText('What it has started goes on').waitFor();
  await dialog.getByRole('button', { name: 'Delete it' }).click();
  await row.waitFor({ state: 'detached' });
  expect(await stored()).toBeUndefined();
});
