/** `npm run test:chaos`: the long half of the tests that break things. One file at a time, so that bounds in seconds hold. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SECOND_TRY } from '../support/second-try.ts';

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['test/**/*.chaos.ts'],
    globalSetup: ['test/support/postgres-run.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    maxWorkers: 1,
    retry: SECOND_TRY,
  },
});
