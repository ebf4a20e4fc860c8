/** The rules of a playbook reach whatever leads to its runs, by whichever id it is named (api 8.8.5). */
import { describe, expect, test } from 'vitest';
import type { Identity } from '../../actors/access-service.ts';
import { DomainError } from '../../actors/errors.ts';
import type { Permission } from '../../machines/access.ts';
import { AT, batchRow, fakeServices } from './fake-services.ts';
import { ask, CONFIG, testHost } from './test-host.ts';

/** Of execution 41007, version 2003 and the path demo/greet everything is hidden from everybody. */
function hiding(calls: string[] = []) {
  const note = (what: number | string, permission: Permission) => {
    calls.push(`${what} ${permission}`);
    return ![41007, 2003, 'demo/greet'].includes(what);
  };
  const refuse = async (what: number | string, permission: Permission) => {
    if (!note(what, permission)) throw new DomainError('forbidden', 'hidden');
  };
  const services = fakeServices({
    identities: {
      identify: async (): Promise<Identity> => ({
        actor: 'bob',
        role: 'operator',
        email: null,
        displayName: null,
        expiresAt: null,
      }),
      onRevoked: () => () => {},
    },
    executionAccess: {
      check: refuse,
      checkPlaybook: refuse,
      allows: async (id, permission) => note(id, permission),
      allowsPlaybook: async (which, permission) => note(which, permission),
    },
    batches: { find: async () => batchRow() },
    testSuites: {
      find: async () => ({ suiteId: 'x', playbookPath: 'demo/greet', tests: [], metadata: {}, updatedAt: AT }),
    },
  });
  const { app } = testHost(services, { config: { ...CONFIG, authMode: 'enforce' } });
  return (method: string, url: string, payload?: object) =>
    ask(app, method, url, {
      headers: { authorization: 'Bearer someone' },
      ...(payload === undefined ? {} : { payload }),
    });
}

const EVENT = { event_type: 'report.note', step: 'start' };
const REF = encodeURIComponent('callboard://execution/41007/result/export/41230');

describe('a hidden run is 403', () => {
  test.each([
    ['GET', '/api/executions/41007', 'view'],
    ['GET', '/api/commands?execution_id=41007', 'view'],
    ['GET', '/api/commands/41012', 'view'],
    ['GET', '/api/commands/41012/machine', 'view'],
    ['GET', '/api/events/batch/41100/status', 'view'],
    ['GET', '/api/events/batch/41100/stream', 'view'],
    ['GET', '/api/events/batch/41100/machine', 'view'],
    ['GET', `/api/result/resolve?ref=${REF}`, 'view'],
    ['GET', '/api/catalog/demo/greet/graph?execution_id=41007', 'view'],
    ['POST', '/api/events/batch', 'execute', { events: [{ ...EVENT, execution_id: 41007 }] }],
    ['POST', '/api/execute', 'execute', { path: 'demo/other', parent_execution_id: 41007 }],
  ])('%s %s', async (method, url, permission, payload?: object) => {
    const calls: string[] = [];
    const { status, json } = await hiding(calls)(method, url, payload);
    expect([status, json.code]).toEqual([403, 'forbidden']);
    expect(calls).toEqual([`41007 ${permission}`]);
  });
});

describe('what belongs to a hidden playbook is 403', () => {
  test.each([
    ['GET', '/api/keychain/catalog/2003', '2003 view'],
    ['GET', '/api/keychain/2003/billing/machine', '2003 view'],
    ['GET', '/api/schedules/801', 'demo/greet view'],
    ['GET', '/api/schedules/801/preview', 'demo/greet view'],
    ['PUT', '/api/schedules/801', 'demo/greet execute', { enabled: false }],
    ['DELETE', '/api/schedules/801', 'demo/greet execute'],
    ['GET', '/api/playbook-tests/suites/x', 'demo/greet view'],
    ['PUT', '/api/playbook-tests/suites/x', 'demo/greet modify', { tests: [] }],
    ['DELETE', '/api/playbook-tests/suites/x', 'demo/greet modify'],
  ])('%s %s', async (method, url, call, payload?: object) => {
    const calls: string[] = [];
    const { status, json } = await hiding(calls)(method, url, payload);
    expect([status, json.code]).toEqual([403, 'forbidden']);
    expect(calls).toEqual([call]);
  });

  test('schedules of it are in no list', async () => {
    expect((await hiding()('GET', '/api/schedules')).json).toEqual({ items: [], count: 0 });
  });
});

test.each([
  ['callboard_execution_status', 'view'],
  ['callboard_execution_events', 'view'],
  ['callboard_explain', 'view'],
  ['callboard_cancel', 'execute'],
])('the tool %s refuses a hidden run', async (name, permission) => {
  const calls: string[] = [];
  const params = { name, arguments: { execution_id: 41007 } };
  const { json } = await hiding(calls)('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  expect(json.result).toMatchObject({ isError: true, structuredContent: { code: 'forbidden' } });
  expect(calls).toEqual([`41007 ${permission}`]);
});

test('a hidden run is no resource that can be read', async () => {
  const params = { uri: 'callboard://execution/41007' };
  const { json } = await hiding()('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'resources/read', params });
  expect(json.error).toMatchObject({ code: -32602, data: { code: 'forbidden' } });
});

test('a cleanup ends what its caller may end', async () => {
  let seen: readonly boolean[] = [];
  const services = fakeServices({
    executionAccess: { allows: async (id) => id !== 41007 },
    executions: {
      cleanup: async ({ mayEnd }) => {
        seen = await Promise.all([41007, 41008].map(async (id) => (await mayEnd?.(id)) ?? true));
        return { executionIds: [], message: '', dryRun: false };
      },
    },
    identities: {
      identify: async (): Promise<Identity> => ({
        actor: 'bob',
        role: 'operator',
        email: null,
        displayName: null,
        expiresAt: null,
      }),
      onRevoked: () => () => {},
    },
  });
  const { app } = testHost(services, { config: { ...CONFIG, authMode: 'enforce' } });
  await ask(app, 'POST', '/api/executions/cleanup', { headers: { authorization: 'Bearer x' }, payload: {} });
  expect(seen).toEqual([false, true]);
});
