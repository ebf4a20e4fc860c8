/** A server that asks who one is: told clearly, answered with a token that stays in the tab and out of every address. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import { type DevServer, startDevServer } from './support/server.ts';

const INSIDE = 'only-operators-of-the-service-know-this';

const INTERNAL = { authorization: `Bearer ${INSIDE}` };

let server: DevServer;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let addresses: string[];
/** Of an operator, made for the test. */
let good: string;
let name: string;

beforeAll(async () => {
  [server, browser] = await Promise.all([
    startDevServer({
      SVC_AUTH_MODE: 'enforce',
      SVC_INTERNAL_TOKEN: INSIDE,
      SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    }),
    openBrowser(),
  ]);
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => {
  name = `night-shift-${randomUUID()}`;
  const made = await server.call('POST', '/api/admin/tokens', { name, role: 'operator' }, INTERNAL);
  good = String(made['token']);
  addresses = [];
  context = await browser.newContext({ acceptDownloads: true });
  page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on('request', (request) => addresses.push(request.url()));
});

afterEach(() => context.close());

async function runHello(): Promise<number> {
  const body = { path: 'examples/hello', wait_ms: 20_000 };
  return Number((await server.call('POST', '/api/execute', body, { authorization: `Bearer ${good}` }))['execution_id']);
}

test('sign-in: a wrong token is refused with the reason, a right one opens the page that was asked for', async () => {
  await page.goto(`${server.base}/ui/playbooks?q=hello`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('Token').fill('cb_viewer_wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('Invalid or expired session').waitFor();
  await page.getByLabel('Token').fill(good);
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'examples/hello', exact: true }).waitFor();
  expect(page.url()).toBe(`${server.base}/ui/playbooks?q=hello`);
  await page.getByText(name).waitFor();

  await page.reload();
  await page.getByRole('link', { name: 'examples/hello', exact: true }).waitFor();
  expect(addresses.filter((each) => each.includes('cb_'))).toEqual([]);
  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain('cb_');
});

test('sign-in: streams and downloads carry the token too', async () => {
  const id = await runHello();
  await page.goto(`${server.base}/ui/executions/${id}/events`);
  await page.getByLabel('Token').fill(good);
  await page.keyboard.press('Enter');
  await page.locator('.virtual-row').first().waitFor();
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download' }).click(),
  ]);
  expect(file.suggestedFilename()).toBe(`execution-${id}.ndjson`);
  const text = await (await file.createReadStream()).toArray();
  expect(Buffer.concat(text).toString()).toContain('"execution.started"');
  expect(addresses.filter((each) => each.includes('cb_'))).toEqual([]);
});

test('sign-in: a token that was revoked is told, signing out forgets it, and refusals of one door keep the page', async () => {
  await page.goto(`${server.base}/ui/`);
  await page.getByLabel('Token').fill(good);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();

  // Known, but not allowed: the page stays.
  await page.goto(`${server.base}/ui/recovery`);
  await page.getByRole('button', { name: 'Check now' }).click();
  await page
    .getByText(/needs the role admin/)
    .first()
    .waitFor();
  expect(await page.getByRole('heading', { name: 'Recovery' }).count()).toBe(1);

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in', exact: true }).waitFor();
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0);

  await page.getByLabel('Token').fill(good);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await server.call('DELETE', `/api/admin/tokens?name=${name}`, undefined, INTERNAL);
  await page.goto(`${server.base}/ui/executions`);
  await page.getByRole('heading', { name: 'Sign in again' }).waitFor();
});
