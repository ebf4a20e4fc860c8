/** Every page in both themes: readable for everyone, nothing fetched from elsewhere, nothing that the policy forbids. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import { pagesOf, type Scenes, SECRET, setTheScene } from './support/scenes.ts';
import { type DevServer, startDevServer } from './support/server.ts';

interface AxeAnswer {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
  }[];
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const NAMES = pagesOf({ failed: 0, completed: 0, looped: 0, nested: 0, running: 0 }).map(([name]) => name);
/** Pages whose form for screen readers is kept as a file, to be reviewed as text. */
const KEPT = ['executions', 'execution-failed', 'playbook', 'credentials', 'recovery'];

let server: DevServer;
let browser: Browser;
let scenes: Scenes;

beforeAll(async () => {
  [server, browser] = await Promise.all([startDevServer(), openBrowser()]);
  scenes = await setTheScene(server);
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

describe.each(['light', 'dark'] as const)('in the %s theme', (theme) => {
  let context: BrowserContext;
  let page: Page;
  let foreign: string[];
  let complaints: string[];

  beforeAll(async () => {
    context = await browser.newContext({
      viewport: { width: 1280, height: 900 },
      colorScheme: theme,
      reducedMotion: 'reduce',
    });
    await context.route('**/*', (route) => {
      const url = route.request().url();
      if (url.startsWith(server.base)) return route.continue();
      foreign.push(url);
      return route.abort();
    });
    page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      // A page that is not there says so on purpose.
      if (message.type() === 'error' && !message.text().includes('404')) complaints.push(message.text());
    });
  });
  afterAll(() => context?.close());

  test.each(NAMES)('%s is accessible, complains of nothing and asks nobody else', async (name) => {
    foreign = [];
    complaints = [];
    const path = pagesOf(scenes).find(([each]) => each === name)?.[1] ?? '';
    await open(page, server.base + path);
    await page.evaluate(AXE);
    const answer = await page.evaluate(async () => {
      // The script above defines it.
      const { axe } = window as unknown as { axe: { run(root: Document, options: object): Promise<AxeAnswer> } };
      return axe.run(document, { resultTypes: ['violations'] });
    });
    const found = answer.violations.flatMap((each) =>
      each.nodes.map((node) => `${each.id}: ${node.html}\n${node.failureSummary}`),
    );
    expect(found).toEqual([]);
    expect(foreign).toEqual([]);
    expect(complaints).toEqual([]);
    expect(await page.content()).not.toContain(SECRET);
    if (theme === 'light' && KEPT.includes(name)) {
      const text = await page.locator('main').ariaSnapshot();
      await expect(`${steady(text)}\n`).toMatchFileSnapshot(`snapshots/${name}.aria.yml`);
    }
  });
});

test('a secret is shown on demand only, and hidden when the dialog closes', async () => {
  const page = await browser.newPage();
  await open(page, `${server.base}/ui/credentials`);
  await page.getByRole('button', { name: 'Reveal billing_api' }).click();
  expect(await page.content()).not.toContain(SECRET);
  await page.getByRole('button', { name: 'Reveal it' }).click();
  await page.getByText(SECRET).waitFor();
  await page.keyboard.press('Escape');
  await page.getByText(SECRET).waitFor({ state: 'detached' });
  await page.close();
});

test('high contrast is a theme of its own and is remembered', async () => {
  const page = await browser.newPage();
  await open(page, `${server.base}/ui/`);
  await page.getByLabel('Theme').selectOption('contrast');
  await page.reload();
  await page.locator('h1').waitFor();
  expect(await page.locator('html').getAttribute('data-theme')).toBe('contrast');
  await page.evaluate(AXE);
  const violations = await page.evaluate(async () => {
    // The script above defines it.
    const { axe } = window as unknown as { axe: { run(root: Document): Promise<AxeAnswer> } };
    return (await axe.run(document)).violations.map((each) => each.id);
  });
  expect(violations).toEqual([]);
  await page.close();
});

test('what is cancelled is shown first, with its children, and the list follows', async () => {
  const page = await browser.newPage();
  const id = await server.run('demo/nightly-report', { region: 'cancel-me' }, 0);
  await open(page, `${server.base}/ui/executions/${id}`);
  await page.getByRole('button', { name: 'Cancel…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(`#${id}`).waitFor();
  await dialog.getByRole('button', { name: 'Cancel it' }).click();
  await page.locator('.page-head').getByText('cancelled').waitFor();
  await page.getByRole('link', { name: 'Executions' }).first().click();
  await page
    .getByRole('row')
    .filter({ hasText: `#${id}` })
    .getByText('cancelled', { exact: true })
    .waitFor();
  await page.close();
});

test('a server that is gone is told, and what was loaded stays', async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await open(page, `${server.base}/ui/executions`);
  await context.setOffline(true);
  await page.getByRole('alert').getByText('The server does not answer').waitFor({ timeout: 20_000 });
  expect(await page.getByRole('row').count()).toBeGreaterThan(1);
  await context.close();
});

async function open(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await page.locator('h1').waitFor();
  const bones = page.locator('.bones');
  while ((await bones.count()) > 0) await bones.first().waitFor({ state: 'detached' });
}

/** Numbers, instants and durations differ from run to run, and so does the order of children that run at once. */
function steady(text: string): string {
  return text
    .replaceAll(/worker-[0-9a-f]+/g, 'worker-x')
    .replaceAll(/\b(Ada|Grace|Barbara)\b/g, 'someone')
    .replaceAll(/just now|\d+ [smhd] ago/g, 'a while ago')
    .replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+ UTC)?/g, 'an instant')
    .replaceAll(/\b[\d.]+ (ms|s|m|h)\b( \d+ (ms|s|m))?/g, 'some time')
    .replaceAll(/(?<!level=)\b\d+\b/g, 'N');
}
