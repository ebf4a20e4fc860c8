/** The keychain as a whole: a server on PostgreSQL, workers over HTTP, and a token endpoint that counts. */
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { CallboardClient } from '../../src/client/client.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { createLog, type Log } from '../../src/log.ts';
import { type RunningServer, startServer } from '../../src/server.ts';
import { createTokenRequests } from '../../src/tools/http/token-request.ts';
import { createTools, type Tools } from '../../src/tools/registry.ts';
import { createKeychainReader } from '../../src/worker/keychain.ts';
import { type RunningWorker, startWorker } from '../../src/worker/main.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

const lines: string[] = [];
let postgres: TestPostgres;
let config: Config;
let log: Log;
let server: RunningServer;
let tools: Tools;
let worker: RunningWorker;
let client: CallboardClient;

/** What the endpoint saw and says. */
const endpoint = { hits: [] as { path: string; body: string }[], status: 200, server: null as Server | null, url: '' };
const canary = (name: string) => `canary-${name}-9f2c71`;

async function answerOf(request: IncomingMessage): Promise<{ status: number; body: Json }> {
  const body = await text(request);
  if (request.url === '/resource') {
    return { status: 200, body: { seen: request.headers.authorization ?? null, all: [body] } };
  }
  endpoint.hits.push({ path: request.url ?? '', body });
  const answer = { access_token: canary(`token${endpoint.hits.length}`), expires_in: 3600, echo: body };
  return { status: endpoint.status, body: answer };
}

beforeAll(async () => {
  const listening = createServer((request, response) => {
    void answerOf(request).then(({ status, body }) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  // A TCP server's address is an object once it listens.
  endpoint.url = `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
  endpoint.server = listening;

  postgres = await startTestPostgres();
  config = readConfig({
    SVC_PORT: '0',
    SVC_DATABASE_URL: postgres.url,
    SVC_BUS: 'none',
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    SVC_SECRET_DB_PASSWORD: canary('env'),
  });
  log = createLog({ level: 'debug', format: 'json', component: 'test', sink: { write: (line) => lines.push(line) } });
  server = await startServer(config, { log });
  client = new CallboardClient({ serverUrl: server.url });
  const egress = { policy: 'no-metadata', allow: [], deny: [] } as const;
  tools = createTools({ ...config, egress });
  const own = { ...config, worker: { ...config.worker, serverUrl: server.url, name: 'worker-e2e' } };
  worker = await startWorker({ config: own, log, tools });
  await worker.registered;
});

afterAll(async () => {
  await worker?.stop();
  await tools?.close();
  await client?.close();
  await server?.stop();
  await postgres?.stop();
  endpoint.server?.close();
});

beforeEach(() => {
  endpoint.hits.length = 0;
  endpoint.status = 200;
});

async function call(
  method: string,
  path: string,
  body?: JsonMap,
): Promise<{ status: number; json: JsonMap; text: string }> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  const answer = await response.text();
  const json: unknown = JSON.parse(answer);
  return { status: response.status, json: isMap(json) ? json : {}, text: answer };
}

async function register(path: string, keychain: string, tool: string): Promise<number> {
  const content = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: ${path.replaceAll('/', '_')}, path: ${path} }
workload: { endpoint: "${endpoint.url}" }
${keychain}
workflow:
  - step: start
    tool: ${tool}
`;
  return (await client.register(content)).catalog_id;
}

const run = (path: string, more: JsonMap = {}) => client.execute({ path, wait_ms: 15_000, ...more });
const url = (id: number, name: string, query = '') => `/api/keychain/${id}/${name}${query}`;
const until = async (done: () => Promise<boolean>) => {
  while (!(await done())) await new Promise((resolve) => setTimeout(resolve, 20));
};

test('an entry of every kind is used, and no secret is in any event, result, row or line of the log', async () => {
  await call('POST', '/api/credentials', {
    name: 'billing_client',
    type: 'oauth2',
    data: { client_secret: canary('client') },
  });
  const id = await register(
    'kc/canaries',
    `keychain:
  - { name: client, kind: credential, credential: billing_client }
  - { name: token, kind: oauth2, scope: local, auto_renew: true, endpoint: "{{ workload.endpoint }}/token", data: { client_secret: "{{ keychain.client.client_secret }}" } }
  - { name: json, kind: http, endpoint: "{{ workload.endpoint }}/token", data: { a: 1 } }
  - { name: fixed, kind: bearer, token: ${canary('bearer')} }
  - { name: env, kind: secret_manager, provider: env, map: { password: db/password } }
  - { name: lost, kind: secret_manager, provider: vault, map: { a: b } }`,
    `
      - { kind: http, name: one, url: "{{ workload.endpoint }}/resource", method: POST, headers: { Authorization: "Bearer {{ keychain.token.access_token }}" }, json: { c: "{{ keychain.client.client_secret }}" } }
      - { kind: http, name: two, url: "{{ workload.endpoint }}/resource", headers: { Authorization: "{{ keychain.fixed.access_token }}{{ keychain.env.password }}" } }
      - { kind: noop, name: three, result: "{{ keychain.json }}", set: { ctx.kept: "{{ keychain.json.access_token }}" } }
      - { kind: shell, name: four, command: "echo $T 1>&2; exit {{ workload.code }}", env: { T: "{{ keychain.env.password }}" } }`,
  );
  const well = await run('kc/canaries', { workload: { code: 0 } });
  expect(well.execution_status).toBe('completed');
  expect(endpoint.hits.map((hit) => hit.body)).toEqual([`client_secret=${canary('client')}`, '{"a":1}']);
  const badly = await run('kc/canaries', { workload: { code: 3 } });
  expect(badly).toMatchObject({ execution_status: 'failed' });
  expect(endpoint.hits).toHaveLength(3);

  const answers = await Promise.all(
    [well, badly].flatMap(({ execution_id }) => [
      call('GET', `/api/executions/${execution_id}/events?page_size=500&fields=all`),
      call('GET', `/api/executions/${execution_id}`),
      call('GET', `/api/executions/${execution_id}/status`),
    ]),
  );
  expect(answers[0]?.text).toContain('Bearer ***');
  expect(answers[3]?.text).toContain('"stderr":"***');
  const list = await call('GET', `/api/keychain/catalog/${id}`);
  const history = await call('GET', `/api/keychain/catalog/${id}/log`);
  const rows = await queryRows(
    postgres.url,
    `select row_to_json(r)::text as row from core.event as r
     union all select row_to_json(r)::text from core.command as r
     union all select row_to_json(r)::text from core.execution as r
     union all select row_to_json(r)::text from core.keychain as r
     union all select row_to_json(r)::text from core.keychain_event as r
     union all select row_to_json(r)::text from core.audit as r`,
  );
  // The playbook's text is not among these: what an author writes there in clear is there in clear.
  for (const answer of [...answers, list, history]) expect(answer.text).not.toContain('canary-');
  expect(JSON.stringify(rows).split('canary-bearer-9f2c71').join('')).not.toContain('canary-');
  expect(lines.join('')).not.toContain('canary-');
  expect(lines.join('')).toContain("secret provider 'vault' is not available in this build");
  expect((list.json['entries'] as JsonMap[]).map((entry) => entry['keychain_name'])).toEqual([
    'client',
    'env',
    'fixed',
    'json',
  ]);
});

test('a thousand readers of an expired token at two servers cause one renewal, and all of them get the new token', {
  timeout: 60_000,
}, async () => {
  const other = await startServer(config, { log });
  const second = new CallboardClient({ serverUrl: other.url });
  const id = await register('kc/thousand', '', '{ kind: noop }');
  const config_ = { endpoint: `${endpoint.url}/renew`, data: { client_secret: canary('renew') } };
  const body = {
    token_data: { access_token: 'old' },
    credential_type: 'oauth2',
    ttl_seconds: 0,
    auto_renew: true,
    renew_config: config_,
  };
  await call('POST', url(id, 'token'), body);
  const requests = createTokenRequests({ policy: 'no-metadata', allow: [], deny: [] });
  const workers = Array.from({ length: 20 }, (_, index) =>
    createKeychainReader({
      client: index % 2 === 0 ? client : second,
      requests,
      log,
      workerId: `worker-${index}`,
      now: Date.now,
    }),
  );
  const request = {
    catalogId: id,
    name: 'token',
    scope: 'global',
    executionId: 1,
    step: 's',
    signal: AbortSignal.timeout(60_000),
  } as const;
  const values = await Promise.all(
    workers.flatMap((reader) => Array.from({ length: 50 }, () => reader.resolve(request))),
  );
  await requests.close();
  await second.close();
  await other.stop();
  expect(new Set(values.map((value) => (value.available ? value.data['access_token'] : value.reason)))).toEqual(
    new Set([canary('token1')]),
  );
  expect(endpoint.hits).toEqual([{ path: '/renew', body: `client_secret=${canary('renew')}` }]);
  const history = await call('GET', `/api/keychain/catalog/${id}/log`);
  expect((history.json['events'] as JsonMap[]).map((event) => event['event_type'])).toEqual([
    'entry.stored',
    'entry.renewed',
  ]);
});

test('64 reads at the same time count 64', async () => {
  const id = await register('kc/count', '', '{ kind: noop }');
  await call('POST', url(id, 'token'), { token_data: { access_token: 't' }, credential_type: 'bearer' });
  const reads = await Promise.all(Array.from({ length: 64 }, () => call('GET', url(id, 'token'))));
  const counts = reads.map((read) => Number(read.json['access_count'])).sort((a, b) => a - b);
  expect(counts).toEqual(Array.from({ length: 64 }, (_, index) => index + 1));
});

test('an expired entry whose endpoint answers 500 fails the step, once, with the line an operator looks for', async () => {
  const id = await register(
    'kc/broken',
    '',
    '{ kind: http, url: "{{ workload.endpoint }}/resource", headers: { A: "{{ keychain.token.access_token | default(\'x\') }}" } }',
  );
  await call('POST', url(id, 'token'), {
    token_data: { access_token: 'old' },
    credential_type: 'oauth2',
    ttl_seconds: 0,
    auto_renew: true,
    renew_config: { endpoint: `${endpoint.url}/renew` },
  });
  endpoint.status = 500;
  const done = await run('kc/broken');
  expect(done).toMatchObject({ execution_status: 'failed' });
  expect(done.error).toContain("keychain entry 'token' is not available (renewal_failed)");
  expect(endpoint.hits.filter((hit) => hit.path === '/renew')).toHaveLength(1);
  const line = lines
    .map((each): JsonMap => JSON.parse(each))
    .find((each) => each['msg'] === "KEYCHAIN: Failed to renew 'token'");
  expect(line).toMatchObject({
    level: 'warn',
    keychain_name: 'token',
    scope_type: 'global',
    execution_id: done.execution_id,
    step: 'start',
    reason: 'the token endpoint answered HTTP 500',
  });
  const events = await call('GET', `/api/executions/${done.execution_id}/events?page_size=100`);
  expect(events.text).toContain('missing_reference');
});

describe('who reads an entry', () => {
  type Who = 'self' | 'child' | 'grandchild' | 'sibling' | 'parent' | 'stranger';
  const WHO: readonly Who[] = ['self', 'child', 'grandchild', 'sibling', 'parent', 'stranger'];
  let id: number;
  let ids: Readonly<Record<Who, number>>;

  beforeAll(async () => {
    id = await register('kc/matrix', '', '{ kind: noop }');
    // Nobody serves this pool: the executions run until they are cancelled.
    const start = async (parent?: number) => {
      const more = parent === undefined ? {} : { parent_execution_id: parent };
      return (await client.execute({ path: 'kc/matrix', execution_pool: 'nobody', ...more })).execution_id;
    };
    const parent = await start();
    const self = await start(parent);
    const child = await start(self);
    ids = {
      parent,
      self,
      child,
      grandchild: await start(child),
      sibling: await start(parent),
      stranger: await start(),
    };
    for (const scope of ['local', 'global', 'shared']) {
      const body = {
        token_data: { access_token: 't' },
        credential_type: 'bearer',
        scope_type: scope,
        execution_id: self,
      };
      expect((await call('POST', url(id, 'token'), body)).status).toBe(200);
    }
  });

  const seen = async (scope: string) => {
    const statuses = await Promise.all(
      WHO.map(
        async (who) =>
          (await call('GET', url(id, 'token', `?scope_type=${scope}&execution_id=${ids[who]}`))).json['status'],
      ),
    );
    return WHO.filter((_who, index) => statuses[index] === 'success');
  };

  it.each([
    ['local', ['self']],
    ['shared', ['self', 'child', 'grandchild', 'sibling', 'parent']],
    ['global', WHO],
  ] as const)('SE-08 of scope %s while it lives: %j', async (scope, who) => {
    expect(await seen(scope)).toEqual(who);
  });

  it('SE-08 changes with the end of the owner, of others, and of the root', async () => {
    const cancel = (who: Who) => client.cancel(ids[who], { cascade: false });
    await cancel('sibling');
    expect([await seen('local'), await seen('shared')]).toEqual([
      ['self'],
      ['self', 'child', 'grandchild', 'sibling', 'parent'],
    ]);
    await cancel('self');
    expect([await seen('local'), (await seen('shared')).length]).toEqual([[], 5]);
    await cancel('parent');
    expect([await seen('local'), await seen('shared'), await seen('global')]).toEqual([[], [], WHO]);
    const late = { token_data: {}, credential_type: 'bearer', scope_type: 'local', execution_id: ids.self };
    expect(await call('POST', url(id, 'token'), late)).toMatchObject({
      status: 422,
      json: { code: 'validation_error' },
    });
    await Promise.all([cancel('child'), cancel('grandchild'), cancel('stranger')]);
  });
});

test('local entries of a run go with its end, however it ends', async () => {
  const keychain =
    'keychain: [{ name: own, kind: static, scope: local, map: { a: 1 } }, { name: tree, kind: static, scope: shared, map: { a: 1 } }]';
  const id = await register('kc/ends', keychain, '{ kind: noop, result: "{{ keychain.own.a + keychain.tree.a }}" }');
  const done = await run('kc/ends');
  expect(done).toMatchObject({ execution_status: 'completed', result: 2 });
  await until(async () => (await call('GET', `/api/keychain/catalog/${id}`)).json['count'] === 0);
  const history = await call('GET', `/api/keychain/catalog/${id}/log`);
  const reasons = (history.json['events'] as JsonMap[]).flatMap(
    (event) => (event['context'] as JsonMap)['reason'] ?? [],
  );
  expect(reasons.sort()).toEqual(['execution_ended', 'root_ended']);
});
