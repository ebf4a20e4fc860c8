import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Identity } from '../../actors/access-service.ts';
import type { Caller } from '../../actors/audit.ts';
import { TOKEN_ROLES, type TokenRole } from '../../machines/access.ts';
import { routesOf } from '../../src/host/host.ts';
import { commandRow, fakeServices } from './fake-services.ts';
import { ROLES_BEYOND, SPEC_ROLES } from './spec-roles.ts';
import { ask, CONFIG, hostOptions, testHost } from './test-host.ts';

const ENFORCE = { config: { ...CONFIG, authMode: 'enforce' as const } };
const rows = routesOf(fakeServices(), hostOptions()).filter((row) => row.part !== true);
const nameOf = (row: { method: string; path: string }) =>
  `${row.method} ${row.path}`.replaceAll(
    /\{(\w+)(…?)\}/g,
    (_all, name, rest) => `{${name === 'id' ? 'id' : name}${rest}}`,
  );

test('every row of the route table has the roles of its row in the specification', () => {
  const wanted: Readonly<Record<string, string>> = { ...SPEC_ROLES, ...ROLES_BEYOND };
  const wrong = rows.flatMap((row) => {
    const name = nameOf(row);
    const expected = name.startsWith('GET /ui') ? 'P' : wanted[name];
    const sorted = (text: string) => text.split(',').sort().join();
    return expected !== undefined && sorted(expected) === sorted(row.role.join())
      ? []
      : [`${name}: ${row.role} ≠ ${expected}`];
  });
  expect(wrong).toEqual([]);
});

/** A token of each role, known by its text. */
const identities = {
  identify: async (token: string): Promise<Identity | null> => {
    const role = TOKEN_ROLES.find((each) => token === `${each}-token`);
    return role === undefined ? null : { actor: `${role}-7`, role, email: null, displayName: null, expiresAt: null };
  },
  onRevoked: () => () => {},
};

const MARKS: Readonly<Record<TokenRole, readonly string[]>> = {
  viewer: ['P', 'V'],
  operator: ['P', 'V', 'O'],
  admin: ['P', 'V', 'O', 'A'],
  worker: ['P', 'W'],
};

describe('in enforce mode', () => {
  const { app } = testHost(fakeServices({ identities }), ENFORCE);

  test.each(rows.filter((row) => !row.role.includes('P')).map((row) => [`${row.method} ${row.path}`, row] as const))(
    '%s is open to its roles and to nobody else',
    async (_name, row) => {
      // A path nobody has registered below would be answered before any look at the caller.
      const url = row.path.replaceAll(/\{(\w+)…?\}/g, (_all, name) => (/_id$|^id$/.test(name) ? '5' : 'x1'));
      const call = (headers: Record<string, string>) =>
        // A body that fits nothing: whoever is let in gets no further than the check of the body.
        ask(app, row.method, url, {
          headers: { ...headers, ...(row.method === 'GET' ? {} : { 'content-type': 'application/json' }) },
          ...(row.method === 'GET' ? {} : { payload: '[' }),
        });
      const nobody = await call({});
      expect([nobody.status, nobody.json.code, nobody.json.detail]).toEqual([
        401,
        'unauthenticated',
        'Missing authentication token',
      ]);
      expect(nobody.headers['www-authenticate']).toMatch(/^Bearer/);
      const stranger = await call({ authorization: `Bearer ${'x'.repeat(43)}` });
      expect([stranger.status, stranger.json.detail]).toEqual([401, 'Invalid or expired session']);
      // Streams would stay open; their doors are those of the rows beside them.
      if (row.mediaType === 'text/event-stream') return;
      for (const role of TOKEN_ROLES) {
        const isOpen = row.role.some((mark) => MARKS[role].includes(mark));
        const { status, json } = await call({ authorization: `Bearer ${role}-token` });
        expect([role, status === 403, status === 401]).toEqual([role, !isOpen, false]);
        if (!isOpen) expect(json.code).toBe('forbidden');
      }
    },
  );

  test.each(['/health', '/api/health', '/openapi.json', '/'])(
    '%s needs nobody, whatever token comes along',
    async (url) => {
      expect((await ask(app, 'GET', url, { headers: { authorization: 'Bearer nonsense' } })).status).toBe(200);
    },
  );

  test.each([
    ['GET', '/api/nothing'],
    ['GET', '/api/admin'],
    ['GET', '/api/executions/41007/nothing'],
    ['PATCH', '/api/executions'],
  ])('%s %s does not exist, for an admin neither', async (method, url) => {
    const headers = { authorization: 'Bearer admin-token' };
    expect([404, 405]).toContain((await ask(app, method, url, { headers })).status);
  });

  test.each([
    '/API/executions',
    '/api/executions/',
    '/api//executions',
    '/api/%65xecutions',
    '/api/executions?x=/health',
  ])('%s is no way around the check', async (url) => {
    expect([401, 404]).toContain((await ask(app, 'GET', url)).status);
    expect([401, 404]).toContain((await ask(app, 'HEAD', url)).status);
  });

  test('a token may come in either header; Authorization counts first, and only Bearer does', async () => {
    const status = async (headers: Record<string, string>) =>
      (await ask(app, 'GET', '/api/executions', { headers })).status;
    expect(await status({ 'x-session-token': 'viewer-token' })).toBe(200);
    expect(await status({ authorization: 'bearer viewer-token' })).toBe(200);
    expect(await status({ authorization: 'Basic dmlld2VyLXRva2Vu' })).toBe(401);
    expect(await status({ authorization: 'Basic dmlld2VyLXRva2Vu', 'x-session-token': 'viewer-token' })).toBe(200);
    expect(await status({ authorization: 'Bearer nonsense', 'x-session-token': 'viewer-token' })).toBe(401);
    expect(await status({ authorization: 'Bearer worker-token', 'x-session-token': 'viewer-token' })).toBe(403);
  });

  test('services see who asks, and refusals are noted', async () => {
    const seen: Caller[] = [];
    const noted: string[] = [];
    const callers: { current: () => Caller }[] = [];
    const { createCallers } = await import('../../src/host/caller.ts');
    const own = createCallers();
    callers.push(own);
    const services = fakeServices({
      identities,
      denials: { note: (action, target, caller) => noted.push(`${action} ${target} ${caller.actor}`) },
      reads: {
        executions: async () => {
          seen.push(own.current());
          return { rows: [], total: 0, totalIsExact: true, hasMore: false };
        },
      },
    });
    const host = testHost(services, { ...ENFORCE, callers: own }).app;
    await ask(host, 'GET', '/api/executions', { headers: { authorization: 'Bearer operator-token' } });
    expect(seen).toMatchObject([{ actor: 'operator-7', role: 'operator' }]);
    await ask(host, 'POST', '/api/execute', { payload: {}, headers: { authorization: 'Bearer viewer-token' } });
    await ask(host, 'POST', '/api/execute', { payload: {}, headers: { authorization: `Bearer ${'y'.repeat(43)}` } });
    await ask(host, 'POST', '/api/execute', { payload: {} });
    expect(noted).toEqual(['access.denied POST /api/execute viewer-7', 'session.denied POST /api/execute anonymous']);
    noted.length = 0;
    // What only the handler can know is no less of a refusal.
    const revealed = await ask(host, 'GET', '/api/credentials/pg_auth?include_data=true', {
      headers: { authorization: 'Bearer operator-token' },
    });
    expect(revealed.status).toBe(403);
    expect(noted).toEqual(['access.denied GET /api/credentials/:identifier operator-7']);
  });

  test('a refused caller costs no reading of the body', async () => {
    const { status } = await ask(app, 'POST', '/api/execute', {
      headers: { 'content-type': 'application/json' },
      payload: 'x'.repeat(11_000_000),
    });
    expect(status).toBe(401);
  });

  test('credentials are revealed to admins, and to workers that have something to do', async () => {
    let open = 1;
    const host = testHost(
      fakeServices({
        identities,
        reads: { commands: async ({ workerId }) => (workerId === 'worker-7' && open > 0 ? [commandRow()] : []) },
      }),
      ENFORCE,
    ).app;
    const reveal = async (role: TokenRole, more = '') =>
      (
        await ask(host, 'GET', `/api/credentials/pg?include_data=true${more}`, {
          headers: { authorization: `Bearer ${role}-token` },
        })
      ).status;
    expect(await reveal('admin')).toBe(200);
    expect(await reveal('viewer')).toBe(403);
    expect(await reveal('operator')).toBe(403);
    expect(await reveal('worker')).toBe(403);
    expect(await reveal('worker', '&worker_id=worker-7&execution_id=41007')).toBe(200);
    expect(await reveal('worker', '&worker_id=worker-8')).toBe(403);
    open = 0;
    expect(await reveal('worker', '&worker_id=worker-7')).toBe(403);
  });

  test.each([
    ['viewer', false],
    ['operator', false],
    ['worker', true],
    ['admin', true],
  ] as const)('what a command was given is shown to a %s: %s', async (role, isShown) => {
    const answer = await ask(app, 'GET', '/api/commands/41012', {
      headers: { authorization: `Bearer ${role}-token` },
    });
    expect(answer.json).toMatchObject({ command_id: 41012, step: 'start' });
    expect('context' in answer.json).toBe(isShown);
  });

  test('local and shared keychain entries are for workers in that execution, global ones for all', async () => {
    const host = testHost(
      fakeServices({
        identities,
        reads: {
          commands: async ({ workerId, executionId }) =>
            workerId === 'worker-7' && executionId === 41007 ? [commandRow()] : [],
        },
      }),
      ENFORCE,
    ).app;
    const read = async (role: TokenRole, query: string) =>
      (
        await ask(host, 'GET', `/api/keychain/2003/billing?${query}`, {
          headers: { authorization: `Bearer ${role}-token` },
        })
      ).status;
    expect(await read('worker', '')).toBe(200);
    for (const scope of ['local', 'shared']) {
      const query = `scope_type=${scope}&worker_id=worker-7&execution_id`;
      expect(await read('worker', `${query}=41007`)).toBe(200);
      expect(await read('worker', `${query}=41008`)).toBe(403);
      expect(await read('worker', `scope_type=${scope}&execution_id=41007`)).toBe(403);
      expect(await read('admin', `scope_type=${scope}&execution_id=41007`)).toBe(200);
    }
  });

  test('a worker reports what its commands did, not how an execution ends', async () => {
    const post = (url: string, role: TokenRole, payload: object) =>
      ask(app, 'POST', url, { payload, headers: { authorization: `Bearer ${role}-token` } });
    const event = { event_type: 'playbook.failed', step: 'start' };
    const one = { execution_id: 41007, ...event };
    expect((await post('/api/events', 'worker', one)).json).toMatchObject({ code: 'forbidden' });
    expect((await post('/api/events', 'operator', one)).status).toBe(200);
    const batch = { execution_id: 41007, events: [event] };
    expect((await post('/api/events/batch', 'worker', batch)).status).toBe(403);
    expect((await post('/api/events/batch', 'operator', batch)).status).toBe(202);
  });

  test('the tool server lists what its caller may use', async () => {
    const tools = async (role: TokenRole) => {
      const payload = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
      const { json } = await ask(app, 'POST', '/mcp', { payload, headers: { authorization: `Bearer ${role}-token` } });
      return json.result.tools.map((tool: { name: string }) => tool.name);
    };
    expect(await tools('viewer')).not.toContain('callboard_start');
    expect(await tools('operator')).toContain('callboard_start');
  });

  test('a GUI without a gateway has its token judged', async () => {
    const post = async (url: string, payload: object, headers = {}) =>
      (await ask(app, 'POST', url, { payload, headers })).json;
    expect(await post('/api/auth/validate', { session_token: 'operator-token' })).toEqual({
      valid: true,
      user: { user_id: 'operator-7', email: null, display_name: null, roles: ['operator'] },
      expires_at: null,
      message: 'The session is valid',
    });
    expect(await post('/api/auth/validate', {}, { authorization: 'Bearer viewer-token' })).toMatchObject({
      valid: true,
    });
    expect(await post('/api/auth/validate', {})).toMatchObject({ valid: false, user: null });
    const asked = { playbook_path: 'demo/greet', permission_type: 'execute' };
    expect(await post('/api/auth/check-access', { ...asked, session_token: 'operator-token' })).toMatchObject({
      allowed: true,
    });
    expect(await post('/api/auth/check-access', { ...asked, session_token: 'viewer-token' })).toMatchObject({
      allowed: false,
      message: 'This needs the role operator',
    });
    const modify = { playbook_path: 'demo/greet', permission_type: 'modify', session_token: 'worker-token' };
    expect(await post('/api/auth/check-access', modify)).toMatchObject({
      allowed: false,
      message: 'This needs the role operator',
    });
    expect(await post('/api/auth/check-access', { ...asked, session_token: 'nonsense' })).toMatchObject({
      allowed: false,
      user: null,
    });
  });
});

describe('with an internal token', () => {
  const internal = { ...ENFORCE.config, internalToken: 'inside' };
  const withInternal = {
    ...identities,
    identify: async (token: string) =>
      token === 'inside'
        ? { actor: 'internal', role: 'admin' as const, email: null, displayName: null, expiresAt: null }
        : identities.identify(token),
  };
  const { app } = testHost(fakeServices({ identities: withInternal }), { config: internal });
  const status = async (headers: Record<string, string>, url = '/api/admin/leases') =>
    (await ask(app, 'GET', url, { headers })).status;

  test('the doors of operators want it beside the role', async () => {
    expect(await status({ authorization: 'Bearer admin-token' })).toBe(401);
    expect(await status({ authorization: 'Bearer inside' })).toBe(200);
    expect(await status({ 'x-session-token': 'inside' })).toBe(200);
    expect(await status({ authorization: 'Bearer admin-token', 'x-session-token': 'inside' })).toBe(200);
    expect(await status({ authorization: 'Bearer inside', 'x-session-token': 'operator-token' })).toBe(403);
    expect(await status({ authorization: 'Bearer inside' }, '/api/executions')).toBe(200);
    expect(await status({ authorization: 'Bearer admin-token' }, '/api/executions')).toBe(200);
  });

  test.each(['/api/admin/leases', '/API/admin/leases', '/api/%61dmin/leases', '/api/admin/leases/'])(
    'and in open mode too: %s',
    async (url) => {
      const open = testHost(fakeServices(), { config: { ...CONFIG, internalToken: 'inside' } }).app;
      expect([401, 404]).toContain((await ask(open, 'GET', url)).status);
      const answered = await ask(open, 'GET', '/api/admin/leases', { headers: { 'x-session-token': 'inside' } });
      expect(answered.status).toBe(200);
    },
  );
});

test('OpenAPI shows which role each operation needs', async () => {
  const document = (await ask(testHost().app, 'GET', '/openapi.json')).json;
  expect(Object.keys(document.components.securitySchemes)).toEqual(['bearer', 'session']);
  expect(document.paths['/health'].get.security).toEqual([]);
  expect(document.paths['/api/execute'].post.security).toEqual([
    { bearer: ['operator', 'worker'] },
    { session: ['operator', 'worker'] },
  ]);
  expect(document.paths['/api/execute'].post.responses['401']['x-codes']).toEqual(['unauthenticated']);
  expect(document.paths['/health'].get.responses['401']).toBeUndefined();
});

test('a digest in SVC_API_TOKENS is what it says', async () => {
  const { readConfig } = await import('../../src/config.ts');
  const digest = createHash('sha256').update('secret').digest('hex');
  expect(readConfig({ SVC_API_TOKENS: `ci:Operator:${digest}` }).apiTokens).toEqual([
    { name: 'ci', role: 'operator', digest: Buffer.from(digest, 'hex') },
  ]);
  for (const bad of [
    `ci:root:${digest}`,
    'ci:viewer:abc',
    `:viewer:${digest}`,
    `a:viewer:${digest},a:admin:${digest}`,
  ]) {
    expect(() => readConfig({ SVC_API_TOKENS: bad })).toThrow('SVC_API_TOKENS must');
  }
});
