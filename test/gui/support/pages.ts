/** Opening a page until it shows what it loads, and writing it down so that two runs agree. */
import type { Page, Request } from 'playwright-core';

const QUIET_MS = 200;

/** Streams stay open as long as there is something to follow. */
const STREAM = /\/stream(\?|$)/;

export async function openPage(page: Page, url: string): Promise<void> {
  const pending = new Set<Request>();
  let changedAt = Date.now();
  const onRequest = (request: Request): void => {
    changedAt = Date.now();
    if (!STREAM.test(request.url())) pending.add(request);
  };
  const onEnd = (request: Request): void => {
    changedAt = Date.now();
    pending.delete(request);
  };
  page.on('request', onRequest).on('requestfinished', onEnd).on('requestfailed', onEnd);
  try {
    await page.goto(url);
    await page.locator('h1').waitFor();
    const bones = page.locator('.bones');
    // What one answer brings may ask for the next, so quiet has to last for a moment.
    while (pending.size > 0 || Date.now() - changedAt < QUIET_MS || (await bones.count()) > 0)
      await page.waitForTimeout(QUIET_MS / 4);
  } finally {
    page.off('request', onRequest).off('requestfinished', onEnd).off('requestfailed', onEnd);
  }
}

/** By how many pixels the page is wider than its window. */
export function sideways(page: Page): Promise<number> {
  return page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - window.innerWidth));
}

/** Numbers, instants and durations differ from run to run, and so does the order of children that run at once. */
const UNSTEADY: readonly (readonly [RegExp, string])[] = [
  [/(worker|srv)-[0-9a-f]+/g, '$1-x'],
  [/\b(Ada|Grace|Barbara)\b/g, 'someone'],
  [/\br-[0-9a-f]+-[0-9a-z]+/g, 'r-x'],
  [/just now|\d+ [smhd] ago|\bin \d+ [smhd]\b/g, 'a while ago'],
  [/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+ UTC)?/g, 'an instant'],
  [/\b[0-9a-f]{12}\b/g, 'a hash'],
  [/\b[\d.]+ (ms|s|m|h|d)\b( \d+ (ms|s|m|h))?/g, 'some time'],
  [/(?<!level=)\b\d[\d,]*(\.\d+)?\b/g, 'N'],
];

export function steady(text: string): string {
  return UNSTEADY.reduce((now, [from, to]) => now.replaceAll(from, to), text);
}

/** The same on the page itself, for pictures of it. */
export async function steadyPage(page: Page): Promise<void> {
  await page.evaluate(
    (rules) => {
      const patterns = rules.map(([source, to]) => [new RegExp(source, 'g'), to] as const);
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const node = walker.currentNode;
        const text = node.nodeValue ?? '';
        const next = patterns.reduce((now, [from, to]) => now.replaceAll(from, to), text);
        if (next !== text) node.nodeValue = next;
      }
    },
    UNSTEADY.map(([from, to]) => [from.source, to] as const),
  );
}
