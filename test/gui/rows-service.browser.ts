/** What the GUI promises about everything around executions, row by row of its specification, in a real browser. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
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

test('row 9, editor: a simulation with scripted outcomes, and the tries nothing was scripted for', async () => {
  await page.goto(`${server.base}/ui/editor?path=examples/errors`);
  await page.getByText('No problems.').waitFor();
  await page.getByRole('button', { name: 'Simulate' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Unmatched').waitFor();
  await dialog.getByRole('button', { name: 'Script start' }).click();
  await dialog.getByLabel('What start does').selectOption('error');
  await dialog.getByLabel('Message of the error of start').fill('the card was refused');
  await dialog.getByRole('button', { name: 'Simulate again' }).click();
  await dialog.getByRole('region', { name: 'result' }).getByText('the card was refused').waitFor();
  await dialog.getByText('Unmatched').waitFor({ state: 'detached' });
  await dialog.getByLabel('What start does').selectOption('result');
  await dialog.getByLabel('Result of start as JSON').fill('{ "charged": ');
  await dialog.getByRole('button', { name: 'Simulate again' }).click();
  await dialog.getByText('The result of start is not valid JSON').waitFor();
});

test('row 9, editor: a file of this machine is opened, checked and registered', async () => {
  await page.goto(`${server.base}/ui/editor`);
  await page.getByText('No problems.').waitFor();
  await page.getByLabel('Playbook file').setInputFiles({
    name: 'opened.yaml',
    mimeType: 'text/yaml',
    buffer: Buffer.from(
      'apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: opened, path: rows/opened }\nworkflow:\n  - step: start\n    tool: { kind: noop }\n',
    ),
  });
  await page.getByText('rows/opened', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Register…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click();
  await page.getByRole('heading', { name: 'rows/opened' }).waitFor();
});

test('row 9, editor: registering shows what changes against the newest version', async () => {
  await page.goto(`${server.base}/ui/editor?path=examples/fan-out`);
  await page.getByText('No problems.').waitFor();
  await page.locator('.cm-content').focus();
  await page.keyboard.press('Control+Home');
  await page.keyboard.insertText('# looked at\n');
  await page.getByRole('button', { name: 'Register…' }).click();
  await page.getByRole('dialog').locator('.line.added', { hasText: '# looked at' }).waitFor();
});

test('row 10, credentials: made by a form, refused by field, replaced without losing hosts and rules, deleted', async () => {
  await page.goto(`${server.base}/ui/credentials`);
  await page.getByRole('button', { name: 'New credential' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('rows_db');
  await dialog.getByLabel('Type', { exact: true }).selectOption('postgres');
  await dialog.getByLabel('host', { exact: true }).fill('db.example.test');
  await dialog.getByLabel('port').fill('5432');
  await dialog.getByText('Tags, hosts and rules').click();
  await dialog.getByLabel(/Only for these hosts/).fill('db.example.test');
  await dialog
    .getByLabel(/Rules for the content/)
    .fill('{ "required": ["host", "password"], "types": { "port": "integer" } }');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByText('Missing required field: password').waitFor();
  expect(await dialog.getByLabel('password', { exact: true }).getAttribute('aria-invalid')).toBe('true');
  await dialog.getByLabel('password', { exact: true }).fill('hush-hush');
  expect(await dialog.getByLabel('password', { exact: true }).getAttribute('type')).toBe('password');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('cell', { name: 'rows_db', exact: true }).waitFor();

  await page.getByRole('button', { name: 'Replace rows_db' }).click();
  await dialog.getByLabel('host', { exact: true }).fill('db.example.test');
  await dialog.getByLabel('password', { exact: true }).fill('other');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.waitFor({ state: 'detached' });
  const stored = await server.call('GET', '/api/credentials/rows_db?include_data=true');
  expect(stored).toMatchObject({
    data: { host: 'db.example.test', password: 'other' },
    meta: { hosts: ['db.example.test'] },
    schema: { required: ['host', 'password'] },
  });

  await page.getByRole('button', { name: 'Delete rows_db' }).click();
  await dialog.getByRole('textbox').fill('rows_db');
  await dialog.getByRole('button', { name: 'Delete it' }).click();
  await page.getByRole('cell', { name: 'rows_db', exact: true }).waitFor({ state: 'detached' });
});

test('row 11, keychain: what entries are, renewed by hand or by being forgotten, deleted, never their content', async () => {
  const entry = await server.call('POST', '/api/catalog/resource', { path: 'examples/hello' });
  const base = `/api/keychain/${String(entry['catalog_id'])}`;
  const item = { credential_type: 'bearer', token_data: { access_token: 'first-token' } };
  await server.call('POST', `${base}/by_hand`, { ...item, ttl_seconds: -5 });
  await server.call('POST', `${base}/by_itself`, {
    ...item,
    ttl_seconds: 900,
    auto_renew: true,
    renew_config: { endpoint: 'http://127.0.0.1:9/token' },
  });
  await page.goto(`${server.base}/ui/playbooks/examples/hello?view=keychain`);
  const row = (name: string) => page.getByRole('row').filter({ hasText: name });
  await row('by_hand').getByText('expired').waitFor();
  await row('by_itself').getByText('renews itself').waitFor();
  expect(await page.content()).not.toContain('first-token');

  await page.getByRole('button', { name: 'Renew by_hand' }).click();
  await page.getByLabel('access_token', { exact: true }).fill('second-token');
  await page.getByLabel('Lives for, in minutes').fill('30');
  await page.getByRole('button', { name: 'Save' }).click();
  await row('by_hand').getByText('expired').waitFor({ state: 'detached' });
  const read = await server.call('GET', `${base}/by_hand`);
  expect(read).toMatchObject({ status: 'success', token_data: { access_token: 'second-token' } });

  await page.getByRole('button', { name: 'Renew by_itself' }).click();
  await page.getByRole('button', { name: 'Forget this token' }).click();
  await row('by_itself').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Delete by_hand' }).click();
  await page.getByRole('button', { name: 'Delete it' }).click();
  await row('by_hand').waitFor({ state: 'detached' });
});

test('row 14, batches: state and timings of an accepted batch', async () => {
  const id = await server.run('examples/hello');
  const accepted = await server.call('POST', '/api/events/batch', {
    execution_id: id,
    events: [{ event_type: 'report.note', step: 'start', payload: {} }],
  });
  await page.goto(`${server.base}/ui/batches`);
  await page.getByRole('searchbox').fill(String(accepted['request_id']));
  await page.keyboard.press('Enter');
  await page.locator('.badge', { hasText: 'completed' }).waitFor();
  await page.getByLabel('processing_ms').waitFor();
});

test('row 15, workers and commands: who works, when the reaper looked, and a nudge', async () => {
  await page.goto(`${server.base}/ui/commands`);
  await page.getByRole('row').filter({ hasText: 'worker_pool' }).getByText('ready').waitFor();
  await page.getByText('Next look', { exact: true }).first().waitFor();
  await page.getByRole('button', { name: 'Look now' }).click();
  await page.getByText(/Looked just now|was asked to/).waitFor();
  await page
    .getByText(/: nothing was forgotten/)
    .first()
    .waitFor();
});

test('row 16, command palette, key sheet and jumps', async () => {
  await page.goto(`${server.base}/ui/`);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('heading', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('k');
  await page.getByRole('heading', { name: 'Keychain' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('fan-out');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'examples/fan-out' }).waitFor();
});

test('row 17, simulator: events that can happen with their guards, from any moment of a run, and nothing is stored', async () => {
  const id = await server.run('examples/hello');
  const before = await server.call('GET', `/api/executions/${id}`);
  await page.goto(`${server.base}/ui/executions/${id}/statechart?at=2`);
  await page.getByRole('link', { name: 'Try it out' }).click();
  await page.getByText(`A copy of execution ${id} at event 2`).waitFor();
  await page.getByRole('button', { name: /^command\.completed if isParking, isOpen/ }).waitFor();
  await page.getByRole('button', { name: 'execution.cancelled' }).click();
  await page.locator('.state-box.active', { hasText: 'cancelled' }).waitFor();
  await page.getByText('Nothing can happen any more').waitFor();
  expect(await server.call('GET', `/api/executions/${id}`)).toEqual(before);
});
