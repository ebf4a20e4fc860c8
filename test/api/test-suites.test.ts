import { expect, test } from 'vitest';
import { AT, fakeServices } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

const { app } = testHost(fakeServices());
const URL = '/api/playbook-tests/suites/demo/greet';

test('a suite that was never stored is empty', async () => {
  const answer = await ask(app, 'GET', URL);
  expect([answer.status, answer.json]).toEqual([
    200,
    { suite_id: 'demo/greet', file_path: null, playbook_path: 'demo/greet', tests: [], metadata: {}, updated_at: null },
  ]);
});

test('a suite is stored, and deleted also when it is not there', async () => {
  const payload = { playbook_path: 'demo/other', tests: [{ name: 'a' }], metadata: { owner: 'me' } };
  expect((await ask(app, 'PUT', URL, { payload })).json).toEqual({
    suite_id: 'demo/greet',
    file_path: null,
    ...payload,
    updated_at: AT,
  });
  expect((await ask(app, 'PUT', URL, { payload: {} })).json).toMatchObject({ playbook_path: 'demo/greet', tests: [] });
  expect((await ask(app, 'DELETE', URL)).json).toEqual({ status: 'success', suite_id: 'demo/greet', file_path: null });
});

test('a suite that is none is refused', async () => {
  expect((await ask(app, 'PUT', URL, { payload: { tests: ['a'] } })).json.detail).toBe(
    'body.tests[0]: must be an object',
  );
  expect((await ask(app, 'PUT', URL, { payload: { tests: {} } })).status).toBe(422);
});
