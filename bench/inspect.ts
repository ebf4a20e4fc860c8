/**
 * Looking at a long execution while nothing else happens: one of 4,000 iterations, some 20,000 events. First looks are
 * cold (the server was just started), the rest are as a viewer with a scrubber makes them. Each figure is also told as a
 * multiple of reading one row of the same server, from the same run. `node bench/inspect.ts`
 */
import { Pool } from 'undici';
import { createLoad, quantile } from './load.ts';
import { startStack } from './stack.ts';

const ITEMS = Number(process.env['BENCH_ITEMS'] ?? 4000);
const LOOKS = 200;

const PLAYBOOK = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: wide, path: bench/wide }
workload: { items: ${ITEMS} }
workflow:
  - step: start
    loop: { in: "{{ range(workload['items']) }}", iterator: n, mode: parallel, max_in_flight: 200 }
    tool: { kind: noop, result: "{{ n }}" }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop }
`;

const stack = await startStack({ workers: 1, concurrency: 128 });
const load = createLoad(stack.url);
const pool = new Pool(stack.url, { connections: 8, pipelining: 1 });
try {
  await load.register(PLAYBOOK);
  await load.run('bench/wide');
  const [row] = await get<{ execution_id: number; last_event_id: number }[]>('/api/executions');
  if (row === undefined) throw new Error('an execution was run');
  const { execution_id: id, last_event_id: last } = row;
  console.log(`an execution of ${last} events`);

  const floor = await measure(
    'one row: GET /api/executions/{id}/cancellation-check',
    () => `/api/executions/${id}/cancellation-check`,
  );
  const cold = performance.now();
  await get(`/api/executions/${id}/machine?at=${Math.floor(last * 0.9)}`);
  console.log(`${'first look into the past, cold'.padEnd(60)} ${(performance.now() - cold).toFixed(1)} ms`);
  const drawn = performance.now();
  await get(`/api/catalog/bench/wide/graph?execution_id=${id}`);
  console.log(`${'first drawing, cold'.padEnd(60)} ${(performance.now() - drawn).toFixed(1)} ms`);
  await measure('the present', () => `/api/executions/${id}/machine`, floor);
  await measure('any moment of the past', (n) => `/api/executions/${id}/machine?at=${1 + ((n * 7919) % last)}`, floor);
  await measure(
    'a page of 500 frames, anywhere',
    (n) => `/api/executions/${id}/trace?after=${(n * 7919) % last}&limit=500`,
    floor,
  );
  await measure('the drawing', () => `/api/catalog/bench/wide/graph?execution_id=${id}`, floor);
} finally {
  await pool.close();
  await load.close();
  await stack.stop();
}

interface Times {
  readonly p50: number;
  readonly p99: number;
}

async function measure(name: string, path: (n: number) => string, floor: Times | null = null): Promise<Times> {
  const times: number[] = [];
  for (let n = 0; n < LOOKS; n += 1) {
    const start = performance.now();
    await get(path(n));
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  const p50 = quantile(times, 0.5);
  const p99 = quantile(times, 0.99);
  const ratio =
    floor === null ? '' : `   ${(p50 / floor.p50).toFixed(1)} × and ${(p99 / floor.p99).toFixed(1)} × one row`;
  console.log(`${name.padEnd(60)} p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms${ratio}`);
  return { p50, p99 };
}

async function get<T>(path: string): Promise<T> {
  const answer = await pool.request({ method: 'GET', path });
  const body: unknown = await answer.body.json();
  if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode} ${JSON.stringify(body)}`);
  // The caller names the answer of the address it asks.
  return body as T;
}
