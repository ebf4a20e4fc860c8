/** What a door asks of its service, where the wire says it in other words. */
import { expect, test } from 'vitest';
import type { Services } from '../../actors/services.ts';
import { createCallers } from '../../src/host/caller.ts';
import { CREDENTIAL, catalogEntry, commandRow, executionRow, fakeServices, STORED } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

/** Collects the arguments of every call of these functions. */
function spying<K extends keyof Services>(group: K, names: readonly (keyof Services[K])[]) {
  const calls: unknown[][] = [];
  const services = fakeServices();
  const spied = Object.fromEntries(
    names.map((name) => [
      name,
      (...given: unknown[]) => {
        calls.push([name, ...given]);
        return Reflect.apply(Object(services[group][name]), services[group], given);
      },
    ]),
  );
  const host = testHost({ ...services, [group]: { ...services[group], ...spied } });
  return { calls, app: host.app };
}

test('cancel and stop differ in reason and name', async () => {
  const { calls, app } = spying('executions', ['cancel']);
  const answer = await ask(app, 'POST', '/api/executions/41007/cancel', { payload: { cascade: false } });
  expect(answer.json).toEqual({
    status: 'cancelled',
    execution_id: 41007,
    cancelled_executions: ['41007', '41031'],
    message: 'Cancelled 2 executions',
  });
  await ask(app, 'POST', '/api/executions/41007/stop');
  expect(calls).toEqual([
    ['cancel', 41007, { reason: 'User requested cancellation', cascade: false, by: 'api' }],
    ['cancel', 41007, { reason: 'Stopped by user', cascade: true, by: 'stop' }],
  ]);
});

test('cleanup and finalize have defaults', async () => {
  const { calls, app } = spying('executions', ['cleanup', 'finalize']);
  await ask(app, 'POST', '/api/executions/cleanup', { payload: {} });
  await ask(app, 'POST', '/api/executions/41007/finalize', { payload: {} });
  expect(calls).toEqual([
    ['cleanup', { olderThanMinutes: 5, dryRun: false }],
    ['finalize', 41007, { status: 'failed', reason: 'Abandoned or timed out', error: null }],
  ]);
});

test('statuses, kinds, types and flags are read in any case', async () => {
  const finalized = spying('executions', ['finalize', 'cleanup']);
  await ask(finalized.app, 'POST', '/api/executions/41007/finalize', { payload: { status: 'COMPLETED' } });
  expect(finalized.calls).toEqual([['finalize', 41007, expect.objectContaining({ status: 'completed' })]]);
  const exchanged = spying('commands', ['exchange']);
  await ask(exchanged.app, 'POST', '/api/worker/exchange', { payload: { worker_id: 'w', status: 'Draining' } });
  expect(exchanged.calls).toEqual([['exchange', expect.objectContaining({ status: 'draining' })]]);
  const listed = spying('workers', ['list']);
  await ask(listed.app, 'GET', '/api/worker/pools?kind=BROKER&status=Ready');
  expect(listed.calls).toEqual([['list', { kind: 'broker', status: 'ready' }]]);
  const logged = spying('reads', ['events']);
  await ask(logged.app, 'GET', '/api/events/41007?event_type=CALL.*,Playbook.Completed&status=Canceled');
  expect(logged.calls).toEqual([
    ['events', 41007, expect.objectContaining({ types: ['call.*', 'playbook.completed'], statuses: ['cancelled'] })],
  ]);
  const changed = spying('catalog', ['update', 'list']);
  await ask(changed.app, 'PUT', '/api/catalog/playbook?playbook_id=5', { payload: { status: 'Archived' } });
  await ask(changed.app, 'POST', '/api/catalog/list', { payload: { versions: 'LATEST' } });
  expect(changed.calls).toEqual([
    ['update', '5', { status: 'archived', meta: null }],
    ['list', expect.objectContaining({ versions: 'latest' })],
  ]);
  const revealed = spying('credentials', ['reveal']);
  await ask(revealed.app, 'GET', '/api/credentials/pg?include_data=True');
  expect(revealed.calls).toHaveLength(1);
  expect((await ask(revealed.app, 'GET', '/api/credentials/pg?include_data=1')).status).toBe(422);
});

test('a path in a filter may have slashes around it', async () => {
  const { calls, app } = spying('reads', ['executions']);
  await ask(app, 'GET', '/api/executions?path=/demo/greet/');
  expect(calls).toEqual([['executions', expect.objectContaining({ path: 'demo/greet' })]]);
});

test('a claim by id answers ok with the attempt', async () => {
  const { calls, app } = spying('commands', ['claim']);
  const answer = await ask(app, 'POST', '/api/commands/41012/claim', {
    payload: { worker_id: 'worker-7', claim_id: 'c' },
  });
  expect(answer.json).toMatchObject({ status: 'ok', command_id: 41012, attempt: 1 });
  expect(calls).toEqual([['claim', 41012, 'worker-7', 'c']]);
});

test('a heartbeat with a registration may bring a worker back', async () => {
  const { calls, app } = spying('workers', ['heartbeat']);
  const payload = {
    name: 'w',
    registration: { pools: ['a'], runtime: 'node' },
    commands: [{ command_id: '5', attempt: 1 }],
    status: 'Draining',
  };
  await ask(app, 'POST', '/api/worker/pool/heartbeat', { payload });
  expect(calls[0]).toEqual([
    'heartbeat',
    'w',
    {
      registration: expect.objectContaining({ name: 'w', pools: ['a'], runtime: 'node' }),
      status: 'draining',
      commands: [{ commandId: 5, attempt: 1 }],
    },
  ]);
});

test('both methods deregister', async () => {
  const { calls, app } = spying('workers', ['deregister']);
  for (const method of ['POST', 'DELETE'])
    await ask(app, method, '/api/worker/pool/deregister', { payload: { name: 'w' } });
  expect(calls).toEqual([
    ['deregister', 'w', null],
    ['deregister', 'w', null],
  ]);
});

test('a credential keeps its schema unless one is given, and null removes it', async () => {
  const { calls, app } = spying('credentials', ['save']);
  const base = { name: 'pg_auth', credential_type: 'postgres', data: {}, tags: 'a, b ,' };
  for (const more of [{}, { schema: null }, { schema: { fields: [] } }]) {
    await ask(app, 'POST', '/api/credentials', { payload: { ...base, ...more } });
  }
  expect(calls.map(([, given]) => given)).toEqual([
    { name: 'pg_auth', type: 'postgres', data: {}, schema: undefined, meta: null, description: null, tags: ['a', 'b'] },
    expect.objectContaining({ schema: null }),
    expect.objectContaining({ schema: { fields: [] } }),
  ]);
});

test('plain data is shown only when it is asked for', async () => {
  const { calls, app } = spying('credentials', ['get', 'reveal']);
  expect((await ask(app, 'GET', '/api/credentials/pg_auth')).json).not.toHaveProperty('data');
  expect((await ask(app, 'GET', '/api/credentials/pg_auth?include_data=false')).json).not.toHaveProperty('data');
  expect((await ask(app, 'GET', '/api/credentials/pg_auth?include_data=')).status).toBe(422);
  const shown = await ask(app, 'GET', '/api/credentials/pg_auth?include_data=true&execution_id=5&worker_id=w', {
    headers: { 'x-request-id': 'r-12345678' },
  });
  expect(shown.json.data).toEqual({ user: 'app' });
  expect(calls.at(-1)).toEqual(['reveal', 'pg_auth', { executionId: 5, workerId: 'w', requestId: 'r-12345678' }]);
});

test('services learn who asks', async () => {
  const callers = createCallers();
  const seen: unknown[] = [];
  const services = fakeServices({
    credentials: {
      save: async () => {
        seen.push(callers.current());
        return CREDENTIAL;
      },
    },
  });
  const { app } = testHost(services, { callers });
  await ask(app, 'POST', '/api/credentials', {
    payload: { name: 'a', data: {} },
    headers: { 'x-request-id': 'r-12345678' },
  });
  expect(seen).toEqual([{ actor: 'open', role: 'admin', requestId: 'r-12345678', ip: '127.0.0.1' }]);
  expect(callers.current().requestId).toBeNull();
});

test('a path with a verb behind it is the path before the verb', async () => {
  const { calls, app } = spying('catalog', ['versions', 'get', 'archive', 'find']);
  await ask(app, 'GET', '/api/catalog/a/versions/versions');
  await ask(app, 'GET', '/api/catalog/playbook/a/b%2Fc?version=2');
  await ask(app, 'GET', '/api/catalog/playbook/content');
  await ask(app, 'GET', '/api/catalog/playbook/content?playbook_id=2003');
  await ask(app, 'DELETE', '/api/catalog/playbooks/2003');
  expect(calls).toEqual([
    ['versions', 'a/versions'],
    ['get', 'a/b/c', 2],
    ['get', 'content', 'latest'],
    ['find', '2003'],
    ['archive', '2003'],
  ]);
});

test('an entry may be changed in text, status and meta at once', async () => {
  const { calls, app } = spying('catalog', ['register', 'update', 'find']);
  await ask(app, 'PUT', '/api/catalog/playbook?playbook_id=demo/greet', {
    payload: { content: 'x', status: 'archived' },
  });
  expect(calls).toEqual([
    ['find', 'demo/greet'],
    ['register', { content: 'x', resourceType: 'playbook', path: 'demo/greet', ifChanged: false }],
    ['update', '2003', { status: 'archived', meta: null }],
  ]);
});

test('lists of the catalog read kinds in any spelling and prefixes with a slash', async () => {
  const { calls, app } = spying('catalog', ['list']);
  await ask(app, 'POST', '/api/catalog/list', {
    payload: { resource_type: 'Playbooks', path: '/demo', capability: 'a', capabilities: ['b'] },
  });
  await ask(app, 'GET', '/api/catalog/list/ModelContextProtocol');
  expect(calls.map(([, given]) => given)).toEqual([
    expect.objectContaining({
      kinds: ['playbook'],
      pathPrefix: 'demo',
      capabilities: ['a', 'b'],
      order: 'newest',
      versions: 'all',
    }),
    expect.objectContaining({ kinds: ['mcp'] }),
  ]);
});

test('agents can be narrowed to visible ones', async () => {
  const visible = catalogEntry({ path: 'shown', payload: { metadata: { terminal: { visible: true } } } });
  const { app } = testHost(fakeServices({ catalog: { list: async () => [visible, catalogEntry()] } }));
  const paths = async (payload: object) =>
    (await ask(app, 'POST', '/api/catalog/agents/list', { payload })).json.entries.map(
      (each: { path: string }) => each.path,
    );
  expect(await paths({})).toEqual(['shown', 'demo/greet']);
  expect(await paths({ visible_only: true })).toEqual(['shown']);
});

test('judging a text tells problems as sentences and in full', async () => {
  const found = {
    severity: 'error',
    code: 'tool_missing',
    message: "Step 'end': Missing 'tool' field (a tool is required) (line 31)",
    step: 'end',
    task: null,
    path: 'workflow[2]',
    line: 31,
    column: 5,
    endLine: 31,
    endColumn: 9,
  } as const;
  const odd = "Document: no apiVersion, read as 'v2' (line 1)";
  const validate = async () => ({
    valid: false,
    diagnostics: [found, { ...found, severity: 'warning' as const, code: 'api_version', message: odd, step: null }],
    path: null,
    kind: null,
  });
  const { json } = await ask(
    testHost(fakeServices({ catalog: { validate } })).app,
    'POST',
    '/api/catalog/playbooks/validate',
    { payload: { content: 'x' } },
  );
  expect(json.errors).toEqual(["Step 'end': Missing 'tool' field (a tool is required) (line 31)"]);
  expect(json.warnings).toEqual([odd]);
  expect(json.diagnostics[0]).toMatchObject({ code: 'tool_missing', end_line: 31, end_column: 9 });
});

test('what a stored result keeps in its summary is told as in a playbook', async () => {
  const { calls, app } = spying('results', ['put']);
  const select = ['meta.total', { path: 'rows[0].id', as: 'first' }, { path: 'rows[0]' }];
  const put = (payload: object) => ask(app, 'PUT', '/api/result/41007', { payload });
  expect((await put({ name: 'export', data: {}, select })).status).toBe(200);
  expect(calls[0]?.[2]).toMatchObject({
    select: [
      { path: 'meta.total', as: 'total' },
      { path: 'rows[0].id', as: 'first' },
      { path: 'rows[0]', as: '0' },
    ],
  });
  const { json } = await put({ name: 'export', data: {}, select: [5, { as: 'x' }, ''] });
  expect(json.errors).toEqual([0, 1, 2].map((at) => `body.select[${at}]: must be a path or {path, as}`));
});

test('a stored result is sent as it is stored', async () => {
  const { calls, app } = spying('results', ['resolve', 'newest', 'put', 'remove']);
  const whole = await ask(app, 'GET', `/api/result/resolve?ref=${STORED.ref}&path=rows[0]`);
  expect([whole.text, whole.headers['etag'], whole.headers['content-type']]).toEqual([
    '{"rows":[1]}',
    '"9f"',
    'application/json; charset=utf-8',
  ]);
  expect((await ask(app, 'GET', '/api/result/41007/export?resolve=true')).text).toBe('{"rows":[1]}');
  expect((await ask(app, 'GET', '/api/result/41007/export')).json.ref).toBe(STORED.ref);
  await ask(app, 'DELETE', '/api/result/41007?scope=step');
  expect(calls.map(([name, ...given]) => [name, ...given])).toEqual([
    ['resolve', STORED.ref, 'rows[0]'],
    ['newest', 41007, 'export'],
    ['resolve', STORED.ref],
    ['newest', 41007, 'export'],
    ['remove', 41007, 'step'],
  ]);
});

test('a statement may come in base64, and targets may not come at all', async () => {
  const { calls, app } = spying('sql', ['execute']);
  await ask(app, 'POST', '/api/postgres/execute', {
    payload: { query_base64: Buffer.from('select 1').toString('base64'), credential: 'pg_auth' },
  });
  expect(calls).toEqual([
    [
      'execute',
      {
        query: 'select 1',
        parameters: [],
        credentialName: 'pg_auth',
        schema: null,
        maxRows: 10_000,
        timeoutSeconds: 30,
      },
    ],
  ]);
  for (const bad of [
    {},
    { query: ' ;\n' },
    { query_base64: 'OyA=' },
    { query: 'a', query_base64: 'YQ==' },
    { query: 'a', connection_string: 'postgres://' },
    { query: 'a', database: 'x' },
    { query: 'a', schema: 'a;b' },
    { query: 'a', max_rows: 100_001 },
  ]) {
    expect((await ask(app, 'POST', '/api/postgres/execute', { payload: bad })).status).toBe(422);
  }
});

test.each([
  ['GET', '/api/executions/5', 'Execution 5 not found'],
  ['GET', '/api/events/5', 'Execution 5 not found'],
  ['GET', '/api/executions/5/status', 'Execution 5 not found'],
  ['GET', '/api/executions/5/commands', 'Execution 5 not found'],
  ['GET', '/api/executions/5/cancellation-check', 'Execution 5 not found'],
  ['GET', '/api/catalog/playbook/a/b', "Playbook 'a/b' not found"],
  ['GET', '/api/catalog/a/b/versions', "Playbook 'a/b' not found"],
  ['GET', '/api/result/resolve?ref=x', 'Result not found: x'],
])('%s %s: %s', async (method, url, detail) => {
  const none = fakeServices({
    reads: { execution: async () => null },
    catalog: { get: async () => null, versions: async () => [] },
    results: { resolve: async () => null },
  });
  const answer = await ask(testHost(none).app, method, url);
  expect([answer.status, answer.json.code, answer.json.detail]).toEqual([404, 'not_found', detail]);
});

test('a listed command tells its ages', async () => {
  const { app } = testHost(
    fakeServices({
      workers: {
        holder: async (name) => ({ name, status: 'ready', registeredAt: 0, heartbeatAt: 0, offlineAfterSeconds: 6 }),
      },
    }),
  );
  const { json } = await ask(app, 'GET', '/api/commands?status=claimed,PENDING&limit=1');
  expect(json).toMatchObject({
    // A full page is not the last one only when there is a row behind it.
    next_after: null,
    commands: [{ age_seconds: 1.093, claim_age_seconds: 1.093, worker_status: 'ready' }],
  });
});

test.each(['/api/commands', '/api/executions/41007/commands'])('%s goes on where its page ended', async (url) => {
  const rows = [41012, 41013, 41014].map((commandId) => commandRow({ commandId }));
  const commands = async ({ limit, after = 0 }: { limit: number; after?: number }) =>
    rows.filter((row) => row.commandId > after).slice(0, limit);
  const { app } = testHost(fakeServices({ reads: { commands } }));
  const page = async (query: string) => {
    const { json } = await ask(app, 'GET', `${url}?${query}`);
    return [json.commands.length, json.next_after];
  };
  expect(await page('limit=2')).toEqual([2, 41013]);
  expect(await page('limit=2&after=41012')).toEqual([2, null]);
  expect(await page('limit=3')).toEqual([3, null]);
});

test('the commands of an execution are commands without their inputs, and tell how they went', async () => {
  const { app } = testHost(fakeServices());
  const [{ context, ...one }, listed] = await Promise.all([
    ask(app, 'GET', '/api/commands/41012').then(({ json }) => json),
    ask(app, 'GET', '/api/executions/41007/commands').then(({ json }) => json.commands[0]),
  ]);
  expect(context).toBeDefined();
  expect(listed).toEqual({ ...listed, ...one, server_time: listed.server_time });
  expect(listed).toMatchObject({ priority: 0, parked_on: null, max_attempts: 5 });
  expect(listed).not.toHaveProperty('context');
});

test('an execution is asked for once', async () => {
  const { calls, app } = spying('reads', ['execution']);
  await ask(app, 'GET', '/api/executions/41007/cancellation-check');
  expect(calls).toEqual([['execution', executionRow().executionId]]);
});
