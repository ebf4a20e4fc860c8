import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { readRoleMap } from '../../src/gateway/oidc/roles.ts';
import { type RunningGateway, startGateway } from '../../src/gateway/start.ts';
import { silentLog } from '../../src/log.ts';
import { call, type Reply } from './call.ts';
import { EC, type FakeProvider, RSA, startFakeProvider } from './fake-provider.ts';
import { type FakeServer, startFakeServer } from './upstream-server.ts';

const PUBLIC = 'https://gw.example.test';
const GUI = 'https://gui.example.com';
const SESSION = '__Host-callboard_session';
const LOGIN = '__Host-cb_login';

let provider: FakeProvider;
let server: FakeServer;
let gateway: RunningGateway;
let env: Record<string, string>;
const sessions = new Map<string, { subject: string; email: string; name: string; roles: string[] }>();

/** The session doors of the API, in memory. */
function sessionDoors(url: string, method: string, body: string, token: string | undefined): object | null {
  // Not in this server: it does not tell which sessions end.
  if (method === 'GET' || !/^\/api\/(internal|auth)\//.test(url)) return null;
  if (token !== 'Bearer inside') throw new Error('a session door was called without the internal token');
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const given = JSON.parse(body);
  if (url === '/api/auth/session/validate') {
    const found = sessions.get(given.session_token);
    if (found === undefined) return { status: 'ok', valid: false, user: null };
    const user = { user_id: found.subject, email: found.email, display_name: found.name, roles: found.roles };
    return { status: 'ok', valid: true, user, expires_at };
  }
  if (url === '/api/auth/check-access') {
    const found = sessions.get(given.session_token);
    const allowed = given.playbook_path !== 'demo/secret';
    return { allowed, user: { user_id: found?.subject }, ...given, message: allowed ? 'Allowed' : 'Its rules say no' };
  }
  if (method === 'DELETE') return { revoked: Number(sessions.delete(given.session_token)) };
  const session_token = `session-${sessions.size}-${'x'.repeat(30)}`;
  sessions.set(session_token, given);
  return { session_token, expires_at };
}

beforeAll(async () => {
  provider = await startFakeProvider('gate');
  server = await startFakeServer(({ url, method, body, headers }, _request, response) => {
    const answer = sessionDoors(url, method, body, headers.authorization);
    if (answer === null) return false;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer));
    return true;
  });
  env = {
    SVC_GATEWAY_PORT: '0',
    SVC_GATEWAY_UPSTREAM: server.url,
    SVC_INTERNAL_TOKEN: 'inside',
    GATEWAY_PUBLIC_URL: PUBLIC,
    CORS_ALLOWED_ORIGINS: GUI,
    SVC_OIDC_ISSUER: provider.issuer,
    SVC_OIDC_CLIENT_ID: 'gate',
    SVC_OIDC_CLIENT_SECRET: 'hush',
    SVC_OIDC_ROLE_MAP: 'team:ops=operator,team:root=admin',
    SVC_OIDC_ROLES_CLAIM: 'groups',
  };
  gateway = await startGateway(readConfig(env), silentLog);
});
afterAll(async () => {
  await gateway?.stop();
  await server?.stop();
  await provider?.stop();
});
beforeEach(() => {
  server.seen.length = 0;
});

const get = (path: string, cookie?: string) =>
  call(gateway.url, 'GET', path, { headers: cookie === undefined ? {} : { cookie } });

function cookie(reply: Reply, name: string): string {
  const found = reply.headers['set-cookie']?.find((each) => each.startsWith(`${name}=`));
  if (found === undefined) throw new Error(`no cookie ${name}`);
  return found;
}
const pair = (header: string) => header.split(';')[0] ?? '';

async function begin(returnTo = '/ui/runs') {
  const reply = await get(`/auth/login?return_to=${encodeURIComponent(returnTo)}`);
  return { reply, url: String(reply.headers.location), browser: pair(cookie(reply, LOGIN)) };
}
async function finish(back: URL, browser?: string) {
  return get(back.pathname + back.search, browser);
}
function changed(back: URL, change: (back: URL) => void): URL {
  change(back);
  return back;
}

async function login(claims: object = {}): Promise<string> {
  const { url, browser } = await begin();
  return pair(cookie(await finish(provider.agree(url, claims), browser), SESSION));
}
const failed = (reply: Reply) => [
  reply.status,
  reply.headers.location,
  (reply.headers['set-cookie'] ?? []).some((each) => each.startsWith(SESSION)),
];

describe('the identity provider', () => {
  test('is asked under the egress rules: one that lies where they forbid is not reached', async () => {
    const host = new URL(provider.issuer).host;
    const strict = await startGateway(readConfig({ ...env, SVC_EGRESS_DENY: host }), silentLog);
    try {
      provider.seen.length = 0;
      const reply = await call(strict.url, 'GET', '/auth/login?return_to=/');
      expect([reply.status, reply.headers.location]).toEqual([303, '/auth/error?code=provider']);
      expect(provider.seen).toEqual([]);
    } finally {
      await strict.stop();
    }
    await expect(startGateway(readConfig({ ...env, SVC_EGRESS_ALLOW: '...' }), silentLog)).rejects.toThrow(
      /SVC_EGRESS_ALLOW/,
    );
  });
});

describe('a login', () => {
  test('asks for a code with PKCE, state and nonce, and is bound to the browser', async () => {
    const { reply, url } = await begin();
    const asked = Object.fromEntries(new URL(url).searchParams);
    expect(reply.status).toBe(302);
    expect(asked).toMatchObject({
      response_type: 'code',
      client_id: 'gate',
      redirect_uri: `${PUBLIC}/auth/callback`,
      scope: 'openid email profile',
      code_challenge_method: 'S256',
    });
    for (const name of ['state', 'nonce', 'code_challenge']) expect(asked[name]).toMatch(/^[\w-]{43}$/);
    expect(cookie(reply, LOGIN)).toMatch(/; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax; Secure$/);
  });

  test('ends in a session, whose cookie no other host and no script can read', async () => {
    const { url, browser } = await begin();
    const reply = await finish(provider.agree(url, { groups: ['team:ops'] }), browser);
    expect([reply.status, reply.headers.location]).toEqual([302, '/ui/runs']);
    expect(cookie(reply, SESSION)).toMatch(/; Path=\/; HttpOnly; SameSite=Lax; Secure$/);
    expect(cookie(reply, SESSION)).not.toMatch(/domain/i);
    const me = await get('/auth/me', pair(cookie(reply, SESSION)));
    expect(me.json).toMatchObject({ user: { user_id: 'user-7', email: 'u7@example.com' }, roles: ['operator'] });
    expect(me.json.csrf_token).toMatch(/^[\w-]{43}$/);
    expect(reply.headers['strict-transport-security']).toBeDefined();
  });

  test('gives a new session each time, whatever cookie came along', async () => {
    const first = await login();
    const { url, browser } = await begin();
    const reply = await finish(provider.agree(url), `${browser}; ${first}`);
    expect(pair(cookie(reply, SESSION))).not.toBe(first);
  });

  test.each([
    ['in another browser', () => {}, ''],
    ['with a forged cookie', () => {}, `${LOGIN}=${'A'.repeat(200)}`],
    ['with another state', (back: URL) => back.searchParams.set('state', 'x'.repeat(43)), null],
    ['with two states', (back: URL) => back.searchParams.append('state', 'x'), null],
  ])('%s is not finished', async (_name, change, other) => {
    const { url, browser } = await begin();
    expect(failed(await finish(changed(provider.agree(url), change), other ?? browser))).toEqual([
      303,
      '/auth/error?code=expired',
      false,
    ]);
  });

  test.each([
    ['another issuer', (back: URL) => back.searchParams.set('iss', 'https://evil.example')],
    ['no issuer, which was promised', (back: URL) => back.searchParams.delete('iss')],
    ['a code of nobody', (back: URL) => back.searchParams.set('code', 'guess')],
    ['no code', (back: URL) => back.searchParams.delete('code')],
  ])('with %s is not finished', async (_name, change) => {
    const { url, browser } = await begin();
    expect(failed(await finish(changed(provider.agree(url), change), browser))).toEqual([
      303,
      '/auth/error?code=provider',
      false,
    ]);
  });

  test('works once for one code', async () => {
    const { url, browser } = await begin();
    const back = provider.agree(url);
    expect((await finish(back, browser)).status).toBe(302);
    expect((await finish(back, browser)).status).toBe(303);
  });

  test.each([
    ['/ui/runs?x=1#top', '/ui/runs?x=1#top'],
    [`${GUI}/back`, `${GUI}/back`],
    ['https://evil.example/', '/ui/'],
    ['//evil.example', '/ui/'],
    ['/\\evil.example', '/ui/'],
    ['\\\\evil.example', '/ui/'],
    ['https:evil.example', '/ui/'],
    ['/x/..//evil.example', '/ui/'],
    ['/\t/evil.example', '/ui/'],
    ['/a\r\nset-cookie: x=1', '/ui/'],
    ['javascript:alert(1)', '/ui/'],
    [`${GUI}@evil.example/`, '/ui/'],
    [`https://x@gui.example.com/`, '/ui/'],
    [`${GUI}.evil.example/`, '/ui/'],
  ])('GW-09: that wants to return to %j goes to %s', async (wanted, to) => {
    const { url, browser } = await begin(wanted);
    expect((await finish(provider.agree(url), browser)).headers.location).toBe(to);
  });
});

const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const seconds = Math.floor(Date.now() / 1000);

describe('an ID token', () => {
  const bring = (id_token: string) => call(gateway.url, 'POST', '/api/auth/login', { body: { id_token } });

  test.each([
    ['RS256', {}],
    ['ES256', { alg: 'ES256', key: EC.privateKey, kid: 'ec' }],
  ])('signed with %s opens a session for a client without cookies', async (_name, signing) => {
    const { status, json, headers } = await bring(provider.token({ groups: 'team:root' }, signing));
    expect([status, json]).toMatchObject([
      200,
      { status: 'authenticated', user: { user_id: 'user-7', roles: ['admin'] } },
    ]);
    expect(headers['set-cookie']).toBeUndefined();
    const me = await call(gateway.url, 'GET', '/auth/me', {
      headers: { authorization: `Bearer ${json.session_token}` },
    });
    expect(me.status).toBe(200);
  });

  test.each([
    ['unsigned', {}, { alg: 'none', key: null }],
    [
      'signed with the public key as a password',
      {},
      { alg: 'HS256', key: Buffer.from(RSA.publicKey.export({ type: 'spki', format: 'pem' })) },
    ],
    ['of a stranger', {}, { key: stranger }],
    ['of an unknown key', {}, { kid: 'other' }],
    ['whose algorithm does not fit its key', {}, { alg: 'ES256', key: EC.privateKey, kid: 'rsa' }],
    ['of another issuer', { iss: 'https://evil.example' }, {}],
    ['for someone else', { aud: 'other' }, {}],
    ['for several, asked for by another', { aud: ['gate', 'other'], azp: 'other' }, {}],
    ['for several, asked for by nobody', { aud: ['gate', 'other'] }, {}],
    ['that has expired', { exp: seconds - 120 }, {}],
    ['without an end', { exp: undefined }, {}],
    ['from the future', { iat: seconds + 600 }, {}],
    ['that is not valid yet', { nbf: seconds + 600 }, {}],
    ['for nobody', { sub: '' }, {}],
  ])('%s is refused, in a callback too', async (_name, claims, signing) => {
    expect((await bring(provider.token(claims, signing))).status).toBe(401);
    const { url, browser } = await begin();
    const reply = await finish(provider.agree(url, claims, signing), browser);
    expect(failed(reply)).toEqual([303, '/auth/error?code=provider', false]);
  });

  test('of another login is refused', async () => {
    const { url, browser } = await begin();
    expect((await finish(provider.agree(url, { nonce: 'x'.repeat(43) }), browser)).status).toBe(303);
  });

  test('that was changed after signing is refused', async () => {
    const [head, , signature] = provider.token({}).split('.');
    const body = Buffer.from(
      JSON.stringify({ iss: provider.issuer, aud: 'gate', sub: 'root', exp: seconds + 300, iat: seconds }),
    );
    expect((await bring(`${head}.${body.toString('base64url')}.${signature}`)).status).toBe(401);
  });
});

describe('a session', () => {
  const ask = (method: string, path: string, headers: Record<string, string>) =>
    call(gateway.url, method, path, { headers, ...(method === 'GET' ? {} : { body: {} }) });

  test.each([
    [{}, 401, 'Missing authentication token'],
    [{ cookie: `${SESSION}=${'y'.repeat(43)}` }, 401, 'Invalid or expired session'],
    [{ cookie: 'callboard_session=session-0' }, 401, 'Missing authentication token'],
    [{ authorization: 'Basic x' }, 401, 'Invalid or expired session'],
    [{ cookie: `${SESSION}=${'y'.repeat(43)}`, 'x-session-token': 'nope' }, 401, 'Invalid or expired session'],
    [{ authorization: 'Bearer inside' }, 401, 'Invalid or expired session'],
    [{ 'x-session-token': 'nope' }, 401, 'Invalid or expired session'],
  ])('%o is none', async (headers, status, detail) => {
    const reply = await ask('GET', '/api/executions', headers);
    expect([reply.status, reply.json.detail]).toEqual([status, detail]);
  });

  test('of a viewer reads and changes nothing; of an operator changes; revealing is nobody’s', async () => {
    const bearer = async (claims: object) => ({ authorization: `Bearer ${(await login(claims)).split('=')[1]}` });
    const viewer = await bearer({ groups: ['team:unknown'] });
    const operator = await bearer({ groups: ['team:ops', 'team:unknown'] });
    const admin = await bearer({ groups: ['team:ops', 'team:root'] });
    expect((await ask('GET', '/api/executions', viewer)).status).toBe(200);
    expect((await ask('POST', '/api/catalog/list', viewer)).status).toBe(200);
    expect((await ask('POST', '/api/execute', viewer)).json.detail).toBe('This needs the role operator');
    expect((await ask('POST', '/api/execute', operator)).status).toBe(200);
    expect((await ask('DELETE', '/api/keychain/5/billing', operator)).status).toBe(403);
    expect((await ask('DELETE', '/api/keychain/5/billing', admin)).status).toBe(200);
    expect((await ask('GET', '/api/credentials/pg?include_data=true', admin)).status).toBe(403);
    expect((await ask('POST', '/api/postgres/execute', admin)).status).toBe(403);
  });

  test('needs the CSRF token only where the browser sends it by itself', async () => {
    const own = await login({ groups: ['team:ops'] });
    const { csrf_token: token } = (await get('/auth/me', own)).json;
    expect((await ask('POST', '/api/execute', { cookie: own })).json.code).toBe('csrf');
    expect((await ask('POST', '/api/execute', { cookie: own, 'x-csrf-token': token })).status).toBe(200);
    const other = await login({ groups: ['team:ops'] });
    expect((await ask('POST', '/api/execute', { cookie: other, 'x-csrf-token': token })).status).toBe(403);
    const asBearer = { cookie: own, authorization: 'Bearer forged-forged-forged-forged' };
    expect((await ask('POST', '/api/execute', { ...asBearer, 'x-csrf-token': token })).status).toBe(401);
  });

  test('is found in a cookie, else a bearer token, else X-Session-Token; no cookie counts beside a bearer token', async () => {
    const cookieOf = await login({ sub: 'in-cookie', groups: ['team:ops'] });
    const bearerOf = (await login({ sub: 'in-bearer' })).split('=')[1] ?? '';
    const headerOf = (await login({ sub: 'in-header' })).split('=')[1] ?? '';
    const who = async (headers: Record<string, string>) => {
      const { status, json } = await ask('GET', '/auth/me', headers);
      return status === 200 ? json.user.user_id : status;
    };
    const [cookie, bearer, header] = [cookieOf, `Bearer ${bearerOf}`, headerOf];
    expect(await who({ cookie, 'x-session-token': header })).toBe('in-cookie');
    expect(await who({ cookie, authorization: bearer, 'x-session-token': header })).toBe('in-bearer');
    expect(await who({ cookie, authorization: 'Bearer forged' })).toBe(401);
    expect(await who({ cookie, authorization: 'Basic forged' })).toBe('in-cookie');
    expect(await who({ cookie: `${SESSION}=${'z'.repeat(43)}`, 'x-session-token': header })).toBe('in-header');
    // A session by header is asked for no CSRF token; one by cookie is, whatever else comes along.
    expect((await ask('POST', '/api/catalog/list', { 'x-session-token': header })).status).toBe(200);
    expect((await ask('POST', '/api/catalog/list', { cookie, 'x-session-token': header })).json.code).toBe('csrf');
  });

  test('goes to the server as a bearer token, with the name of its user', async () => {
    const own = await login();
    server.seen.length = 0;
    await get('/api/executions', own);
    await get('/api/executions', own);
    const calls = server.seen.filter(({ url }) => url === '/api/executions');
    expect(calls[0]?.headers).toMatchObject({
      authorization: `Bearer ${own.split('=')[1]}`,
      'x-callboard-user': 'user-7',
    });
    expect(calls[0]?.headers.cookie).toBeUndefined();
  });

  test('is over at once after a logout, which a foreign page cannot cause', async () => {
    const own = await login();
    const { csrf_token: token } = (await get('/auth/me', own)).json;
    expect((await ask('POST', '/auth/logout', { cookie: own })).status).toBe(403);
    const reply = await ask('POST', '/auth/logout', { cookie: own, 'x-csrf-token': token });
    expect(reply.json).toEqual({ logout_url: null });
    expect(cookie(reply, SESSION)).toContain('Max-Age=0');
    expect((await get('/auth/me', own)).status).toBe(401);
  });

  test('is judged for clients that bring it in a body', async () => {
    const session_token = (await login({ groups: ['team:ops'] })).split('=')[1];
    const post = (path: string, body: object) => call(gateway.url, 'POST', path, { body });
    expect((await post('/api/auth/validate', { session_token })).json).toMatchObject({ valid: true });
    expect((await post('/api/auth/validate', { session_token: 'x'.repeat(43) })).json).toMatchObject({
      valid: false,
      user: null,
    });
    const asked = { session_token, playbook_path: 'demo/greet', permission_type: 'execute' };
    expect((await post('/api/auth/check-access', asked)).json).toMatchObject({
      allowed: true,
      user: { user_id: 'user-7' },
    });
    expect((await post('/api/auth/check-access', { ...asked, playbook_path: 'demo/secret' })).json).toEqual({
      allowed: false,
      user: { user_id: 'user-7' },
      playbook_path: 'demo/secret',
      permission_type: 'execute',
      message: 'Its rules say no',
    });
    expect((await post('/api/auth/check-access', { ...asked, permission_type: 'toString' })).status).toBe(422);
  });

  test('is begun for people who open the GUI without one', async () => {
    const reply = await call(gateway.url, 'GET', '/ui/runs?x=1', { headers: { accept: 'text/html' } });
    expect([reply.status, reply.headers.location]).toEqual([302, '/auth/login?return_to=%2Fui%2Fruns%3Fx%3D1']);
  });
});

test('nobody without a role gets in where the default role is none', async () => {
  const strict = await startGateway(readConfig({ ...env, SVC_OIDC_DEFAULT_ROLE: 'none' }), silentLog);
  const reply = await call(strict.url, 'POST', '/api/auth/login', {
    body: { id_token: provider.token({ groups: ['x'] }) },
  });
  await strict.stop();
  expect(reply.status).toBe(401);
});

test.each([
  ['SVC_OIDC_ISSUER', '', 'SVC_OIDC_ISSUER must be set'],
  ['SVC_OIDC_CLIENT_ID', '', 'SVC_OIDC_CLIENT_ID must be set'],
  ['SVC_INTERNAL_TOKEN', '', 'SVC_INTERNAL_TOKEN must be set'],
  ['GATEWAY_PUBLIC_URL', '', 'GATEWAY_PUBLIC_URL must be set'],
  ['GATEWAY_PUBLIC_URL', 'http://gw.example.test', 'must start with https://'],
  ['SVC_OIDC_ISSUER', 'http://id.example.test', 'must start with https://'],
  ['SVC_OIDC_ROLE_MAP', 'team:ops=root', 'SVC_OIDC_ROLE_MAP must hold'],
  ['SVC_OIDC_ROLE_MAP', '{"ops": "root"}', 'SVC_OIDC_ROLE_MAP must hold'],
  ['SVC_OIDC_ROLE_MAP', '{ops: admin}', 'SVC_OIDC_ROLE_MAP must be'],
])('it does not start with %s=%s', async (name, value, sentence) => {
  await expect(startGateway(readConfig({ ...env, [name]: value }), silentLog)).rejects.toThrow(sentence);
});

test.each(['team:ops=operator, ops=admin', 'team:ops:operator,ops:admin', '{"team:ops": "operator", "ops": "admin"}'])(
  'the role map reads %s',
  (text) => {
    expect([...readRoleMap(text)]).toEqual([
      ['team:ops', 'operator'],
      ['ops', 'admin'],
    ]);
  },
);

test('a token client may send what others send along', async () => {
  const reply = await call(gateway.url, 'POST', '/api/auth/login', {
    body: {
      auth0_token: provider.token({ groups: 'team:ops' }),
      auth0_domain: 'tenant.example',
      session_duration_hours: 8,
      client_ip: '10.0.0.1',
      client_user_agent: 'app',
    },
  });
  expect(reply.json).toMatchObject({ status: 'authenticated', user: { roles: ['operator'] } });
});
