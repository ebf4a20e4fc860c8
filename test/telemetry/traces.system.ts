/** One trace through a server, a worker and a service they call (api 7.3), seen by a collector. */
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestPostgres, type TestPostgres } from '../support/postgres.ts';
import { freePort, type ServerProcess, type ServiceProcess, Stage } from '../support/processes.ts';
import { type Collected, type Collector, startCollector } from './collector.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER_SPAN = '00f067aa0ba902b7';
const stage = new Stage();
const seen: (string | undefined)[] = [];
const states: (string | undefined)[] = [];
let postgres: TestPostgres;
let collector: Collector;
let server: ServerProcess;
let worker: ServiceProcess;
let metricsPort: number;
let target: string;

beforeAll(async () => {
  collector = await startCollector();
  stage.onEnd(() => collector.close());
  const service = createServer((request, response) => {
    seen.push(request.headers['traceparent']?.toString());
    states.push(request.headers['tracestate']?.toString());
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  stage.onEnd(async () => {
    service.closeAllConnections();
    service.close();
  });
  // A TCP server's address is an object once it listens.
  target = `http://127.0.0.1:${(service.address() as AddressInfo).port}/greet?token=secret-query`;
  postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const traced = { SVC_OTLP_ENDPOINT: collector.url, SVC_OTLP_HEADERS: 'x-tenant=t1' };
  server = await stage.server({
    ...traced,
    SVC_DATABASE_URL: postgres.url,
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
  });
  metricsPort = await freePort();
  worker = await stage.worker(server.url, { ...traced, SVC_WORKER_METRICS_PORT: String(metricsPort) });
  const client = stage.client(server.url);
  await client.register(`apiVersion: callboard/v2
kind: Playbook
metadata: { name: child, path: traced/child }
workflow:
  - step: start
    tool: { kind: noop, result: done }
`);
  await client.register(`apiVersion: callboard/v2
kind: Playbook
metadata: { name: tree, path: traced/tree }
workload: { target: "" }
workflow:
  - step: start
    tool: { kind: http, url: "{{ workload.target }}" }
    next: { arcs: [{ step: below }] }
  - step: below
    tool: { kind: playbook, path: traced/child }
`);
}, 60_000);

afterAll(() => stage.close());

async function start(
  headers: Record<string, string> = {},
): Promise<{ execution_id: number; execution_status: string }> {
  const response = await fetch(`${server.url}/api/execute`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ path: 'traced/tree', workload: { target }, wait_ms: 20_000 }),
  });
  // The shape of a start's answer is proven by the contract tests.
  return (await response.json()) as { execution_id: number; execution_status: string };
}

const named = (spans: readonly Collected[], name: string) => spans.filter((span) => span.name === name);
const below = (spans: readonly Collected[], parent: Collected | undefined) =>
  spans.filter((span) => span.parentSpanId === parent?.spanId);

test('execution, step, command and tool of a tree are one trace across processes, below the caller', async () => {
  const run = await start({ traceparent: `00-${TRACE}-${CALLER_SPAN}-01` });
  expect(run.execution_status).toBe('completed');
  const own = () => collector.spans.filter((span) => span.traceId === TRACE);
  await collector.until(
    () =>
      named(own(), 'execution traced/tree').length === 1 &&
      named(own(), 'tool noop').length === 1 &&
      named(own(), 'http.client').length === 1 &&
      named(own(), 'tool playbook').length === 1 &&
      named(own(), 'http.server /api/execute').length === 2,
  );

  const [root] = named(own(), 'execution traced/tree');
  expect(root).toMatchObject({ parentSpanId: CALLER_SPAN, service: 'callboard-server', status: { code: 0 } });
  const asked = named(own(), 'http.server /api/execute').find(({ parentSpanId }) => parentSpanId === CALLER_SPAN);
  expect(asked).toMatchObject({ kind: 2, status: { code: 0 } });
  const [http] = named(own(), 'command start').filter((span) => span.parentSpanId === root?.spanId);
  expect(http?.events.map(({ name }) => name)).toEqual(['claimed', 'started']);
  const [tool] = below(own(), http);
  expect(tool).toMatchObject({ name: 'tool http', service: 'callboard-worker' });
  const [request] = below(own(), tool);
  expect(request).toMatchObject({ name: 'http.client', kind: 3 });
  expect(seen[0]).toBe(`00-${TRACE}-${request?.spanId}-01`);

  const [parked] = named(own(), 'command below');
  const [starting] = below(own(), parked);
  expect(starting).toMatchObject({ name: 'tool playbook', service: 'callboard-worker' });
  const child = named(own(), 'execution traced/child')[0];
  expect(child?.parentSpanId).toBe(starting?.spanId);
  expect(
    below(
      own(),
      below(own(), child).find(({ name }) => name === 'command start'),
    ),
  ).toMatchObject([{ name: 'tool noop' }]);
  expect(below(own(), root).map(({ name }) => name)).toEqual(expect.arrayContaining(['turn', 'flush']));
  expect(below(own(), named(own(), 'flush')[0]).map(({ name }) => name)).toEqual(['db.tx']);
});

test('commands and events carry the trace they belong to, and a header that is none is ignored', async () => {
  const run = await start({ traceparent: 'password=hunter2' });
  const events = await (await fetch(`${server.url}/api/events/${run.execution_id}`)).text();
  expect(events).not.toContain('hunter2');
  expect(seen.at(-1)).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
});

test('what other tracers say of the trace goes with commands, requests and children', async () => {
  const run = await start({ traceparent: `00-${'c'.repeat(32)}-${CALLER_SPAN}-00`, tracestate: 'rojo=1, congo=t61' });
  expect(states.at(-1)).toBe('rojo=1,congo=t61');
  // The shapes of lists are proven by the contract tests.
  const get = async (path: string) => (await (await fetch(`${server.url}${path}`)).json()) as never;
  const children = (await get(`/api/executions?parent_execution_id=${run.execution_id}`)) as { execution_id: number }[];
  const { events } = (await get(`/api/events/${children[0]?.execution_id}`)) as { events: { meta: object }[] };
  expect(events[0]?.meta).toMatchObject({
    trace: expect.stringContaining('c'.repeat(32)),
    tracestate: 'rojo=1,congo=t61',
  });
});

test('a run nobody brought a trace for is the root of one that all processes agree on', async () => {
  const before = collector.spans.length;
  await start();
  const fresh = () => collector.spans.slice(before);
  // Spans of a run before it may still come in between; they are whole only with what was sent earlier.
  const whole = () =>
    named(fresh(), 'execution traced/tree').filter(({ traceId }) =>
      named(fresh(), 'tool http').some((span) => span.traceId === traceId),
    );
  await collector.until(() => whole().length > 0);
  const [root] = whole();
  expect(root).not.toHaveProperty('parentSpanId');
  expect(root?.traceId).not.toBe(TRACE);
});

test('a caller that does not want to be traced is not', async () => {
  const quiet = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
  await start({ traceparent: `00-${quiet}-${CALLER_SPAN}-00` });
  const before = collector.spans.length;
  await start();
  await collector.until((spans) => named(spans.slice(before), 'execution traced/tree').length > 0);
  expect(collector.spans.filter(({ traceId }) => traceId === quiet)).toEqual([]);
  expect(seen.some((header) => header?.startsWith(`00-${quiet}-`) && header.endsWith('-00'))).toBe(true);
});

test('spans say ids, names and statuses, never a value', () => {
  const text = JSON.stringify(collector.spans);
  expect(text).not.toContain('secret-query');
  expect(collector.requests.every(({ headers }) => headers['x-tenant'] === 't1')).toBe(true);
  const keys = new Set(collector.spans.flatMap(({ attributes }) => attributes.map(({ key }) => key)));
  expect([...keys].filter((key) => !/^(callboard\.|http\.|server\.address|db\.system\.name)/.test(key))).toEqual([]);
});

test('a worker process shows its own metrics on its port', async () => {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  expect(text).toMatch(/^svc_worker_slots\{state="free"\} 8$/m);
  expect(text).toMatch(/^svc_tool_seconds_count\{kind="http",outcome="ok"\} [1-9]/m);
  expect(text).toContain('process_cpu_seconds_total');
  expect((await fetch(`http://127.0.0.1:${metricsPort}/other`)).status).toBe(404);
});

test('a worker and a server that are asked to stop send what is left', async () => {
  const { execution_id: own } = await start();
  expect(await worker.stop()).toMatchObject({ code: 0 });
  expect(await server.stop()).toMatchObject({ code: 0 });
  const last = collector.spans.filter(({ attributes }) =>
    attributes.some(({ key, value }) => key === 'callboard.execution_id' && value['intValue'] === String(own)),
  );
  expect(named(last, 'execution traced/tree')).toHaveLength(1);
  expect(named(last, 'tool http')).toHaveLength(1);
});
