import { describe, expect, test } from 'vitest';
import { DomainError } from '../../actors/errors.ts';
import { UnavailableError } from '../../actors/ports.ts';
import type { LifecycleRequest } from '../../actors/tool-servers.ts';
import { catalogEntry, fakeServices } from './fake-services.ts';
import { ask, CONFIG, raw, testHost } from './test-host.ts';

const { app } = testHost();
const post = (url: string, body: unknown, headers: Record<string, string> = {}, on = app) =>
  ask(on, 'POST', url, { payload: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } });
const message = (method: string, params?: unknown, id: unknown = 1) => ({ jsonrpc: '2.0', id, method, params });

describe('lifecycle dispatch', () => {
  test('takes the server, the action, the overrides and the key', async () => {
    const asked: LifecycleRequest[] = [];
    const services = fakeServices();
    const host = testHost({
      ...services,
      toolServers: {
        ...services.toolServers,
        lifecycle: (request) => {
          asked.push(request);
          return services.toolServers.lifecycle(request);
        },
      },
    }).app;
    const body = { workload_overrides: { namespace: 'ops' }, version: 2 };
    const answer = await post('/api/mcp/mcp/kubernetes/lifecycle/drain-all', body, { 'idempotency-key': 'k1' }, host);
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({
      status: 'started',
      verb: 'drain-all',
      mcp_path: 'mcp/kubernetes',
      mcp_version: 2,
      agent_path: 'automation/mcp/deploy',
      execution_id: 41300,
    });
    expect(asked).toEqual([
      {
        path: 'mcp/kubernetes',
        version: 2,
        action: 'drain-all',
        overrides: { namespace: 'ops' },
        idempotencyKey: 'k1',
      },
    ]);
  });

  test('an empty body is the newest version without overrides, and a slash at the end is nothing', async () => {
    for (const url of ['/api/mcp/kubernetes/lifecycle/deploy', '/api/mcp/mcp/kubernetes/lifecycle/deploy/']) {
      const answer = await ask(app, 'POST', url);
      expect(answer.json).toMatchObject({ status: 'started', verb: 'deploy' });
    }
  });

  test.each([
    ['/api/mcp/mcp/k/lifecycle/deploy', { version: 0 }, 422],
    ['/api/mcp/mcp/k/lifecycle/deploy', { workload_overrides: [] }, 422],
    ['/api/mcp/mcp/k/lifecycle/de$ploy', {}, 422],
    ['/api/mcp/mcp/k/lifecycle', {}, 404],
    ['/api/mcp/mcp/k/lifecycle/a/b', {}, 404],
    ['/api/mcp/lifecycle/deploy', {}, 404],
  ])('%s with %j is %i', async (url, body, status) => {
    expect((await post(url, body)).status).toBe(status);
  });

  test('overrides above 1 MiB are 413', async () => {
    const answer = await post('/api/mcp/mcp/k/lifecycle/deploy', { workload_overrides: { a: 'x'.repeat(1_100_000) } });
    expect([answer.status, answer.json.code]).toEqual([413, 'payload_too_large']);
  });

  test('another method is 405', async () => {
    const answer = await ask(app, 'GET', '/api/mcp/mcp/k/lifecycle/deploy');
    expect([answer.status, answer.headers['allow']]).toEqual([405, 'POST']);
  });
});

describe('discovery', () => {
  test('tells what changed', async () => {
    const answer = await post('/api/mcp/mcp/kubernetes/discover', { force: true });
    expect(answer.json).toEqual({
      status: 'updated',
      strategy: 'direct',
      mcp_path: 'mcp/kubernetes',
      mcp_version_old: 2,
      mcp_version_new: 3,
      tool_count_before: 0,
      tool_count_after: 17,
      execution_id: null,
    });
  });

  test.each([
    ['egress_denied', 403],
    ['upstream_failed', 502],
    ['upstream_timeout', 504],
  ] as const)('%s is %i', async (code, status) => {
    const discover = () => Promise.reject(new DomainError(code, 'The tool server said no'));
    const host = testHost(fakeServices({ toolServers: { discover } })).app;
    const answer = await post('/api/mcp/mcp/k/discover', {}, {}, host);
    expect([answer.status, answer.json.code, answer.json.detail]).toEqual([status, code, 'The tool server said no']);
  });
});

describe('the tool server of the service', () => {
  test.each([
    ['2025-06-18', '2025-06-18'],
    ['2025-03-26', '2025-03-26'],
    ['2024-11-05', '2024-11-05'],
    ['2099-01-01', '2025-06-18'],
    [undefined, '2025-06-18'],
  ])('a client of %s gets %s', async (protocolVersion, agreed) => {
    const answer = await post('/mcp', message('initialize', { protocolVersion }));
    expect(answer.headers).not.toHaveProperty('mcp-session-id');
    expect(answer.json).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: {
        protocolVersion: agreed,
        capabilities: { tools: {}, resources: {} },
        serverInfo: { name: 'callboard', title: 'Callboard', version: '1.0.0' },
      },
    });
  });

  test.each(['GET', 'DELETE', 'PUT'])('%s is 405: there are no sessions', async (method) => {
    const answer = await ask(app, method, '/mcp');
    expect([answer.status, answer.headers['allow']]).toEqual([405, 'POST']);
  });

  test.each(['https://evil.example', 'null', 'http://localhost.evil.example'])(
    'the origin %s is 403',
    async (origin) => {
      const answer = await post('/mcp', message('ping'), { origin });
      expect([answer.status, answer.json.code]).toEqual([403, 'forbidden']);
    },
  );

  test.each(['http://localhost:5173', 'http://127.0.0.1'])('the origin %s is served', async (origin) => {
    const answer = await post('/mcp', message('ping'), { origin });
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([200, origin]);
  });

  test.each(['2025-06-18', '2024-11-05'])('the version header %s is honoured', async (version) => {
    expect((await post('/mcp', message('ping'), { 'mcp-protocol-version': version })).status).toBe(200);
  });

  test('a version nobody speaks is 400, except where one is agreed on', async () => {
    const headers = { 'mcp-protocol-version': '1999-01-01' };
    const answer = await post('/mcp', message('ping'), headers);
    expect([answer.status, answer.json.error.code]).toEqual([400, -32600]);
    expect((await post('/mcp', message('initialize', {}), headers)).status).toBe(200);
  });

  test.each([0, 'a', '', 1.5, -1])('the id %j comes back as it was', async (id) => {
    expect((await post('/mcp', message('ping', {}, id))).json).toEqual({ jsonrpc: '2.0', id, result: {} });
  });

  test.each([
    [{ jsonrpc: '2.0', method: 'notifications/initialized' }],
    [{ jsonrpc: '2.0', method: 'tools/call', params: { name: 'callboard_start', arguments: { path: 'demo/greet' } } }],
    [{ jsonrpc: '2.0', id: 4, result: {} }],
    [[{ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }]],
  ])('%j is taken without an answer', async (body) => {
    const services = fakeServices({ executions: { start: () => Promise.reject(new Error('a notice does nothing')) } });
    const answer = await post('/mcp', body, {}, testHost(services).app);
    expect([answer.status, answer.text]).toEqual([202, '']);
  });

  test.each([
    ['', -32600, 'validation_error'],
    ['{', -32700, 'invalid_json'],
    [Buffer.from([0x7b, 0xff, 0x7d]), -32700, 'invalid_json'],
    ['null', -32600, 'validation_error'],
    ['7', -32600, 'validation_error'],
    ['{}', -32600, 'validation_error'],
    ['[]', -32600, 'validation_error'],
    ['{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, 'validation_error'],
    ['{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', -32600, 'validation_error'],
    ['{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, 'validation_error'],
    ['{"jsonrpc":"2.0","method":7}', -32600, 'validation_error'],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","__proto__":{}}', -32600, 'validation_error'],
    ['{"jsonrpc":"2.0","id":"\\u0000","method":"ping"}', -32600, 'validation_error'],
    [
      `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'['.repeat(70)}${']'.repeat(70)}}`,
      -32600,
      'validation_error',
    ],
    [`[${Array.from({ length: 51 }, () => '{"jsonrpc":"2.0","id":1,"method":"ping"}')}]`, -32600, 'validation_error'],
  ])('%s is refused as nobody could match an answer: %i', async (text, rpc, code) => {
    const answer = await ask(app, 'POST', '/mcp', raw(text));
    expect(answer.status).toBe(422);
    expect(answer.json).toMatchObject({
      jsonrpc: '2.0',
      id: null,
      error: { code: rpc, message: expect.any(String) },
      detail: expect.any(String),
      code,
      request_id: expect.any(String),
    });
  });

  test.each([
    [{ jsonrpc: '1.0', id: 1, method: 'ping' }, -32600],
    [{ jsonrpc: '2.0', id: 1 }, -32600],
    [{ jsonrpc: '2.0', id: 1, method: 'x'.repeat(300) }, -32600],
    [message('no/such'), -32601],
    [message('constructor'), -32601],
    [message('prompts/list'), -32601],
    [message('ping', [1]), -32602],
    [message('tools/list', { cursor: 7 }), -32602],
    [message('tools/list', { cursor: '!!!' }), -32602],
    [message('tools/call', {}), -32602],
    [message('tools/call', { name: 'no_such' }), -32602],
    [message('tools/call', { name: 'toString' }), -32602],
    [message('tools/call', { name: 'callboard_explain', arguments: [] }), -32602],
    [message('tools/call', { name: 'callboard_explain', arguments: { execution_id: '041' } }), -32602],
    [message('tools/call', { name: 'callboard_start', arguments: { path: '../x' } }), -32602],
    [message('tools/call', { name: 'callboard_explain', _meta: { idempotencyKey: 'a b' } }), -32602],
    [message('resources/read', {}), -32602],
    [message('resources/read', { uri: 'file:///etc/passwd' }), -32602],
    [message('resources/read', { uri: 'callboard://execution/0' }), -32602],
  ])('%j is answered with %i', async (body, code) => {
    const answer = await post('/mcp', body);
    expect([answer.status, answer.json.id, answer.json.error?.code]).toEqual([200, 1, code]);
  });

  test('a batch is answered message by message, for clients of old', async () => {
    const batch = [
      message('ping', {}, 'a'),
      { jsonrpc: '2.0', method: 'notifications/x' },
      message('no/such', {}, 2),
      3,
    ];
    const answer = await post('/mcp', batch, { 'mcp-protocol-version': '2025-03-26' });
    const byId = new Map(answer.json.map((each: { id: unknown }) => [each.id, each]));
    expect(byId.get('a')).toEqual({ jsonrpc: '2.0', id: 'a', result: {} });
    expect(byId.get(2)).toMatchObject({ error: { code: -32601 } });
    expect(byId.get(null)).toMatchObject({ error: { code: -32600 } });
    expect(answer.json).toHaveLength(3);
    const later = await post('/mcp', batch, { 'mcp-protocol-version': '2025-06-18' });
    expect([later.status, later.json.error.code]).toEqual([422, -32600]);
    const first = await post('/mcp', [message('initialize', {})]);
    expect(first.json).toMatchObject([{ id: 1, error: { code: -32600 } }]);
  });

  test('a body above 4 MiB is 413, and another type than JSON is 415', async () => {
    const large = await post('/mcp', message('ping', { a: 'x'.repeat(4_200_000) }));
    expect([large.status, large.json.code]).toEqual([413, 'payload_too_large']);
    const form = await ask(app, 'POST', '/mcp', raw('a=b', 'application/x-www-form-urlencoded'));
    expect([form.status, form.json.code]).toEqual([415, 'unsupported_media_type']);
  });

  test('a refusal is for the model to read, a failure is not told', async () => {
    const call = message('tools/call', { name: 'callboard_explain', arguments: { execution_id: 41007 } });
    const failing = (error: Error) => testHost(fakeServices({ explanations: { of: () => Promise.reject(error) } }));
    const refused = await post(
      '/mcp',
      call,
      {},
      failing(new DomainError('not_found', 'Execution 41007 not found')).app,
    );
    expect(refused.json.result).toMatchObject({
      isError: true,
      structuredContent: { code: 'not_found', error: 'Execution 41007 not found' },
    });
    const away = await post('/mcp', call, {}, failing(new UnavailableError()).app);
    expect(away.json.error).toEqual({
      code: -32603,
      message: 'The database is not available',
      data: { code: 'db_unavailable' },
    });
    const { app: broken, lines } = failing(new Error('secret words'));
    const bug = await post('/mcp', call, {}, broken);
    expect(bug.json.error).toEqual({ code: -32603, message: 'Internal error', data: { code: 'internal_error' } });
    expect(lines).toContainEqual(expect.objectContaining({ level: 'error', message: 'A tool server request failed' }));
  });
});

describe('which playbooks are tools', () => {
  const toolsOf = async (mcpExpose: 'marked' | 'all' | 'off', entries = [catalogEntry()]) => {
    const filters: unknown[] = [];
    const services = fakeServices({
      catalog: {
        list: async (filter) => {
          filters.push(filter.exposure);
          return entries;
        },
      },
    });
    const host = testHost(services, { config: { ...CONFIG, mcpExpose } }).app;
    const { json } = await post('/mcp', message('tools/list'), {}, host);
    const names: string[] = json.result.tools.map((tool: { name: string }) => tool.name);
    return { filters, names: names.filter((name) => !name.startsWith('callboard_')), json };
  };

  test('is asked of the catalog by the setting', async () => {
    expect(await toolsOf('marked')).toMatchObject({ filters: ['marked'], names: ['demo_greet'] });
    expect(await toolsOf('all')).toMatchObject({ filters: ['all'], names: ['demo_greet'] });
    expect(await toolsOf('off')).toMatchObject({ filters: [], names: [] });
  });

  test('a playbook cannot take the name of a tool of the service', async () => {
    const { names, json } = await toolsOf('all', [catalogEntry({ path: 'callboard/start' })]);
    expect(names).toEqual([]);
    const all = json.result.tools.map((tool: { name: string }) => tool.name);
    expect(all).toContain('callboard_start_2003');
    expect(new Set(all).size).toBe(all.length);
  });

  test('more than a page of them come by cursor, each once', async () => {
    const entries = Array.from({ length: 1_201 }, (_, index) =>
      catalogEntry({ path: `p/${String(index).padStart(5, '0')}`, catalogId: index + 1, content: 'kind: Playbook\n' }),
    );
    const host = testHost(fakeServices({ catalog: { list: async () => entries } })).app;
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const { json } = await post('/mcp', message('tools/list', { cursor }), {}, host);
      seen.push(...json.result.tools.map((tool: { name: string }) => tool.name));
      cursor = json.result.nextCursor;
    } while (cursor !== undefined);
    expect(seen.filter((name) => name.startsWith('p_'))).toHaveLength(1_201);
    expect(new Set(seen).size).toBe(seen.length);
  });
});

describe('one playbook as a tool server', () => {
  const url = '/api/mcp/playbook/demo/greet/jsonrpc';

  test('lists itself and nothing else', async () => {
    expect((await post(url, message('initialize', {}))).json.result.capabilities).toEqual({ tools: {} });
    const { tools } = (await post(url, message('tools/list'))).json.result;
    expect(tools).toMatchObject([{ name: 'demo_greet', _meta: { path: 'demo/greet', version: 3 } }]);
    for (const name of ['callboard_list_playbooks', 'other']) {
      expect((await post(url, message('tools/call', { name }))).json.error.code).toBe(-32602);
    }
    expect((await post(url, message('resources/list'))).json.error.code).toBe(-32601);
  });

  test.each([
    ['hides itself', { payload: { metadata: { exposes_as_mcp: false } } }],
    ['is no playbook', { kind: 'mcp' }],
    ['is archived', { status: 'archived' as const }],
  ])('one that %s is 404', async (_what, change) => {
    const host = testHost(fakeServices({ catalog: { get: async () => catalogEntry(change) } })).app;
    const answer = await post(url, message('ping'), {}, host);
    expect([answer.status, answer.json.code]).toEqual([404, 'not_found']);
  });
});

describe('a viewer', () => {
  const viewer = { actor: 'vera', role: 'viewer', requestId: null, ip: null };
  const callers = { current: () => viewer, run: <T>(_caller: unknown, work: () => T) => work() };
  const host = testHost(fakeServices(), { callers }).app;

  test('sees what can be seen and starts nothing', async () => {
    const { tools } = (await post('/mcp', message('tools/list'), {}, host)).json.result;
    const names = tools.map((tool: { name: string }) => tool.name);
    expect(names).toContain('callboard_explain');
    expect(names).not.toContain('callboard_start');
    for (const name of ['callboard_start', 'callboard_cancel', 'demo_greet']) {
      const answer = await post('/mcp', message('tools/call', { name, arguments: {} }), {}, host);
      expect(answer.json.error.code).toBeLessThan(-32599);
    }
  });
});
