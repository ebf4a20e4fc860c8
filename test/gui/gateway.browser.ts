/** Behind a gateway the pages change things too: they learn the session's token from it. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { type RunningGateway, startGateway } from '../../src/gateway/start.ts';
import { silentLog } from '../../src/log.ts';
import { openBrowser } from './support/browser.ts';
import { type DevServer, startDevServer } from './support/server.ts';

let server: DevServer;
let browser: Browser;
let gateway: RunningGateway;

beforeAll(async () => {
  [server, browser] = await Promise.all([startDevServer(), openBrowser()]);
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

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port');
  return address.port;
}
