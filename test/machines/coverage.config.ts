/**
 * `npm run test:coverage`: every line and every branch of `machines/` is run by the tests of its own (architecture §8). A branch
 * that nobody can reach is to be deleted, not to be tested around; the thresholds are never lowered.
 */
import { globSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What is left of the file once its types are gone is nothing but remarks: there is nothing to run. */
function isOnlyTypes(file: string): boolean {
  const code = stripTypeScriptTypes(readFileSync(file, 'utf8'));
  return code.replaceAll(/\/\*.*?\*\/|\/\/.*$/gms, '').trim() === '';
}

const onlyTypes = globSync(join(root, 'machines/**/*.ts')).filter(isOnlyTypes);

export default defineConfig({
  root,
  test: {
    include: ['machines', 'models', 'laws', 'simulate'].map((folder) => `test/${folder}/**/*.test.ts`),
    isolate: false,
    // What only some draws reach would be covered on some days only.
    setupFiles: ['test/support/fixed-seed.ts'],
    testTimeout: 60_000,
    maxWorkers: 2,
    coverage: {
      enabled: true,
      provider: 'v8',
      include: ['machines/**/*.ts'],
      exclude: onlyTypes.map((file) => relative(root, file)),
      reporter: [['text', { skipFull: true }]],
      thresholds: { lines: 100, branches: 100 },
    },
  },
});
