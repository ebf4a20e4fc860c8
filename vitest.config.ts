import { defineConfig } from 'vitest/config';
import { SECOND_TRY } from './test/support/second-try.ts';

/** Tests that start processes or set variables of their own process; the others share a process with their neighbours. */
const PROCESSES = ['test/**/*.e2e.test.ts'];
const WORLDS = ['test/**/*.sim.test.ts'];

export default defineConfig({
  test: {
    globalSetup: ['test/support/postgres-run.ts'],
    // For what hangs, not for what is slow: a machine busy with other work takes ten times as long.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    projects: [
      // Loading the modules anew for each file would take longer than the tests.
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['test/**/*.test.ts'],
          exclude: [...PROCESSES, ...WORLDS],
          isolate: false,
          retry: SECOND_TRY,
        },
      },
      { extends: true, test: { name: 'whole', include: PROCESSES, retry: SECOND_TRY } },
      { extends: true, test: { name: 'worlds', include: WORLDS } },
    ],
  },
});
