import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestSuiteService } from '../../actors/services.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { createTestSuiteStore } from '../../src/store/test-suites.ts';
import { quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let suites: TestSuiteService;

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 2, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  suites = createTestSuiteStore(database.reads);
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

test('a suite is kept as it was stored last, until it is deleted', async () => {
  const suite = { suiteId: 'demo/greet', playbookPath: 'demo/greet', tests: [{ name: 'a', n: 1 }], metadata: {} };
  expect(await suites.find('demo/greet')).toBeNull();
  const first = await suites.save(suite);
  expect(first).toEqual({ ...suite, updatedAt: expect.stringMatching(/Z$/) });
  const second = await suites.save({ ...suite, tests: [], metadata: { by: 'me' } });
  expect(await suites.find('demo/greet')).toEqual(second);
  expect(second).toMatchObject({ tests: [], metadata: { by: 'me' } });
  expect(await suites.remove('demo/greet')).toBe(true);
  expect(await suites.remove('demo/greet')).toBe(false);
});
