/** Logins over two gateways before real servers: what a logout and a restart mean everywhere (reliability L). */
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { type RunningGateway, startGateway } from '../../src/gateway/start.ts';
import { silentLog } from '../../src/log.ts';
import { call, type Reply } from '../gateway/call.ts';
import { type FakeProvider, startFakeProvider } from '../gateway/fake-provider.ts';
import { startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { type ServerProcess, Stage } from '../support/processes.ts';

const PUBLIC = 'https://gw.example.test';
const SESSION = '__Host-callboard_session';
const LOGIN = '__Host-cb_login';

describe.each(['open', 'enforce'])('before servers in %s mode', (mode) => {
  const stage = new Stage();
  let postgres: TestPostgres;
  let provider: FakeProvider;
  let servers: ServerProcess[];
  let environment: Record<string, string>;
  let gateways: RunningGateway[];

  beforeAll(async () => {
    postgres = await startTestPostgres();
    provider = await startFakeProvider('gate');
    environment = {
      SVC_DATABASE_URL: postgres.url,
      SVC_DATA_DIR: await stage.folder(),
      SVC_AUTH_MODE: mode,
      SVC_INTERNAL_TOKEN: 'inside-e2e',
      SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      SVC_UI_ENABLED: 'false',
    };
    servers = [await stage.server(environment), await stage.server(environment)];
    gateways = await Promise.all(
      servers.map((server) =>
        startGateway(
          readConfig({
            SVC_GATEWAY_PORT: '0',
            SVC_GATEWAY_UPSTREAM: server.url,
            SVC_GATEWAY_SENSITIVE: 'admin',
            SVC_INTERNAL_TOKEN: 'inside-e2e',
            GATEWAY_PUBLIC_URL: PUBLIC,
            SVC_OIDC_ISSUER: provider.issuer,
            SVC_OIDC_CLIENT_ID: 'gate',
            SVC_OIDC_CLIENT_SECRET: 'hush',
          }),
          silentLog,
        ),
      ),
    );
  }, 120_000);
  afterAll(async () => {
    for (const gateway of gateways ?? []) await gateway.stop();
    await stage.close();
    await provider?.stop();
    await postgres?.stop();
  }, 60_000);

  const at = (index: number) => gateways[index]?.url ?? '';
  const get = (index: number, path: string, cookie: string) => call(at(index), 'GET', path, { headers: { cookie } });
  function cookieIn(reply: Reply, name: string): string {
    const found = reply.headers['set-cookie']?.find((each) => each.startsWith(`${name}=`));
    if (found === undefined) throw new Error(`no cookie ${name}: ${reply.status} ${reply.text}`);
    return found;
  }
  const pairOf = (header: string) => header.split(';')[0] ?? '';

  async function loginReply(claims: object, already = ''): Promise<Reply> {
    const begun = await call(at(0), 'GET', '/auth/login?return_to=/ui/');
    const back = provider.agree(String(begun.headers.location), claims);
    const cookie = [pairOf(cookieIn(begun, LOGIN)), already].filter((each) => each !== '').join('; ');
    return call(at(0), 'GET', back.pathname + back.search, { headers: { cookie } });
  }
  const login = async (claims: object = {}) => pairOf(cookieIn(await loginReply(claims), SESSION));

  test('GW-02: the cookie of a session has the prefix and the flags that keep it here', async () => {
    const header = cookieIn(await loginReply({}), SESSION);
    expect(header).toMatch(/^__Host-callboard_session=[A-Za-z0-9_-]{43}; /);
    const flags = header.split('; ').slice(1);
    expect(flags).toEqual(expect.arrayContaining(['Secure', 'HttpOnly', 'SameSite=Lax', 'Path=/']));
    expect(header).not.toMatch(/Domain=/i);
  });

  test('GW-04: a session that was there before a login is not the one after it', async () => {
    const planted = `${SESSION}=${'p'.repeat(43)}`;
    expect(pairOf(cookieIn(await loginReply({}, planted), SESSION))).not.toBe(planted);
    const before = await login();
    const after = pairOf(cookieIn(await loginReply({}, before), SESSION));
    expect(after).not.toBe(before);
    expect((await get(0, '/auth/me', after)).status).toBe(200);
    expect((await get(0, '/auth/me', planted)).status).toBe(401);
  });

  test('GW-05: after a logout the cookie is dead at both gateways within a second, and stays dead over a restart', {
    timeout: 120_000,
  }, async () => {
    const own = await login({ sub: 'leaving' });
    const kept = await login({ sub: 'staying' });
    for (const index of [0, 1, 1]) expect((await get(index, '/api/executions', own)).status).toBe(200);
    const { csrf_token: csrf } = (await get(0, '/auth/me', own)).json;
    const out = await call(at(0), 'POST', '/auth/logout', { headers: { cookie: own, 'x-csrf-token': csrf } });
    expect(out.status).toBe(200);
    const since = performance.now();
    expect((await get(0, '/api/executions', own)).status).toBe(401);
    while ((await get(1, '/api/executions', own)).status !== 401) {
      if (performance.now() - since > 10_000) throw new Error('the session is still alive');
      await pause(20);
    }
    expect(performance.now() - since).toBeLessThan(1_000);

    const port = servers[1]?.port;
    await servers[1]?.stop();
    servers[1] = await stage.server(environment, port);
    expect((await get(1, '/api/executions', own)).status).toBe(401);
    expect((await get(1, '/api/executions', kept)).status).toBe(200);
  });

  test('what a person may do follows from the role, whoever looks: the gateway or the server', async () => {
    const viewer = { authorization: `Bearer ${(await login({ sub: 'v' })).split('=')[1]}` };
    const operator = { authorization: `Bearer ${(await login({ sub: 'o', roles: ['operator'] })).split('=')[1]}` };
    const admin = { authorization: `Bearer ${(await login({ sub: 'a', roles: ['admin'] })).split('=')[1]}` };
    const ask = async (method: string, path: string, headers: Record<string, string>, body?: object) =>
      (await call(at(1), method, path, { headers, ...(body === undefined ? {} : { body }) })).status;
    expect(await ask('GET', '/api/executions', viewer)).toBe(200);
    expect(await ask('POST', '/api/executions/cleanup', viewer, { dry_run: true })).toBe(403);
    expect(await ask('POST', '/api/executions/cleanup', operator, { dry_run: true })).toBe(200);
    expect(await ask('GET', '/api/admin/leases', operator)).toBe(403);
    expect(await ask('GET', '/api/admin/leases', admin)).toBe(200);
    await ask('POST', '/api/admin/drain', admin, { draining: false });
    const audit = await call(at(1), 'GET', '/api/admin/audit?action=admin.drain', { headers: admin });
    expect(audit.json.rows[0]).toMatchObject({ actor: mode === 'enforce' ? 'a' : 'open', role: 'admin' });
  });

  test('a client hears how the execution goes that it started, until its session ends', {
    timeout: 60_000,
  }, async () => {
    const token = (await login({ sub: 'listener', roles: ['operator'] })).split('=')[1] ?? '';
    const headers = { authorization: `Bearer ${token}` };
    const post = (path: string, body: object) => call(at(0), 'POST', path, { headers, body });
    const stream = await fetch(`${at(0)}/events?client_id=e2e-tab`, { headers });
    expect(stream.status).toBe(200);
    let heard = '';
    const over = (async () => {
      for await (const chunk of stream.body ?? []) heard += Buffer.from(chunk).toString('utf8');
    })().catch(() => undefined);
    const content = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: heard, path: e2e/heard }
workflow:
  - step: start
    tool: { kind: noop }
`;
    expect((await post('/api/catalog/register', { content })).status).toBe(200);
    const { json: run } = await post('/api/execute', { path: 'e2e/heard', execution_pool: 'nobody' });
    await expect.poll(() => heard, { timeout: 15_000 }).toContain('"playbook/state"');
    await post(`/api/executions/${run.execution_id}/cancel`, { reason: 'enough' });
    await expect.poll(() => heard, { timeout: 15_000 }).toContain('"playbook/result"');
    const messages = heard.split('\n').filter((line) => line.startsWith('data: '));
    expect(JSON.parse(messages.at(-1)?.slice(6) ?? '')).toMatchObject({
      method: 'playbook/result',
      params: { execution_id: run.execution_id, status: 'cancelled' },
    });
    await call(servers[1]?.url ?? '', 'DELETE', '/api/internal/sessions', {
      headers: { authorization: 'Bearer inside-e2e' },
      body: { subject: 'listener' },
    });
    await over;
    expect((await call(at(0), 'GET', '/auth/me', { headers })).status).toBe(401);
  });

  let tries = 0;
  test('rules of a playbook narrow what a role may', async () => {
    tries += 1;
    const playbook = `e2e/narrow-${tries}`;
    const inside = { authorization: 'Bearer inside-e2e' };
    const direct = (method: string, path: string, body: object, headers: Record<string, string> = inside) =>
      call(servers[0]?.url ?? '', method, path, { body, headers });
    const content = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: narrow, path: ${playbook} }
workflow:
  - step: start
    tool: { kind: noop }
`;
    expect((await direct('POST', '/api/catalog/register', { content })).status).toBe(200);
    const access = { view: ['operator'], execute: ['friend'] };
    const path = `/api/catalog/playbook?playbook_id=${playbook}`;
    expect((await direct('PUT', path, { meta: { access } })).json.meta).toMatchObject({ access });
    expect((await direct('PUT', path, { meta: { access: { view: 'all' } } })).status).toBe(422);
    const tokenOf = async (sub: string, role: string) => (await login({ sub, roles: [role] })).split('=')[1] ?? '';
    const may = async (token: string, permission_type: string) =>
      (
        await call(at(1), 'POST', '/api/auth/check-access', {
          body: { session_token: token, playbook_path: playbook, permission_type },
        })
      ).json.allowed;
    const [friend, other, viewer] = [
      await tokenOf('friend', 'operator'),
      await tokenOf('other', 'operator'),
      await tokenOf('looker', 'viewer'),
    ];
    expect([await may(friend, 'execute'), await may(other, 'execute'), await may(viewer, 'execute')]).toEqual([
      true,
      false,
      false,
    ]);
    expect([await may(other, 'view'), await may(viewer, 'view'), await may(other, 'modify')]).toEqual([
      true,
      false,
      true,
    ]);
    if (mode === 'open') return;
    const start = (token: string) =>
      direct('POST', '/api/execute', { path: playbook }, { authorization: `Bearer ${token}` });
    expect((await start(other)).json).toMatchObject({ code: 'forbidden' });
    expect((await start(friend)).status).toBe(200);
    const seen = async (token: string, where: string) =>
      call(servers[0]?.url ?? '', 'GET', where, { headers: { authorization: `Bearer ${token}` } });
    expect((await seen(viewer, `/api/catalog/playbook/${playbook}`)).status).toBe(403);
    expect(JSON.stringify((await seen(viewer, '/api/catalog/playbooks')).json)).not.toContain(playbook);
    expect(JSON.stringify((await seen(other, '/api/catalog/playbooks')).json)).toContain(playbook);
    // They hold for its executions, wherever one is named.
    const { execution_id: run } = (await start(friend)).json;
    for (const where of ['', '/events', '/status', '/commands', '/machine', '/trace', '/explain']) {
      expect([where, (await seen(viewer, `/api/executions/${run}${where}`)).status]).toEqual([where, 403]);
      expect([where, (await seen(other, `/api/executions/${run}${where}`)).status]).toEqual([where, 200]);
    }
    expect((await seen(viewer, `/api/events/${run}`)).status).toBe(403);
    expect((await seen(viewer, `/api/executions?path=${playbook}`)).json).toEqual([]);
    expect((await seen(other, `/api/executions?path=${playbook}`)).json).not.toEqual([]);
    const runs = async (token: string) =>
      (await seen(token, '/api/commands?limit=1000')).json.commands.map(
        (each: { execution_id: number }) => each.execution_id,
      );
    expect(await runs(viewer)).not.toContain(run);
    expect(await runs(other)).toContain(run);
    const as = (token: string) => ({ authorization: `Bearer ${token}` });
    expect((await direct('POST', `/api/executions/${run}/cancel`, {}, as(other))).status).toBe(403);
    expect((await direct('POST', `/api/executions/${run}/rerun`, {}, as(other))).status).toBe(403);
    expect((await direct('POST', `/api/executions/${run}/cancel`, {}, as(friend))).status).toBe(200);
    // The rules hold for the next version, too.
    expect((await direct('POST', '/api/catalog/register', { content: `${content}# 2\n` })).json.version).toBe(2);
    expect((await start(other)).status).toBe(403);
    // Where they are changed they hold with the answer; at the other server when it has heard of them.
    const listed = async (index: number) => {
      const headers = { authorization: `Bearer ${viewer}` };
      return (await call(servers[index]?.url ?? '', 'GET', `/api/executions?path=${playbook}`, { headers })).json
        .length;
    };
    // The runs so far are of the first version.
    const first = path.replace(
      /playbook_id=.*/,
      `playbook_id=${(await seen(friend, `/api/executions/${run}`)).json.catalog_id}`,
    );
    for (const [view, count] of [
      [['viewer', 'operator'], 2],
      [['operator'], 0],
      [['viewer'], 2],
    ]) {
      expect((await direct('PUT', first, { meta: { access: { view } } })).status).toBe(200);
      expect(await listed(0)).toBe(count);
      const since = performance.now();
      while ((await listed(1)) !== count) {
        if (performance.now() - since > 10_000) throw new Error('the other server has not heard of the rules');
        await pause(20);
      }
      expect(performance.now() - since).toBeLessThan(1_000);
    }
  });
});
