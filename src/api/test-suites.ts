/** Test suites kept with the catalog (api 2.2.18), for editors of playbooks. Running them is the editor's or the CLI's. */
import * as v from 'valibot';
import type { TestSuite } from '../../actors/services.ts';
import { list, map, maybe } from '../wire/fields.ts';
import { catalogPath } from '../wire/ids.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Test suites';
const path = '/api/playbook-tests/suites/{suite_id…}';
const params = v.object({ suite_id: catalogPath });
const BODY_LIMIT = 1_048_576;
const TESTS_MAX = 1_000;

const suite = v.object({
  suite_id: v.string(),
  /** Suites are kept in the database; clients that know files find none. */
  file_path: v.null(),
  playbook_path: v.string(),
  tests: v.array(map),
  metadata: map,
  updated_at: v.nullable(v.string()),
});

export function testSuiteRoutes({ services }: ApiContext): Route[] {
  const { executionAccess, testSuites } = services;

  /** Throws forbidden: tests tell what a playbook is given, so its rules hold for them. */
  async function found(suiteId: string, permission: 'view' | 'modify') {
    const row = await testSuites.find(suiteId);
    await executionAccess.checkPlaybook(row?.playbookPath ?? suiteId, permission);
    return row;
  }

  return [
    route({
      method: 'GET',
      path,
      level: 'client',
      role: ['V'],
      tag,
      summary: 'A test suite; one that was never stored is empty',
      params,
      answer: suite,
      handle: async ({ params: { suite_id } }) => {
        return suiteToWire(
          (await found(suite_id, 'view')) ?? {
            suiteId: suite_id,
            playbookPath: suite_id,
            tests: [],
            metadata: {},
            updatedAt: null,
          },
        );
      },
    }),
    route({
      method: 'PUT',
      path,
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Store or replace a test suite',
      params,
      body: v.object({ playbook_path: maybe(catalogPath), tests: maybe(list(map, TESTS_MAX)), metadata: maybe(map) }),
      answer: suite,
      bodyLimit: BODY_LIMIT,
      example: {
        request: { playbook_path: 'demo/greet', tests: [{ name: 'greets', expect: { status: 'completed' } }] },
      },
      handle: async ({ params: { suite_id }, body }) => {
        await found(suite_id, 'modify');
        return suiteToWire(
          await testSuites.save({
            suiteId: suite_id,
            playbookPath: body.playbook_path ?? suite_id,
            tests: body.tests ?? [],
            metadata: body.metadata ?? {},
          }),
        );
      },
    }),
    route({
      method: 'DELETE',
      path,
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Delete a test suite, also one that is not there',
      params,
      answer: v.object({ status: v.literal('success'), suite_id: v.string(), file_path: v.null() }),
      handle: async ({ params: { suite_id } }) => {
        await found(suite_id, 'modify');
        await testSuites.remove(suite_id);
        return { status: 'success', suite_id, file_path: null };
      },
    }),
  ];
}

function suiteToWire(row: TestSuite): v.InferOutput<typeof suite> {
  return {
    suite_id: row.suiteId,
    file_path: null,
    playbook_path: row.playbookPath,
    tests: [...row.tests],
    metadata: row.metadata,
    updated_at: row.updatedAt,
  };
}
