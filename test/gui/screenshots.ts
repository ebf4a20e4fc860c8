/**
 * `npm run gui:screenshots [-- FOLDER]`: a picture of every page in both themes, with something on it. For people to look
 * at; nothing compares them.
 */
import { mkdir } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { openBrowser } from './support/browser.ts';
import { pagesOf, setTheScene } from './support/scenes.ts';
import { startDevServer } from './support/server.ts';

const folder = process.argv[2] ?? '.callboard/screenshots';
const only = process.argv[3];
await mkdir(folder, { recursive: true });
const server = await startDevServer();
const browser = await openBrowser();
try {
  const pages = pagesOf(await setTheScene(server)).filter(([name]) => only === undefined || name.includes(only));
  for (const theme of ['light', 'dark'] as const) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: theme });
    const page = await context.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error') process.stderr.write(`${page.url()}: ${message.text()}\n`);
    });
    page.on('pageerror', (error) => process.stderr.write(`${page.url()}: ${error.message}\n`));
    for (const [name, path] of pages) {
      await page.goto(server.base + path);
      await page.locator('h1').waitFor();
      await expectLoaded(page);
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${folder}/${name}-${theme}.png`, animations: 'disabled' });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await server.stop();
}
process.stdout.write(`${folder}\n`);

async function expectLoaded(page: Page): Promise<void> {
  const bones = page.locator('.bones');
  while ((await bones.count()) > 0) await bones.first().waitFor({ state: 'detached' });
}
