import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createVariableService,
  VARIABLES_MAX,
  type VariableDraft,
  type VariableService,
} from '../../actors/variable-service.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { createVariableStore } from '../../src/store/variables.ts';
import { queryRows, quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let variables: VariableService;

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 8, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  variables = createVariableService(createVariableStore(database.reads));
  await queryRows(
    postgres.url,
    `insert into core.catalog (catalog_id, path, version, kind, content, payload, sha256)
     values (1, 'a', 1, 'playbook', '', '{}', '')`,
  );
  for (const id of [1, 2, 3, 4, 5]) {
    await queryRows(
      postgres.url,
      `insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status, workload,
         last_event_id, handled_through, last_event_type, engine_version, machine_version, progress, start_time)
       values (${id}, ${id}, 1, 'a', 1, 'playbook', 'shared', 'running', '{}', 1, 1, 'execution.started', 1, 1, 0, now())`,
    );
  }
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

function draft(name: string, value: VariableDraft['value'], change: Partial<VariableDraft> = {}): VariableDraft {
  return { name, value, type: 'user_defined', sourceStep: null, ...change };
}

test('a variable is what was set last, and single reads are counted', async () => {
  expect(await variables.put(1, [draft('page', 1), draft('none', null)], null)).toEqual(['page', 'none']);
  await variables.put(1, [draft('page', { n: [3] }, { type: 'computed', sourceStep: 'fetch' })], null);
  const [none, page] = await variables.list(1);
  expect([none?.name, none?.value]).toEqual(['none', null]);
  expect(page).toMatchObject({
    value: { n: [3] },
    type: 'computed',
    sourceStep: 'fetch',
    accessedAt: null,
    accessCount: 0,
  });
  await variables.read(1, 'page');
  expect(await variables.read(1, 'page')).toMatchObject({ accessCount: 2, accessedAt: expect.stringMatching(/Z$/) });
  expect((await variables.list(1)).map((each) => each.accessCount)).toEqual([0, 2]);
});

test('the last of two of one name in a request counts', async () => {
  expect(await variables.put(2, [draft('a', 1), draft('a', 2)], null)).toEqual(['a']);
  expect((await variables.read(2, 'a')).value).toBe(2);
});

test('what has expired is there for nobody, and begins anew', async () => {
  await variables.put(3, [draft('short', 1)], 60);
  await queryRows(
    postgres.url,
    `update core.transient set expires_at = now(), access_count = 7 where execution_id = 3`,
  );
  expect(await variables.list(3)).toEqual([]);
  await expect(variables.read(3, 'short')).rejects.toMatchObject({
    code: 'not_found',
    message: 'Variable not found: short',
  });
  expect(await variables.remove(3, 'short')).toBe(false);
  await variables.put(3, [draft('short', 2)], null);
  expect(await variables.list(3)).toMatchObject([{ value: 2 }]);
});

test('an execution holds a bounded number of them, also when many write at once', async () => {
  const many = (prefix: string) => Array.from({ length: 300 }, (_, n) => draft(`${prefix}${n}`, n));
  const writes = await Promise.allSettled(
    ['a', 'b', 'c', 'd', 'e'].map((prefix) => variables.put(4, many(prefix), null)),
  );
  expect(writes.filter((each) => each.status === 'fulfilled')).toHaveLength(3);
  const refused = writes.find((each) => each.status === 'rejected');
  expect(refused).toMatchObject({
    reason: { code: 'validation_error', message: expect.stringContaining(String(VARIABLES_MAX)) },
  });
  expect(await variables.list(4)).toHaveLength(900);
  expect(await variables.clear(4)).toBe(900);
});

test('removing answers what was there', async () => {
  await variables.put(5, [draft('a', 1), draft('b', 2)], null);
  expect(await variables.remove(5, 'a')).toBe(true);
  expect(await variables.remove(5, 'a')).toBe(false);
  expect(await variables.clear(5)).toBe(1);
});

test.each([
  ['list', () => variables.list(99)],
  ['read', () => variables.read(99, 'a')],
  ['put', () => variables.put(99, [draft('a', 1)], null)],
  ['remove', () => variables.remove(99, 'a')],
  ['clear', () => variables.clear(99)],
])('%s of an unknown execution is not found', async (_name, ask) => {
  await expect(ask()).rejects.toMatchObject({ code: 'not_found', message: 'Execution 99 not found' });
});
