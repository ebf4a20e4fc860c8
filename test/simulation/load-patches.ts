/** Applies patches to modules while they are loaded. To be called before anything of the product is imported. */
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { Patch } from './patches.ts';

const ROOT = new URL('../../', import.meta.url);

/** Throws where a patch does not fit its file. */
export function patchModules(patches: readonly Patch[]): void {
  const texts = new Map<string, string>();
  for (const { file, find, replace } of patches) {
    const url = new URL(file, ROOT).href;
    const text = texts.get(url) ?? readFileSync(fileURLToPath(url), 'utf8');
    if (text.split(find).length !== 2) throw new Error(`a patch does not fit ${file}: ${find}`);
    texts.set(
      url,
      text.replace(find, () => replace),
    );
  }
  registerHooks({
    load(url, context, next) {
      const text = texts.get(url);
      if (text === undefined) return next(url, context);
      return { ...next(url, context), source: text };
    },
  });
}
