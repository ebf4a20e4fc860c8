/** Enforce mode as it is deployed: two servers over one database, a worker and a command line with tokens of their own. */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { type ServerProcess, Stage } from '../support/processes.ts';

const stage = new Stage();
const SECRET = 'canary-of-the-credential';
let postgres: TestPostgres;
let servers: readonly ServerProcess[];
let environment: Record<string, string>;

interface Answer {
  readonly status: number;
  /** Read without ceremony: a test says what it expects of it. */
  readonly json: ReturnType<typeof JSON.parse>;
}

async function ask(at: number, method: string, path: string, token: string | null, body?: object): Promise<Answer> {
  const response = await fetch(`${servers[at]?.url}${path}`, {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text };
}

/** `callboard token create`, and what it prints. A name that is taken is given again. */
async function tokenOf(name: string, role: string, ...more: readonly string[]): Promise<string> {
  await ask(0, 'DELETE', `/api/admin/tokens?name=${name}`, 'inside-e2e');
  const called = stage.start(['token', 'create', name, '--role', role, ...more], {
    SVC_SERVER_URL: servers[0]?.url ?? '',
    SVC_INTERNAL_TOKEN: 'inside-e2e',
  });
  const { code } = await called.ended;
  const token = /cb_\w+_[A-Za-z0-9_-]{43}/.exec(called.output())?.[0];
  if (code !== 0 || token === undefined) throw new Error(`no token was made:\n${called.output()}`);
  return token;
}

beforeAll(async () => {
  postgres = await startTestPostgres();
  environment = {
    SVC_DATABASE_URL: postgres.url,
    SVC_DATA_DIR: await stage.folder(),
    SVC_AUTH_MODE: 'enforce',
    SVC_INTERNAL_TOKEN: 'inside-e2e',
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    SVC_UI_ENABLED: 'false',
  };
  servers = [await stage.server(environment), await stage.server(environment)];
}, 120_000);

afterAll(async () => {
  await stage.close();
  await postgres?.stop();
}, 60_000);

const GREET = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: enforced, path: e2e/enforced }
workflow:
  - step: start
    tool:
      kind: shell
      auth: shell_auth
      cmds: ['test "$AUTH_TOKEN" = ${SECRET} && echo seen']
    next: { arcs: [{ step: child }] }
  - step: child
    tool: { kind: playbook, path: e2e/enforced-child }
`;
const CHILD = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: enforced-child, path: e2e/enforced-child }
workflow:
  - step: start
    tool: { kind: noop, result: { done: true } }
`;

describe('the first five lines of a newcomer', () => {
  test('a token of each role does what the role may, and a worker with its own runs a playbook with a credential', {
    timeout: 120_000,
  }, async () => {
    const operator = await tokenOf('operator-e2e', 'operator');
    const viewer = await tokenOf('viewer-e2e', 'viewer');
    const worker = await tokenOf('worker-e2e', 'worker', '--expires-in-days', '1');
    expect((await ask(0, 'GET', '/api/executions', null)).json).toMatchObject({
      code: 'unauthenticated',
      detail: 'Missing authentication token',
    });
    expect((await ask(1, 'GET', '/api/executions', viewer)).status).toBe(200);
    expect((await ask(1, 'POST', '/api/execute', viewer, { path: 'x' })).status).toBe(403);
    expect((await ask(1, 'GET', '/metrics', null)).status).toBe(401);
    expect((await ask(1, 'GET', '/metrics', viewer)).status).toBe(200);
    expect((await ask(1, 'GET', '/api/health', null)).status).toBe(200);
    expect((await ask(1, 'POST', '/api/worker/exchange', operator, { worker_id: 'x', instance: 'x' })).status).toBe(
      403,
    );
    expect((await ask(1, 'GET', '/api/admin/tokens', operator)).status).toBe(403);

    await stage.worker(servers[1]?.url ?? '', { SVC_WORKER_TOKEN: worker, SVC_WORKER_NAME: 'token-holder' });
    const stored = { name: 'shell_auth', type: 'bearer', data: { token: SECRET } };
    expect((await ask(0, 'POST', '/api/credentials', operator, stored)).status).toBe(200);
    for (const content of [GREET, CHILD]) {
      expect((await ask(0, 'POST', '/api/catalog/register', operator, { content })).status).toBe(200);
    }
    const run = await ask(0, 'POST', '/api/execute', operator, { path: 'e2e/enforced', wait_ms: 30_000 });
    expect(run.json).toMatchObject({ execution_status: 'completed' });
    // The child that a worker starts belongs to whoever started its parent, also at another server.
    const below = await ask(1, 'GET', `/api/executions?root_execution_id=${run.json.execution_id}`, operator);
    expect(below.json.map((each: { path: string; created_by: string }) => [each.path, each.created_by])).toEqual([
      ['e2e/enforced-child', 'operator-e2e'],
      ['e2e/enforced', 'operator-e2e'],
    ]);
    expect((await ask(0, 'GET', '/api/credentials/shell_auth?include_data=true', operator)).status).toBe(403);
    expect(
      (await ask(0, 'GET', '/api/credentials/shell_auth?include_data=true&worker_id=token-holder', worker)).status,
    ).toBe(403);
    const audit = await ask(0, 'GET', '/api/admin/audit?limit=1000', 'inside-e2e');
    const rows: { action: string; actor: string; role: string; target: string; detail: object }[] = audit.json.rows;
    const actorOf = (action: string) => rows.find((row) => row.action === action);
    expect(actorOf('credential.write')).toMatchObject({ actor: 'operator-e2e', role: 'operator' });
    expect(actorOf('credential.reveal')).toMatchObject({ actor: 'worker-e2e', role: 'worker' });
    // What a person started leaves a row; the child that the worker started for it does not.
    const started = rows.filter(
      (row) => row.action === 'execution.start' && Number(row.target) >= run.json.execution_id,
    );
    expect(started).toMatchObject([
      {
        actor: 'operator-e2e',
        role: 'operator',
        target: String(run.json.execution_id),
        detail: { path: 'e2e/enforced' },
      },
    ]);
    expect(actorOf('token.create')).toMatchObject({ actor: 'internal', role: 'admin' });
    expect(actorOf('access.denied')).toMatchObject({ outcome: 'denied' });
    expect(JSON.stringify(audit.json)).not.toContain(SECRET);
    const stages = servers.map((each) => each.output()).join('');
    for (const secret of [operator, viewer, worker, SECRET, 'inside-e2e']) expect(stages).not.toContain(secret);
    const [row] = await queryRows<{ all: string }>(
      postgres.url,
      'select string_agg(t::text, $$,$$) as all from core.api_token t',
    );
    expect(row?.all).not.toContain(operator.slice(-43));
  });

  test('the token of a process stands in no list of processes', { timeout: 60_000 }, async () => {
    const token = await tokenOf('argv-e2e', 'viewer');
    const called = stage.start(['list', '--server', servers[0]?.url ?? ''], { SVC_TOKEN: token });
    const argv = await readFile(`/proc/${called.pid}/cmdline`, 'utf8').catch(() => '');
    expect(argv).not.toContain(token);
    expect((await called.ended).code).toBe(0);
    const refused = stage.start(['list', '--server', servers[0]?.url ?? ''], {});
    expect((await refused.ended).code).not.toBe(0);
    expect(refused.output()).toContain('Missing authentication token');
  });
});

test('what a person ends leaves a row of who did it, and what was over already leaves none', {
  timeout: 60_000,
}, async () => {
  const operator = await tokenOf('ender-e2e', 'operator');
  const content = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: waits, path: e2e/waits }
workflow:
  - step: start
    tool: { kind: noop }
`;
  await ask(0, 'POST', '/api/catalog/register', operator, { content });
  const start = async () =>
    (await ask(0, 'POST', '/api/execute', operator, { path: 'e2e/waits', execution_pool: 'nobody' })).json.execution_id;
  const [stopped, finalized] = [await start(), await start()];
  for (let twice = 0; twice < 2; twice++) {
    await ask(0, 'POST', `/api/executions/${stopped}/cancel`, operator, {});
    await ask(1, 'POST', `/api/executions/${finalized}/finalize`, operator, { status: 'failed' });
  }
  const rowsOf = async (id: number) =>
    queryRows(postgres.url, 'select action, actor, role, outcome from core.audit where target = $1 order by audit_id', [
      String(id),
    ]);
  const ender = { actor: 'ender-e2e', role: 'operator', outcome: 'ok' };
  expect(await rowsOf(stopped)).toEqual([
    { action: 'execution.start', ...ender },
    { action: 'execution.cancel', ...ender },
  ]);
  expect(await rowsOf(finalized)).toEqual([
    { action: 'execution.start', ...ender },
    { action: 'execution.finalize', ...ender },
  ]);
});

describe('an end that is told', () => {
  /** How long the other server still lets a token in after `end` has answered. Milliseconds. */
  async function outlives(token: string, end: () => Promise<unknown>): Promise<number> {
    for (let use = 0; use < 3; use++) expect((await ask(1, 'GET', '/api/machines', token)).status).toBe(200);
    await end();
    const since = performance.now();
    while ((await ask(1, 'GET', '/api/machines', token)).status === 200) {
      if (performance.now() - since > 10_000) throw new Error('it was never refused');
      await pause(20);
    }
    return performance.now() - since;
  }

  test('of a token holds on the other server within a second', { timeout: 60_000 }, async () => {
    const token = await tokenOf('ending-e2e', 'viewer');
    const ms = await outlives(token, () => ask(0, 'DELETE', '/api/admin/tokens', 'inside-e2e', { name: 'ending-e2e' }));
    expect(ms).toBeLessThan(1_000);
  });

  test('of a session holds there, too, and ends the streams it opened', { timeout: 60_000 }, async () => {
    const who = { subject: 'user-e2e', email: null, name: 'U', roles: ['viewer'], ttl_seconds: 600 };
    const { json } = await ask(0, 'POST', '/api/internal/sessions', 'inside-e2e', who);
    const session: string = json.session_token;
    expect((await ask(1, 'POST', '/api/auth/validate', null, { session_token: session })).json).toMatchObject({
      valid: true,
      user: { user_id: 'user-e2e', roles: ['viewer'] },
    });
    const [run] = (await ask(0, 'GET', '/api/executions', session)).json;
    const stream = await fetch(`${servers[1]?.url}/api/executions/${run.execution_id}/machine/stream`, {
      headers: { 'x-session-token': session },
    });
    expect(stream.status).toBe(200);
    const over = stream.text();
    const ms = await outlives(session, () =>
      ask(0, 'DELETE', '/api/internal/sessions', 'inside-e2e', { subject: 'user-e2e' }),
    );
    expect(ms).toBeLessThan(1_000);
    await over;
    expect((await ask(1, 'POST', '/api/auth/validate', null, { session_token: session })).json).toMatchObject({
      valid: false,
    });
  });
});

test('without a key a server in enforce mode does not start', { timeout: 60_000 }, async () => {
  const { SVC_ENCRYPTION_KEY: _key, ...rest } = environment;
  const refused = stage.start(['server'], { ...rest, SVC_PORT: '0' });
  expect((await refused.ended).code).toBe(78);
  expect(refused.output()).toContain('SVC_ENCRYPTION_KEY');
});

test('`callboard run` brings tokens for its own parts', { timeout: 120_000 }, async () => {
  const called = stage.start(['run', 'examples/hello.yaml'], { ...environment, SVC_DATA_DIR: await stage.folder() });
  const { code } = await called.ended;
  expect([code, called.output()]).toEqual([0, expect.any(String)]);
});
