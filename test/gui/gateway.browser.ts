/** Behind a gateway the pages change things too: they learn the session's token from it. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { type RunningGateway, startGateway } from '../../src/gateway/start.ts';
import { silentLog } from '../../src/log.ts';
import { call, type Reply } from '../gateway/call.ts';
import { startFakeProvider } from '../gateway/fake-provider.ts';
import { openBrowser } from './support/browser.ts';
import { type DevServer, startDevServer } from './support/server.ts';

const INSIDE = 'only-gateways-know-this';

let server: DevServer;
let browser: Browser;
let gateway: RunningGateway;

beforeAll(async () => {
  [server, browser] = await Promise.all([startDevServer({ SVC_INTERNAL_TOKEN: INSIDE }), openBrowser()]);
  const config = readConfig({
    SVC_GATEWAY_AUTH: 'dev',
    SVC_GATEWAY_PORT: String(await freePort()),
    SVC_GATEWAY_UPSTREAM: server.base,
  });
  gateway = await startGateway(config, silentLog);
});

afterAll(async () => {
  await gateway?.stop();
  await browser?.close();
  await server?.stop();
});

test('a playbook is run through the gateway', async () => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.setDefaultTimeout(15_000);
  await page.goto(`${gateway.url}/ui/playbooks`);
  await page.getByRole('button', { name: 'Run examples/hello' }).click();
  const started = page.waitForResponse((response) => response.url().includes('/api/execute') && response.ok());
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^(Run|Start)/ })
    .click();
  expect((await started).url().startsWith(gateway.url)).toBe(true);
  await page.getByText('completed', { exact: false }).first().waitFor();
  await page.close();
});

test('sessions of a login are kept by the server, and end with the logout', async () => {
  const provider = await startFakeProvider('gate');
  const guarded = await startGateway(
    readConfig({
      SVC_GATEWAY_PORT: '0',
      SVC_GATEWAY_UPSTREAM: server.base,
      SVC_INTERNAL_TOKEN: INSIDE,
      GATEWAY_PUBLIC_URL: 'https://gw.example.test',
      SVC_OIDC_ISSUER: provider.issuer,
      SVC_OIDC_CLIENT_ID: 'gate',
      SVC_OIDC_CLIENT_SECRET: 'hush',
      SVC_OIDC_DEFAULT_ROLE: 'operator',
    }),
    silentLog,
  );
  try {
    expect((await call(guarded.url, 'GET', '/api/executions')).status).toBe(401);
    const begun = await call(guarded.url, 'GET', '/auth/login?return_to=/ui/');
    const back = provider.agree(String(begun.headers.location));
    const done = await call(guarded.url, 'GET', back.pathname + back.search, {
      headers: { cookie: cookieOf(begun, '__Host-cb_login') },
    });
    const cookie = cookieOf(done, '__Host-callboard_session');
    expect((await call(guarded.url, 'GET', '/api/executions', { headers: { cookie } })).status).toBe(200);

    const body = { path: 'examples/hello' };
    const without = await call(guarded.url, 'POST', '/api/execute', { headers: { cookie }, body });
    expect(without.status).toBe(403);
    const me = await call(guarded.url, 'GET', '/auth/me', { headers: { cookie } });
    const headers = { cookie, 'x-csrf-token': String(me.json.csrf_token) };
    expect((await call(guarded.url, 'POST', '/api/execute', { headers, body })).status).toBe(200);
    expect((await call(guarded.url, 'GET', '/api/credentials?include_data=true', { headers })).status).toBe(403);

    await call(guarded.url, 'POST', '/auth/logout', { headers, body: {} });
    expect((await call(guarded.url, 'GET', '/api/executions', { headers: { cookie } })).status).toBe(401);
  } finally {
    await guarded.stop();
    await provider.stop();
  }
});

function cookieOf(reply: Reply, name: string): string {
  const found = reply.headers['set-cookie']?.find((each) => each.startsWith(`${name}=`));
  if (found === undefined) throw new Error(`no cookie ${name}`);
  return found.split(';')[0] ?? '';
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port');
  return address.port;
}
