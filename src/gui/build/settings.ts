/** How Vite builds the GUI. The development server and the build share it, so both see the same program. */
import { fileURLToPath } from 'node:url';
import type { InlineConfig } from 'vite';

export const GUI_FOLDER = fileURLToPath(new URL('..', import.meta.url));

/** `out` is emptied first; assets carry a hash of their content in their names. */
export function buildSettings(out: string): InlineConfig {
  return {
    root: GUI_FOLDER,
    base: '/ui/',
    configFile: false,
    envFile: false,
    logLevel: 'warn',
    publicDir: false,
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      outDir: out,
      emptyOutDir: true,
      target: 'es2022',
      cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
      assetsDir: 'assets',
      // An asset put into the page as data: would be refused by the policy the page is sent with.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  };
}
