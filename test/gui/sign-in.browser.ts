/** A server that asks who one is: told clearly, answered with a token that stays in the tab and out of every address. */
import type { Browser, BrowserContext, Page, Route } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import type { Server } from './support/server.ts';
import { sharedServer } from './support/shared.ts';

const GOOD = `cb_operator_${'a'.repeat(43)}`;

let server: Server;
let browser: Browser;
let context: BrowserContext;
let page: Page;
/** Tokens that the API accepts at the moment. */
let accepted: Set<string>;
let addresses: string[];

beforeAll(async () => {
  server = sharedServer();
  browser = await openBrowser();
});

afterAll(() => browser?.close());

beforeEach(async () => {
  accepted = new Set([GOOD]);
  addresses = [];
  context = await browser.newContext({ acceptDownloads: true });
  page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on('request', (request) => addresses.push(request.url()));
  await page.route('**/api/**', judge);
});

afterEach(() => context.close());

/** What enforce mode does (api 1.13), in front of a server in open mode. */
async function judge(route: Route): Promise<void> {
  const request = route.request();
  if (new URL(request.url()).pathname === '/api/auth/validate') {
    const body: unknown = request.postDataJSON();
    const token = typeof body === 'object' && body !== null ? Reflect.get(body, 'session_token') : undefined;
    const valid = typeof token === 'string' && accepted.has(token);
    const user = valid ? { user_id: '7', display_name: 'night-shift', roles: ['operator'] } : null;
    return route.fulfill({ json: { valid, user, message: valid ? null : 'Invalid or expired token' } });
  }
  const bearer = request.headers()['authorization']?.replace(/^Bearer /, '');
  if (bearer !== undefined && accepted.has(bearer)) return route.continue();
  return route.fulfill({
    status: 401,
    json: { detail: 'Missing authentication token', code: 'unauthenticated', request_id: 'r-test' },
  });
}

test('sign-in: a wrong token is refused with the reason, a right one opens the page that was asked for', async () => {
  await page.goto(`${server.base}/ui/playbooks?q=hello`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('Token').fill('cb_viewer_wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('Invalid or expired token').waitFor();
  await page.getByLabel('Token').fill(GOOD);
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'examples/hello', exact: true }).waitFor();
  expect(page.url()).toBe(`${server.base}/ui/playbooks?q=hello`);
  await page.getByText('night-shift').waitFor();

  await page.reload();
  await page.getByRole('link', { name: 'examples/hello', exact: true }).waitFor();
  expect(addresses.filter((each) => each.includes('cb_'))).toEqual([]);
  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain('cb_');
});

test('sign-in: streams and downloads carry the token too', async () => {
  const id = await server.run('examples/hello');
  await page.goto(`${server.base}/ui/executions/${id}/events`);
  await page.getByLabel('Token').fill(GOOD);
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
  await page.getByLabel('Token').fill(GOOD);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();

  // 401 for another reason than this token: an admin door that wants the internal token as well.
  await page.route('**/api/admin/**', (route) =>
    route.fulfill({
      status: 401,
      json: { detail: 'This needs the token of SVC_INTERNAL_TOKEN', code: 'unauthenticated' },
    }),
  );
  await page.goto(`${server.base}/ui/recovery`);
  await page.getByRole('button', { name: 'Check now' }).click();
  await page.getByText('This needs the token of SVC_INTERNAL_TOKEN').first().waitFor();
  expect(await page.getByRole('heading', { name: 'Recovery' }).count()).toBe(1);

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in', exact: true }).waitFor();
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0);

  await page.getByLabel('Token').fill(GOOD);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  accepted.clear();
  await page.goto(`${server.base}/ui/executions`);
  await page.getByRole('heading', { name: 'Sign in again' }).waitFor();
});
