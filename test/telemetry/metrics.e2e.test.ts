/** What a server says at /metrics and /api/health (api 7.1, 2.1) while it works, drains, and loses its database. */
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { CallboardClient } from '../../src/client/client.ts';
import { readConfig } from '../../src/config.ts';
import { silentLog } from '../../src/log.ts';
import { METRICS } from '../../src/metrics-table.ts';
import { type RunningServer, startServer } from '../../src/server.ts';
import { createTools, type Tools } from '../../src/tools/registry.ts';
import { type RunningWorker, startWorker } from '../../src/worker/main.ts';
import { startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { type FaultyProxy, startProxy } from '../support/proxy.ts';

let postgres: TestPostgres;
let proxy: FaultyProxy;
let server: RunningServer;
let tools: Tools;
let worker: RunningWorker;
let client: CallboardClient;

beforeAll(async () => {
  postgres = await startTestPostgres();
  const { host, port, user = '', database = '' } = new pg.Client(postgres.url);
  proxy = await startProxy(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { port });
  const config = readConfig({
    SVC_PORT: '0',
    SVC_DATABASE_URL: `postgres://${encodeURIComponent(user)}@127.0.0.1:${proxy.port}/${database}`,
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
  });
  server = await startServer(config, { log: silentLog });
  client = new CallboardClient({ serverUrl: server.url });
  tools = createTools({ ...config, egress: { policy: 'no-metadata', allow: [], deny: [] } });
  const own = { ...config, worker: { ...config.worker, serverUrl: server.url, name: 'worker-metrics' } };
  worker = await startWorker({ config: own, log: silentLog, tools });
  await worker.registered;
  await client.register(`apiVersion: callboard/v2
kind: Playbook
metadata: { name: measured, path: measured/run }
workflow:
  - step: start
    tool: { kind: noop, auth: measured }
`);
  await call('POST', '/api/credentials', { name: 'measured', type: 'generic', data: { a: 'b' } });
  // Nobody serves this pool.
  await client.execute({ path: 'measured/run', execution_pool: 'waiting' });
}, 30_000);

afterAll(async () => {
  proxy?.set('pass');
  await worker?.stop();
  await tools?.close();
  await client?.close();
  await server?.stop();
  await proxy?.close();
  await postgres?.stop();
});

async function call(method: string, path: string, body?: JsonMap): Promise<{ status: number; json: JsonMap }> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  // Every answer of the API is a JSON object.
  return { status: response.status, json: (await response.json()) as JsonMap };
}

const scrape = async () => (await fetch(`${server.url}/metrics`)).text();
/** Samples by name and labels. */
async function samples(): Promise<ReadonlyMap<string, number>> {
  const lines = (await scrape()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

async function untilHealth(status: string): Promise<{ status: number; json: JsonMap }> {
  for (const until = performance.now() + 15_000; ; await pause(25)) {
    const health = await call('GET', '/api/health');
    if (health.json['status'] === status) return health;
    if (performance.now() > until) throw new Error(`health is ${JSON.stringify(health)}`);
  }
}

test('every metric of the table is shown with its help and type, and nothing is counted that is not declared', async () => {
  const text = await scrape();
  const types = { counter: 'counter', gauge: 'gauge', histogram: 'histogram', summary: 'summary' };
  for (const [name, { type }] of Object.entries(METRICS)) expect(text).toContain(`# TYPE ${name} ${types[type]}\n`);
  expect(text).toContain('process_resident_memory_bytes');
  expect(text).toContain('nodejs_eventloop_lag_seconds');
});

test('what is open is read when somebody asks, and at most once in five seconds', async () => {
  const first = await samples();
  expect(first.get('svc_commands_open{status="PENDING",pool="waiting"}')).toBe(1);
  expect(first.get('svc_commands_open{status="RUNNING",pool="waiting"}')).toBe(0);
  expect(first.get('svc_commands_oldest_pending_seconds{pool="waiting"}')).toBeGreaterThanOrEqual(0);
  expect(first.get('svc_executions_running')).toBe(1);
  expect(first.get('svc_workers{status="ready"}')).toBe(1);
  expect([...first].filter(([name]) => name.startsWith('svc_crypto_rows{')).map(([, count]) => count)).toEqual([1]);
  await client.execute({ path: 'measured/run', execution_pool: 'waiting' });
  expect((await samples()).get('svc_executions_running')).toBe(1);
});

test('a run and a batch move the figures that are about them', async () => {
  const before = await samples();
  const ended = await client.execute({ path: 'measured/run', wait_ms: 15_000 });
  expect(ended.execution_status).toBe('completed');
  const stuck = await client.execute({ path: 'measured/run', execution_pool: 'nobody' });
  const batch = { execution_id: stuck.execution_id, events: [{ event_type: 'step.note', step: 'start', payload: {} }] };
  expect((await call('POST', '/api/events/batch', batch)).status).toBe(202);
  const found = await call('GET', `/api/executions/${stuck.execution_id}/commands`);
  const claim = `/api/commands/${JSON.stringify(found.json).match(/"command_id":(\d+)/)?.[1]}/claim`;
  for (const [worker_id, status] of [
    ['one', 200],
    ['one', 200],
    ['two', 409],
  ] as const)
    expect((await call('POST', claim, { worker_id })).status).toBe(status);
  const after = await samples();
  const moved = (name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
  expect(moved('svc_executions_started_total{kind="playbook"}')).toBe(2);
  expect(moved('svc_executions_ended_total{status="completed"}')).toBe(1);
  expect(moved('svc_execution_seconds_count{status="completed"}')).toBe(1);
  expect(moved('svc_step_dispatch_seconds_count')).toBe(2);
  expect(moved('svc_command_seconds_count{tool_kind="noop",status="COMPLETED"}')).toBe(1);
  for (const type of ['command.issued', 'execution.started'])
    expect(moved(`svc_events_appended_total{type="${type}"}`)).toBe(2);
  expect(moved('svc_events_appended_total{type="playbook.completed"}')).toBe(1);
  expect(moved('svc_claims_total{decision="grant",reason="pending"}')).toBe(2);
  expect(moved('svc_claims_total{decision="grant",reason="same_worker"}')).toBe(1);
  expect(moved('svc_claims_total{decision="refuse",reason="lease_active"}')).toBe(1);
  for (const name of ['svc_turn_seconds', 'svc_flush_seconds', 'svc_flush_turns', 'svc_claim_seconds'])
    expect(moved(`${name}_count`)).toBeGreaterThan(0);
  expect(moved('svc_hydrations_total{from="memory"}')).toBeGreaterThan(0);
  expect(moved('svc_credential_reveals_total')).toBe(1);
  expect(moved('svc_batch_accepted_total')).toBe(1);
  expect(moved('svc_batch_enqueue_latency_seconds_count')).toBe(1);
  expect(moved('svc_events_appended_total{type="batch.accepted"}')).toBe(1);
  expect(moved('svc_events_appended_total{type="other"}')).toBe(1);
  expect(moved('svc_db_checkout_seconds_count')).toBeGreaterThan(0);
  expect(moved('svc_http_requests_total{method="POST",route="/api/execute",code="200"}')).toBe(2);
  expect(after.get('svc_up')).toBe(1);
  expect([...after].find(([name]) => name.startsWith('svc_info{'))?.[0]).toMatch(
    /version="\d.*schema_version="\d+",engine_version="\d+"/,
  );
  expect(after.get('svc_process_start_time_seconds')).toBeGreaterThan(1_700_000_000);
  expect(after.get('svc_db_pool{state="total"}')).toBeGreaterThan(0);
  expect(after.get('svc_metrics_undeclared_total')).toBe(0);
  await client.cancel(stuck.execution_id, {});
});

test('a healthy server says so, part by part', async () => {
  const health = await untilHealth('ok');
  expect(health).toMatchObject({ status: 200, json: { database: 'ok', jobs: 'ok' } });
});

test('a draining server is not ready but lives, and comes back', async () => {
  await call('POST', '/api/admin/drain', { draining: true });
  expect(await call('GET', '/api/health')).toMatchObject({ status: 503, json: { status: 'draining', database: 'ok' } });
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
  await call('POST', '/api/admin/drain', { draining: false });
  expect(await call('GET', '/api/health')).toMatchObject({ status: 200, json: { status: 'ok' } });
});

test('without its database a server is not ready, says why, still shows metrics, and heals', async () => {
  const before = await samples();
  proxy.set('reset');
  const down = await untilHealth('degraded');
  expect(down).toMatchObject({ status: 503, json: { database: 'down' } });
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
  for (
    const until = performance.now() + 15_000;
    (await call('GET', '/api/health')).json['bus'] === 'ok';
    await pause(25)
  )
    expect(performance.now()).toBeLessThan(until);
  const during = await samples();
  expect(during.get('svc_bus_state{state="ok"}')).toBe(0);
  expect(during.get('svc_db_errors_total{sqlstate_class="lost"}') ?? 0).toBeGreaterThan(
    before.get('svc_db_errors_total{sqlstate_class="lost"}') ?? 0,
  );
  proxy.set('pass');
  await untilHealth('ok');
}, 40_000);
