import { describe, expect, test } from 'vitest';
import type { RenderRequest } from '../../actors/context-service.ts';
import type { VariableDraft } from '../../actors/variable-service.ts';
import { AT, fakeServices } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

function setting() {
  const calls: { drafts: readonly VariableDraft[]; expiresInSeconds: number | null }[] = [];
  const { app } = testHost(
    fakeServices({
      variables: {
        put: async (_id, drafts, expiresInSeconds) => {
          calls.push({ drafts, expiresInSeconds });
          return drafts.map((draft) => draft.name);
        },
      },
    }),
  );
  return { calls, set: (payload: object) => ask(app, 'POST', '/api/vars/41007', { payload }) };
}

describe('setting variables', () => {
  const plain = { type: 'user_defined', sourceStep: null };

  test('takes a map with what holds for all', async () => {
    const { calls, set } = setting();
    const answer = await set({
      variables: { a: 1, b: null },
      var_type: 'COMPUTED',
      source_step: 'fetch',
      expires_in_seconds: 60,
    });
    expect(answer.json).toEqual({ execution_id: 41007, variables_set: 2, var_names: ['a', 'b'] });
    const rest = { type: 'computed', sourceStep: 'fetch' };
    expect(calls).toEqual([
      {
        drafts: [
          { name: 'a', value: 1, ...rest },
          { name: 'b', value: null, ...rest },
        ],
        expiresInSeconds: 60,
      },
    ]);
  });

  test('takes a list, where an element may say its own', async () => {
    const { calls, set } = setting();
    await set({
      source_step: 'all',
      variables: [
        { var_name: 'a', var_value: [1], var_type: 'step_result', source_step: 'one' },
        { var_name: 'b', var_value: false },
      ],
    });
    expect(calls[0]?.drafts).toEqual([
      { name: 'a', value: [1], type: 'step_result', sourceStep: 'one' },
      { name: 'b', value: false, type: 'user_defined', sourceStep: 'all' },
    ]);
  });

  test('takes the bare map', async () => {
    const { calls, set } = setting();
    await set({ page: 3, variables: 'a text', var_type: 'x' });
    expect(calls[0]?.drafts).toEqual([
      { name: 'page', value: 3, ...plain },
      { name: 'variables', value: 'a text', ...plain },
      { name: 'var_type', value: 'x', ...plain },
    ]);
  });

  test.each([
    [{ variables: { a: 1 }, var_type: 'odd' }, 'body.var_type: must be one of user_defined, step_result'],
    [{ variables: { '': 1 } }, 'body.variables: must be an object'],
    [{ variables: [{ var_name: 'a' }] }, "body.variables[0]: 'var_value' is required"],
    [{ variables: [{ var_name: '__proto__', var_value: 1 }] }, 'body.variables[0].var_name'],
    [{ variables: { a: 1 }, expires_in_seconds: 0 }, 'body.expires_in_seconds: must be at least 1'],
  ])('refuses %j by name', async (payload, sentence) => {
    const { calls, set } = setting();
    const answer = await set(payload);
    expect([answer.status, answer.json.code]).toEqual([422, 'validation_error']);
    expect(answer.json.detail).toContain(sentence);
    expect(calls).toEqual([]);
  });
});

test('variables are read in the form of the contract', async () => {
  const { app } = testHost();
  const fields = {
    value: 3,
    type: 'user_defined',
    source_step: 'fetch',
    created_at: AT,
    accessed_at: AT,
    access_count: 1,
  };
  expect((await ask(app, 'GET', '/api/vars/41007')).json).toEqual({
    execution_id: 41007,
    variables: { page: fields },
    count: 1,
  });
  expect((await ask(app, 'GET', '/api/vars/41007/page')).json).toEqual({ name: 'page', ...fields });
  expect((await ask(app, 'DELETE', '/api/vars/41007/page')).json).toEqual({ deleted: true });
  expect((await ask(app, 'DELETE', '/api/vars/41007')).json).toEqual({ deleted_count: 2 });
  expect((await ask(app, 'GET', '/api/vars/0')).json.code).toBe('invalid_id');
});

test('a rendering has its defaults and refuses what it cannot be', async () => {
  const asked: RenderRequest[] = [];
  const { app } = testHost(
    fakeServices({
      context: {
        render: async (request) => {
          asked.push(request);
          return { rendered: 'hello', names: ['workload'] };
        },
      },
    }),
  );
  const render = (payload: object) => ask(app, 'POST', '/api/context/render', { payload });
  const answer = await render({ execution_id: '41007', template: '{{ who }}' });
  expect(answer.json).toEqual({ status: 'ok', rendered: 'hello', context_keys: ['workload'] });
  expect(asked).toEqual([{ executionId: 41007, template: '{{ who }}', extra: {}, strict: false }]);
  expect((await render({ execution_id: 41007 })).json.detail).toContain("'template' is required");
  expect((await render({ execution_id: 41007, template: '', strict: 1 })).status).toBe(422);
});

test('the schema is brought up to date on request', async () => {
  const { app } = testHost(fakeServices({ schema: { init: async () => ({ version: 4, applied: ['0004_a.sql'] }) } }));
  expect((await ask(app, 'POST', '/api/db/init')).json).toEqual({
    status: 'ok',
    message: 'schema is at version 4',
    applied: ['0004_a.sql'],
  });
});

test('a patch of a credential changes what it names', async () => {
  const asked: unknown[] = [];
  const services = fakeServices();
  const { app } = testHost({
    ...services,
    credentials: {
      ...services.credentials,
      patch: async (identifier, change) => {
        asked.push([identifier, change]);
        return services.credentials.get(identifier);
      },
    },
  });
  const payload = { schema: null, meta: null, credential_type: 'bearer', tags: 'a, b', data: null };
  const answer = await ask(app, 'PATCH', '/api/credentials/pg_auth', { payload });
  expect(answer.json).toMatchObject({ id: '17', name: 'pg_auth', data: null });
  expect(asked).toEqual([['pg_auth', { schema: null, meta: null, type: 'bearer', tags: ['a', 'b'] }]]);
});
