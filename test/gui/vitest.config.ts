/** `npm run test:gui`: the GUI in a real Chromium against a real server. Left out of `npm test`, which needs neither. */
import { defineConfig } from 'vitest/config';
import { SECOND_TRY } from '../support/second-try.ts';

export default defineConfig({
  test: {
    globalSetup: 'test/gui/support/shared-server.ts',
    include: ['test/gui/**/*.browser.ts'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    retry: SECOND_TRY,
  },
});
