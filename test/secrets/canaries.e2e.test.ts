/**
 * Secrets of every kind are planted, used, echoed, reflected and thrown; then everything the service has said or written is
 * searched for them in all forms (api 8.2, reliability I-13, SE-01).
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import { CallboardClient } from '../../src/client/client.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMeter, type Metrics } from '../../src/metrics.ts';
import { type RunningServer, startServer } from '../../src/server.ts';
import { createTracing, type Tracing } from '../../src/telemetry/tracer.ts';
import { createTools, type Tools } from '../../src/tools/registry.ts';
import { type RunningWorker, startWorker } from '../../src/worker/main.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { type Collector, startCollector } from '../telemetry/collector.ts';
import { type Canary, leaksIn } from './forms.ts';

const canaries: Canary[] = [];
/** A secret that looks different in every encoding. */
function plant(name: string): string {
  const value = `${randomBytes(6).toString('hex')}"\\/+ &${randomBytes(10).toString('hex')}`;
  canaries.push({ name, value });
  return value;
}

const lines: string[] = [];
const hints: string[] = [];
const answers: string[] = [];
let postgres: TestPostgres;
let listener: pg.Client;
let reflector: Server;
let reflected: string;
let collector: Collector;
let server: RunningServer;
let worker: RunningWorker;
let workerTracing: Tracing;
let workerMeter: Metrics;
let tools: Tools;
let client: CallboardClient;

/** Says back all it was sent, plain and in other clothes; a token endpoint answers a token of its own. */
async function answer(request: IncomingMessage): Promise<{ status: number; body: Json }> {
  const body = await text(request);
  const url = new URL(request.url ?? '/', 'http://here');
  if (url.pathname === '/token')
    return { status: 200, body: { access_token: plant(`token ${canaries.length}`), expires_in: 3600, echo: body } };
  const said = `${JSON.stringify(request.headers)} ${body}`;
  const secrets = [
    ...Object.values(request.headers).flat(),
    body,
    (request.headers.authorization ?? '').replace(/^\S+ /, ''),
  ];
  const clothes = secrets.flatMap((secret = '') => {
    const bytes = Buffer.from(secret);
    const behind = (before: string) => Buffer.from(`${before}${secret}after`).toString('base64');
    return [
      secret,
      bytes.toString('hex'),
      behind(''),
      behind('x'),
      behind('xy'),
      encodeURIComponent(secret),
      JSON.stringify(secret),
      Buffer.from(secret, 'base64').toString(),
    ];
  });
  return { status: Number(url.searchParams.get('status') ?? 200), body: { said, clothes } };
}

beforeAll(async () => {
  collector = await startCollector();
  reflector = createServer((request, response) => {
    void answer(request).then(({ status, body }) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => reflector.listen(0, '127.0.0.1', resolve));
  // A TCP server's address is an object once it listens.
  reflected = `http://127.0.0.1:${(reflector.address() as AddressInfo).port}`;
  postgres = await startTestPostgres();
  const masterKey = randomBytes(32).toString('base64');
  canaries.push({ name: 'master key', value: masterKey });
  process.env['SVC_SECRET_TOOL_ONLY'] = plant('secret of the worker');
  const config = readConfig({
    SVC_PORT: '0',
    SVC_DATABASE_URL: postgres.url,
    SVC_ENCRYPTION_KEY: masterKey,
    SVC_SECRET_DB_PASSWORD: plant('keychain secret_manager'),
    SVC_OTLP_ENDPOINT: collector.url,
    SVC_OTLP_HEADERS: `x-key=${encodeURIComponent(plant('collector header'))}`,
    SVC_WORKER_TOKEN: plant('worker token').replaceAll(/[^0-9a-f]/g, 'x'),
  });
  const log = createLog({
    level: 'debug',
    format: 'json',
    component: 'test',
    sink: { write: (line) => lines.push(line) },
  });
  server = await startServer(config, { log });
  client = new CallboardClient({ serverUrl: server.url });
  tools = createTools({ ...config, egress: { policy: 'no-metadata', allow: [], deny: [] } });
  workerMeter = createMeter();
  workerTracing = createTracing(config, { service: 'callboard-worker', version: 'test', meter: workerMeter });
  const own = { ...config, worker: { ...config.worker, serverUrl: server.url, name: 'worker-canary' } };
  worker = await startWorker({ config: own, log, tools, meter: workerMeter, tracer: workerTracing });
  await worker.registered;
  listener = new pg.Client(postgres.url);
  listener.on('notification', ({ payload }) => hints.push(payload ?? ''));
  await listener.connect();
  await listener.query('listen callboard');
}, 30_000);

afterAll(async () => {
  delete process.env['SVC_SECRET_TOOL_ONLY'];
  await worker?.stop();
  await workerTracing?.close();
  await tools?.close();
  await client?.close();
  await server?.stop();
  await listener?.end();
  await postgres?.stop();
  reflector?.close();
  await collector?.close();
});

async function call(method: string, path: string, body?: JsonMap | string): Promise<string> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    ...(body === undefined
      ? {}
      : {
          body: typeof body === 'string' ? body : JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        }),
  });
  const said = await response.text();
  answers.push(said);
  return said;
}

/** Registers a playbook of one step and runs it to its end, whatever that is. */
async function run(path: string, tool: string, keychain = '') {
  await client.register(`apiVersion: callboard/v2
kind: Playbook
metadata: { name: ${path.replaceAll('/', '_')}, path: ${path} }
workload: { endpoint: "${reflected}" }
${keychain}
workflow:
  - step: start
    tool: ${tool}
`);
  const ended = await client.execute({ path, wait_ms: 20_000 });
  answers.push(JSON.stringify(ended));
  for (const what of ['', '/events?page_size=500&fields=all', '/commands', '/why', '/trace', '/machine', '/variables'])
    await call('GET', `/api/executions/${ended.execution_id}${what}`);
  return ended;
}

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

/** Fields of every credential type of language 12.2; the secrets among them are planted. */
function credentials(): readonly (readonly [string, JsonMap])[] {
  const { host, port, user = '', database = '' } = listener;
  canaries.push({ name: 'private key', value: pem.split('\n')[5] ?? pem });
  return [
    ['bearer', { token: plant('bearer') }],
    ['basic', { username: 'ann', password: plant('basic') }],
    ['api_key', { api_key: plant('api_key') }],
    ['oauth2', { client_id: 'id', client_secret: plant('oauth2'), token_url: `${reflected}/token` }],
    [
      'service_account',
      { type: 'service_account', client_email: 'a@b.example', private_key: pem, token_uri: `${reflected}/token` },
    ],
    ['clickhouse', { username: 'ann', password: plant('clickhouse') }],
    ['snowflake', { username: 'ann', password: plant('snowflake') }],
    ['custom', { headers: { 'X-Own': plant('custom') } }],
    ['generic', { headers: { 'X-Own': plant('generic') }, secret: plant('generic secret') }],
    ['nats', { nats_url: 'nats://127.0.0.1:1', nats_user: 'ann', nats_password: plant('nats') }],
    ['postgres', { host, port, user, database, password: plant('postgres') }],
  ];
}

const KEYCHAIN = `keychain:
  - { name: client, kind: credential, credential: cred_generic }
  - { name: token, kind: oauth2, scope: local, auto_renew: true, endpoint: "{{ workload.endpoint }}/token", data: { client_secret: "{{ keychain.client.secret }}" } }
  - { name: json, kind: http, endpoint: "{{ workload.endpoint }}/token", data: { secret: "{{ keychain.client.secret }}" } }
  - { name: fixed, kind: bearer, token: "{{ keychain.client.secret }}" }
  - { name: kept, kind: static, scope: shared, map: { password: "{{ keychain.client.secret }}" } }
  - { name: env, kind: secret_manager, provider: env, map: { password: db/password } }`;
const EVERY =
  '{{ keychain.token.access_token }}|{{ keychain.json.access_token }}|{{ keychain.fixed.access_token }}|{{ keychain.kept.password }}|{{ keychain.env.password }}';

test('SE-01 no planted secret is in a log, event, result, error, metric, trace, hint, job or row', async () => {
  const planted = credentials();
  for (const [type, data] of planted) {
    await call('POST', '/api/credentials', { name: `cred_${type}`, type, data });
    await call('GET', `/api/credentials/cred_${type}`);
  }

  // Used where they can be, and where they cannot.
  for (const [type] of planted) {
    const isHttp = !['nats', 'postgres'].includes(type);
    const reflect = `{ kind: http, url: "{{ workload.endpoint }}/reflect", method: POST, auth: cred_${type}, json: { a: 1 } }`;
    const ended = await run(`canary/http_${type}`, reflect);
    expect([type, ended.execution_status]).toEqual([type, isHttp ? 'completed' : 'failed']);
  }
  expect(
    (
      await run(
        'canary/refused',
        '{ kind: http, url: "{{ workload.endpoint }}/reflect?status=500", auth: cred_bearer }',
      )
    ).execution_status,
  ).toBe('failed');
  await run('canary/nats', '{ kind: nats, auth: cred_nats, operation: kv_get, bucket: b, key: k }');
  await run(
    'canary/env',
    `
      - { kind: shell, name: one, auth: cred_generic, command: "env | base64; env; env >&2" }
      - { kind: python, name: two, auth: cred_basic, code: "import os, sys; print(os.environ); print(os.environ['AUTH_PASSWORD'].encode().hex(), file=sys.stderr); result = dict(os.environ)" }
      - { kind: javascript, name: three, auth: cred_api_key, code: "console.log(process.env); return { all: process.env, n: encodeURIComponent(process.env.AUTH_API_KEY) }" }`,
  );
  await run(
    'canary/python_error',
    `{ kind: python, auth: cred_basic, code: "import os\\n\\ndef f(password):\\n  raise ValueError('bad ' + password)\\n\\nf(os.environ['AUTH_PASSWORD'])" }`,
  );
  await run(
    'canary/js_error',
    `{ kind: javascript, auth: cred_api_key, code: "throw new TypeError(process.env.AUTH_API_KEY + JSON.stringify(process.env.AUTH_API_KEY))" }`,
  );
  await run(
    'canary/shell_error',
    '{ kind: shell, auth: cred_basic, command: "echo \\"$AUTH_PASSWORD\\" >&2; exit 3" }',
  );
  await run(
    'canary/secrets',
    `
      - { kind: secrets, name: one, provider: env, secret_name: tool_only }
      - { kind: noop, name: two, result: "{{ _prev }}" }`,
  );
  const database = await run('canary/postgres', '{ kind: postgres, auth: cred_postgres, command: "select 1 as one" }');
  expect(database.execution_status).toBe('completed');

  // Entries of every kind, as inputs, variables, statements, addresses, child inputs and errors.
  const used = await run(
    'canary/keychain',
    `
      - { kind: http, name: one, url: "{{ workload.endpoint }}/reflect", method: POST, headers: { Authorization: "Bearer {{ keychain.token.access_token }}" }, json: { every: "${EVERY}" } }
      - { kind: noop, name: two, input: { every: "${EVERY}" }, result: "${EVERY}", set: { ctx.kept: "${EVERY}" } }
      - { kind: shell, name: three, command: "echo \\"$T\\" | base64 -w0; echo; echo \\"$T\\" >&2", env: { T: "${EVERY}" } }`,
    KEYCHAIN,
  );
  expect(used.execution_status).toBe('completed');
  await run(
    'canary/sql',
    `{ kind: postgres, auth: cred_postgres, command: "select %s::int", params: ["{{ keychain.env.password }}"] }`,
    KEYCHAIN,
  );
  await run(
    'canary/sql_text',
    '{ kind: postgres, auth: cred_postgres, command: "select cast($q${{ keychain.env.password }}$q$ as int)" }',
    KEYCHAIN,
  );
  await run(
    'canary/sql_unique',
    `{ kind: postgres, auth: cred_postgres, command: "create temp table t (a text unique); insert into t values ($1), ($1)", params: ["{{ keychain.env.password }}"] }`,
    KEYCHAIN,
  );
  await run(
    'canary/address',
    '{ kind: http, url: "http://127.0.0.1:1/{{ keychain.fixed.access_token | urlencode }}?q={{ keychain.fixed.access_token | urlencode }}" }',
    KEYCHAIN,
  );
  await run(
    'canary/child',
    '{ kind: playbook, path: canary/refused, args: { secret: "{{ keychain.env.password }}" } }',
    KEYCHAIN,
  );
  await run(
    'canary/field',
    '{ kind: http, url: "{{ keychain.env.password }}", method: "{{ keychain.env.password }}" }',
    KEYCHAIN,
  );
  await run(
    'canary/template',
    '{ kind: noop, result: "{{ keychain.env.password.nothing.there }}{{ keychain.env.password | int(base=99) }}" }',
    KEYCHAIN,
  );

  // Refused by the doors: what cannot be read or does not fit is not repeated.
  const wrong = plant('refused body');
  await call('POST', '/api/credentials', {
    name: 'odd',
    type: 'generic',
    data: { a: wrong },
    schema: { fields: { a: 'integer' }, required: ['a', 'b'] },
  });
  await call('POST', '/api/credentials', { name: wrong.replaceAll(' ', ''), type: 7, data: wrong });
  await call('POST', '/api/credentials', `{"name":"x","data":{"a":${JSON.stringify(wrong)},,}}`);
  await call('POST', '/api/keychain/1/entry', { token_data: wrong, credential_type: wrong, ttl_seconds: wrong });
  await call('POST', '/api/postgres/execute', {
    query: `select '${wrong.replaceAll(/["\\]/g, '')}'::int`,
    credential_name: 'cred_postgres',
  });

  const metrics = await call('GET', '/metrics');
  answers.push(await workerMeter.exposition());
  expect(metrics).toMatch(/^svc_credential_reveals_total [1-9]/m);
  await collector.until((spans) => spans.some(({ name }) => name === 'http.client'));
  const tables = await queryRows<{ name: string }>(
    postgres.url,
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema in ('core', 'core_jobs') and table_type = 'BASE TABLE'`,
  );
  const rows: string[] = [];
  for (const { name } of tables) {
    for (const { row } of await queryRows<{ row: string }>(
      postgres.url,
      `select row_to_json(t)::text as row from ${name} as t`,
    ))
      rows.push(row);
  }
  expect(rows.length).toBeGreaterThan(100);
  expect(hints.length).toBeGreaterThan(0);
  const sinks = { lines, hints, answers, rows, spans: collector.spans.map((span) => JSON.stringify(span)) };
  const leaks = Object.entries(sinks).flatMap(([sink, texts]) =>
    texts.flatMap((each) =>
      canaries.flatMap((canary) =>
        leaksIn(each, canary)
          .slice(0, 1)
          .map((leak) => `${sink}: ${leak} in ${each.slice(0, 100)}`),
      ),
    ),
  );
  expect(leaks).toEqual([]);
}, 60_000);
