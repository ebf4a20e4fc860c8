/** `npm run test:system`: whole processes, started, stopped, killed and restarted; too long for every `npm test`. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SECOND_TRY } from '../support/second-try.ts';

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['test/**/*.system.ts'],
    globalSetup: ['test/support/postgres-run.ts'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    retry: SECOND_TRY,
  },
});
