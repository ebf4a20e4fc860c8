/**
 * The law that makes a simulation worth reading: for the outcomes of a real run, it writes the log of the real run. Every
 * example is run by a server with a worker, its outcomes are taken from that log, and both logs are compared.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { startWorkerProcess } from '../../src/cli/worker-process.ts';
import type { EventRow } from '../../src/client/answers.ts';
import { CallboardClient } from '../../src/client/client.ts';
import { readConfig } from '../../src/config.ts';
import { silentLog } from '../../src/log.ts';
import { startServer } from '../../src/server.ts';
import { simulatedToWire } from '../../src/simulate/answer.ts';
import { checkStore } from '../support/invariants.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { simulated } from './simulations.ts';

const closing: (() => Promise<void>)[] = [];
let client: CallboardClient;

beforeAll(async () => {
  const database = await startTestPostgres();
  closing.push(() => database.stop());
  const folder = await mkdtemp(join(tmpdir(), 'callboard-simulate-'));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  const config = { ...readConfig({}), databaseUrl: database.url, dataDir: folder, port: 0 };
  const server = await startServer(config, { log: silentLog });
  closing.push(() => server.stop());
  const own = { ...config, worker: { ...config.worker, serverUrl: server.url } };
  const worker = await startWorkerProcess(own, silentLog);
  closing.push(() => worker.stop());
  client = new CallboardClient({ serverUrl: server.url, token: null });
  closing.push(() => client.close());
  for (const name of ['hello', 'fan-out', 'errors', 'retry', 'loop', 'nested']) await client.register(textOf(name));
});

afterAll(async () => {
  for (const close of closing.toReversed()) await close();
});

test.each([
  ['hello', { who: 'Ada' }],
  ['fan-out', {}],
  ['fan-out', { refunds: [] }],
  ['errors', { amount: 0 }],
  ['errors', { amount: 20 }],
  ['retry', { fails: 2 }],
  ['retry', { fails: 9 }],
  ['loop', { items: 6 }],
  ['nested', { people: ['Ada', 'Grace'] }],
] as const)('a simulation of %s %j writes what a server wrote', async (name, workload) => {
  const started = await client.execute({ path: `examples/${name}`, workload, wait_ms: 20_000 });
  const real = await logOf(started.execution_id);
  const children = real.flatMap((row) => row.meta?.['child_execution_id'] ?? []).map(Number);
  const [child] = await Promise.all([...new Set(children)].slice(0, 1).map(logOf));
  const outcomes = [...outcomesOf(real), ...(child === undefined ? [] : outcomesOf(child, 'examples/hello'))];
  const run = await simulated(textOf(name), { workload, outcomes }, async ({ path = '' }) => ({
    found: { content: textOf(path.slice('examples/'.length)), path, version: 1, catalogId: 900 },
  }));
  checkStore(run.store);
  // A child's own values are those of whichever child was looked at.
  const told = simulatedToWire(run);
  expect(run.status).toBe(started.execution_status);
  expect(storyOf(told.events as unknown as EventRow[], name === 'nested')).toEqual(storyOf(real, name === 'nested'));
});

function textOf(name: string): string {
  return readFileSync(new URL(`../../examples/${name}.yaml`, import.meta.url), 'utf8');
}

async function logOf(executionId: number): Promise<EventRow[]> {
  const rows: EventRow[] = [];
  for await (const row of client.eventsSince(executionId)) rows.push(row);
  return rows;
}

/** What each tool answered: the last try as it was recorded, tries before it as failures. */
function outcomesOf(rows: readonly EventRow[], path: string | null = null): JsonMap[] {
  return rows.flatMap((row) => {
    const isCall = row.event_type === 'call.done' || row.event_type === 'call.error';
    if (!isCall || row['node_type'] === 'noop' || row['node_type'] === 'playbook') return [];
    const iteration = row.meta?.['iteration_index'];
    const place = {
      step: row.node_name,
      ...(path === null ? {} : { path }),
      ...(typeof iteration === 'number' ? { iteration } : {}),
    };
    const context = isMap(row.result?.['context']) ? row.result['context'] : {};
    const failed = { ...place, error: { kind: 'unknown', code: 'EARLIER', message: 'an earlier try' } };
    const tries = triesOf(row);
    // Branches end in the order in which they were reported, which on a busy machine is not that of what they took.
    const last = { ...place, try: tries, duration_ms: tries === 1 ? row.event_id : 0 };
    const error = isMap(context['error']) ? context['error'] : null;
    return [
      error === null
        ? { ...last, result: context['data'] ?? null }
        : { ...last, result: context['data'] ?? null, error: pick(error, ['kind', 'code', 'message', 'retryable']) },
      ...(tries > 1 ? [failed] : []),
    ];
  });
}

function triesOf(row: EventRow): number {
  const tasks = row.meta?.['tasks'];
  const [record] = isMap(tasks) ? Object.values(tasks) : [];
  return isMap(record) && typeof record['attempts'] === 'number' ? record['attempts'] : 1;
}

function pick(map: JsonMap, keys: readonly string[]): JsonMap {
  return Object.fromEntries(Object.entries(map).filter(([key]) => keys.includes(key)));
}

/** Rows by node, in their order: what ran beside each other has no order between nodes. */
function storyOf(rows: readonly EventRow[], hasChildren: boolean): JsonMap {
  const story: { [node: string]: Json[] } = {};
  for (const row of rows) {
    if (row.event_type === 'command.heartbeat') continue;
    const node = String(row['node_id']);
    const context = isMap(row.result?.['context']) ? row.result['context'] : {};
    const data = hasChildren
      ? Object.keys(isMap(context['data']) ? context['data'] : {}).sort()
      : (context['data'] ?? null);
    const error = isMap(context['error']) ? pick(context['error'], ['kind', 'code', 'message']) : null;
    const values = isMap(row.context) ? (row.context['values'] ?? null) : null;
    story[node] = [...(story[node] ?? []), [row.event_type, row.status, data, error, values]];
  }
  return story;
}
