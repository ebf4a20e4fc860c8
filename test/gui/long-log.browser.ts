/** An execution with 20,000 events opens at once and scrolls without a frame that one could feel. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openBrowser } from './support/browser.ts';
import { setTheScene } from './support/scenes.ts';
import type { Server } from './support/server.ts';
import { sharedServer } from './support/shared.ts';

const EVENTS = 20_000;
const BATCH = 250;
const OPEN_MS = 500;
const FRAME_MS = 50;
const SCREENS = 100;
/** The machine does other things too: the best of some attempts is what the page is able to. */
const ATTEMPTS = 5;

let server: Server;
let browser: Browser;
let id: number;

beforeAll(async () => {
  server = sharedServer();
  browser = await openBrowser();
  id = (await setTheScene(server)).running;
  const events = Array.from({ length: BATCH }, (_, index) => ({
    event_type: 'report.note',
    step: 'reconcile',
    payload: { rows: index },
  }));
  for (let sent = 0; sent < EVENTS; sent += BATCH) {
    await sendBatch(events, `long-log-${sent}`);
  }
});

/** As a client does it: a batch that a busy machine does not acknowledge in time is repeated with its key. */
async function sendBatch(events: object[], key: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await server.call('POST', '/api/events/batch', { execution_id: id, events }, { 'idempotency-key': key });
      return;
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

afterAll(() => browser?.close());

test('it opens in less than half a second', async () => {
  const page = await browser.newPage();
  const best = await bestOf(OPEN_MS, () => openEvents(page));
  await page.close();
  expect(best).toBeLessThan(OPEN_MS);
});

test('its summary opens in less than half a second too', async () => {
  const page = await browser.newPage();
  const best = await bestOf(OPEN_MS, async () => {
    await page.goto(`${server.base}/ui/executions/${id}`);
    await page.getByRole('heading', { name: 'Details' }).waitFor();
    return page.evaluate(() => performance.now());
  });
  await page.close();
  expect(best).toBeLessThan(OPEN_MS);
});

test('it scrolls without a frame of more than 50 ms, and few rows exist', async () => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await openEvents(page);
  // A frame that the page makes slow is slow each time; one that waited for a busy machine is not.
  let frames: readonly number[] = [];
  for (let attempt = 0; attempt < ATTEMPTS && (attempt === 0 || Math.max(...frames) >= FRAME_MS); attempt++) {
    const seen = await scrollThrough(page);
    frames = seen.map((ms, index) => Math.min(ms, frames[index] ?? ms));
  }
  expect(await page.locator('.virtual-row').count()).toBeLessThan(80);
  expect(await page.locator('.virtual-row').first().getAttribute('aria-setsize')).toMatch(/^20\d{3}$/);
  await page.close();
  expect(frames).toHaveLength(SCREENS);
  expect(Math.max(...frames)).toBeLessThan(FRAME_MS);
});

/** The first measurement within its limit, or the best of all attempts. */
async function bestOf(limit: number, measure: () => Promise<number>): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < ATTEMPTS && best >= limit; attempt++) best = Math.min(best, await measure());
  return best;
}

/** Milliseconds from the beginning of the navigation to the first row that says something. */
async function openEvents(page: Page): Promise<number> {
  await page.goto(`${server.base}/ui/executions/${id}/events`);
  await page.locator('.event-type').first().waitFor();
  return page.evaluate(() => performance.now());
}

/** Milliseconds of each frame while as many screens pass by. */
function scrollThrough(page: Page): Promise<readonly number[]> {
  return page.evaluate(async (screens) => {
    const list = document.querySelector('.virtual');
    if (list === null) throw new Error('There is no list');
    list.scrollTop = 0;
    const nextFrame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
    let before = await nextFrame();
    const frames: number[] = [];
    for (let frame = 0; frame < screens; frame++) {
      list.scrollTop += 600;
      const now = await nextFrame();
      frames.push(now - before);
      before = now;
    }
    return frames;
  }, SCREENS);
}
