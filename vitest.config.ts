import { defineConfig } from 'vitest/config';

/** Tests that start processes or set variables of their own process; the others share a process with their neighbours. */
const ALONE = ['test/**/*.e2e.test.ts', 'test/**/*.sim.test.ts'];

export default defineConfig({
  test: {
    globalSetup: ['test/support/postgres-run.ts'],
    // For what hangs, not for what is slow: a machine busy with other work takes ten times as long.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    projects: [
      // Loading the modules anew for each file would take longer than the tests.
      { extends: true, test: { name: 'parts', include: ['test/**/*.test.ts'], exclude: ALONE, isolate: false } },
      { extends: true, test: { name: 'whole', include: ALONE } },
    ],
  },
});
