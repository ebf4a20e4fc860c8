/**
 * What the language costs: a parallel loop of many noops (iterations/s and memory of the server), a fan-out of a hundred
 * branches with a reduce, and a payload that goes through five steps. The loop is measured at several sizes: when the
 * rate falls with the size, something grows with the square.
 *
 *   node bench/language.ts [iterations=1000,10000] [branches=100] [payload KB=160] [rounds=5]
 */
import { readFileSync } from 'node:fs';
import { startStack } from './stack.ts';

const [sizes = '1000,10000', branches = '100', kilobytes = '160', rounds = '5'] = process.argv.slice(2);

const stack = await startStack({ workers: 1, concurrency: 16 });
try {
  for (const size of sizes.split(',').map(Number)) {
    const path = await register(`loop-${size}`, [
      `- step: start
    loop: { in: ${size}, iterator: n, spec: { mode: parallel, max_in_flight: 256 } }
    tool: { kind: noop, result: "{{ n }}" }
    next: { arcs: [{ step: after }] }`,
      `- { step: after, tool: { kind: noop, result: "{{ start.stats.success }}" } }`,
    ]);
    const before = rss();
    const { ms, result } = await run(path);
    if (result !== size) throw new Error(`the loop gave ${JSON.stringify(result)}`);
    const rate = Math.round((size * 1000) / ms);
    console.log(
      `loop of ${size}: ${Math.round(ms)} ms, ${rate} iterations/s, server ${before} MB before, ${rss()} after`,
    );
  }
  const names = Array.from({ length: Number(branches) }, (_, index) => `b${index}`);
  const fanOut = await register('fan-out', [
    `- { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [${names.map((name) => `{ step: ${name} }`).join(', ')}] } }`,
    ...names.map(
      (name, index) =>
        `- { step: ${name}, tool: { kind: noop, result: ${index} }, next: { arcs: [{ step: reduce }] } }`,
    ),
    `- { step: reduce, tool: { kind: noop, result: "{{ [${names.join(', ')}] | sum }}" } }`,
  ]);
  await report(`fan-out of ${branches} and reduce`, fanOut);
  const pass = (from: string) => `{ kind: noop, result: "{{ ${from} }}" }`;
  const payload = await register('payload', [
    `- { step: s1, tool: ${pass('workload.payload')}, next: { arcs: [{ step: s2 }] } }`,
    ...[2, 3, 4].map(
      (step) => `- { step: s${step}, tool: ${pass(`s${step - 1}.data`)}, next: { arcs: [{ step: s${step + 1} }] } }`,
    ),
    `- { step: s5, tool: { kind: noop, result: "{{ s4.rows | length }}" } }`,
  ]);
  const rows = Array.from({ length: Math.ceil((Number(kilobytes) * 1024) / 112) }, (_, id) => ({
    id,
    text: 'x'.repeat(86),
  }));
  await report(`${kilobytes} KB through five steps`, payload, { payload: { rows } });
} finally {
  await stack.stop();
}

async function report(what: string, path: string, workload: object = {}): Promise<void> {
  await run(path, workload);
  const times: number[] = [];
  for (let round = 0; round < Number(rounds); round += 1) times.push((await run(path, workload)).ms);
  times.sort((a, b) => a - b);
  const median = times[Math.floor(times.length / 2)] ?? 0;
  console.log(`${what}: ${Math.round(median)} ms (median of ${times.length}, ${Math.round(times[0] ?? 0)} at best)`);
}

async function run(path: string, workload: object = {}): Promise<{ readonly ms: number; readonly result: unknown }> {
  const started = performance.now();
  const { execution_id: id } = await send('POST', '/api/execute', { path, workload });
  for (;;) {
    const seen = await send('GET', `/api/executions/${id}/status?wait_ms=20000`);
    if (seen['status'] === 'running') continue;
    const ms = performance.now() - started;
    const { status, result, error } = await send('GET', `/api/executions/${id}`);
    if (status !== 'completed') throw new Error(`${path} ended as ${status}: ${error}`);
    return { ms, result };
  }
}

async function register(name: string, steps: readonly string[]): Promise<string> {
  const path = `bench/${name}`;
  const head = `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: ${name}, path: ${path} }\nworkflow:\n`;
  const content = head + steps.map((step) => `  ${step}\n`).join('');
  await send('POST', '/api/catalog/register', { content });
  return path;
}

/** Megabytes; 0 where the system does not tell. */
function rss(): number {
  try {
    const status = readFileSync(`/proc/${stack.server.pid}/status`, 'utf8');
    return Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1024);
  } catch {
    return 0;
  }
}

async function send(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
  const answer = await fetch(stack.url + path, {
    method,
    ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 300)}`);
  // Every answer of the API is a JSON object.
  return JSON.parse(text) as Record<string, unknown>;
}
