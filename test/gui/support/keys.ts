/** Moving about with the keyboard alone. */
import type { Page } from 'playwright-core';

const PRESSES_MAX = 120;

/** Presses Tab until an element with this name has the focus. */
export async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  const seen: string[] = [];
  for (let press = 0; press < PRESSES_MAX; press++) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      if (!(element instanceof HTMLElement)) return '';
      const labelled = element instanceof HTMLInputElement ? (element.labels?.[0]?.textContent ?? '') : '';
      return (element.getAttribute('aria-label') ?? (labelled === '' ? element.textContent : labelled) ?? '').trim();
    });
    if (typeof name === 'string' ? focused === name : name.test(focused)) return;
    seen.push(focused.slice(0, 30));
  }
  throw new Error(`Tab does not reach ${name}; it went to ${seen.join(' | ')}`);
}
