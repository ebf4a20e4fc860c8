/** What axe finds on a page, as sentences. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

interface AxeAnswer {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
  }[];
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** All that can differ between themes of one and the same page. */
const COLOURS = ['color-contrast', 'link-in-text-block'];

export const ALL_THEMES = ['light', 'dark', 'contrast'] as const;

/** Violations in each theme, the page loaded once: everything in the first, what colours decide in the others. */
export async function violations(page: Page, themes: readonly (typeof ALL_THEMES)[number][]): Promise<string[]> {
  await page.evaluate(AXE);
  const found: string[] = [];
  for (const [index, theme] of themes.entries()) {
    await page.evaluate((each) => {
      document.documentElement.dataset['theme'] = each;
    }, theme);
    const answer = await page.evaluate(
      (options) => {
        // The script above defines it.
        const { axe } = window as unknown as { axe: { run(root: Document, options: object): Promise<AxeAnswer> } };
        return axe.run(document, options);
      },
      { resultTypes: ['violations'], ...(index === 0 ? {} : { runOnly: COLOURS }) },
    );
    for (const each of answer.violations)
      found.push(...each.nodes.map((node) => `${theme}, ${each.id}: ${node.html}\n${node.failureSummary}`));
  }
  return found;
}
