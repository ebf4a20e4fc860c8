/**
 * Networks that lose answers: between server and database (was it committed?), between worker and server (was it heard?).
 * Faults come in turns while runs are under way; then the network heals, and the log must look as if nothing had been.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { Stage, untilEnded, untilEvents } from '../support/processes.ts';
import { type Fault, type FaultyProxy, startProxy } from '../support/proxy.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { reroute } from '../support/reply-thief.ts';
import { chain, fanOut, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());
const FAULTS: readonly Fault[] = ['drop', 'reset', 'drop', 'stall', 'drop', 'halfOpen', 'drop', 'drop', 'drop'];

test('answers lost between worker and server cost time and nothing else', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const server = await stage.server({ SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() });
  const proxy = await startProxy({ port: server.port });
  stage.onEnd(() => proxy.close());
  await stage.worker(`http://127.0.0.1:${proxy.port}`);
  const flows = [chain(200), chain(200), fanOut(8), loop(50, 0.02)];
  const executionIds = await stage.startRuns(server.url, flows);
  await troubled(proxy, postgres.url, executionIds[0] ?? 0, 80);
  await untilEnded(postgres.url, executionIds, 60_000);
  const runs = await readRuns(postgres.url);
  expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
  expect(brokenLaws(runs)).toEqual([]);
  expect(proxy.swallowed).toBeGreaterThan(0);
});

test('commits whose answer is lost are neither forgotten nor done twice', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const proxy = await startProxy(reroute(postgres.url).target);
  stage.onEnd(() => proxy.close());
  const server = await stage.server({
    SVC_DATABASE_URL: reroute(postgres.url).through(proxy.port),
    SVC_DATA_DIR: await stage.folder(),
  });
  await stage.worker(server.url);
  const flows = [chain(200), chain(200), fanOut(8), loop(50, 0.02)];
  const executionIds = await stage.startRuns(server.url, flows);
  await troubled(proxy, postgres.url, executionIds[0] ?? 0, 80);
  await untilEnded(postgres.url, executionIds, 60_000);
  const runs = await readRuns(postgres.url);
  expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
  expect(brokenLaws(runs)).toEqual([]);
  expect(proxy.swallowed).toBeGreaterThan(0);
});

test('a start whose answer was lost is found again by its key', async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const proxy = await startProxy(reroute(postgres.url).target);
  stage.onEnd(() => proxy.close());
  const server = await stage.server({
    SVC_DATABASE_URL: reroute(postgres.url).through(proxy.port),
    SVC_DATA_DIR: await stage.folder(),
  });
  await stage.worker(server.url);
  const client = stage.client(server.url);
  const flow = chain(3);
  await client.register(flow.text, {});
  const executionIds = new Set<number>();
  for (let each = 0; each < 12; each += 1) {
    proxy.set('drop');
    const request = { path: flow.path, idempotency_key: `lost-${each}` };
    const first = client.execute(request);
    await pause(30 + 10 * each);
    proxy.set('pass');
    executionIds.add((await first.catch(() => client.execute(request))).execution_id);
    expect(executionIds.has((await client.execute(request)).execution_id)).toBe(true);
  }
  await untilEnded(postgres.url, [...executionIds], 30_000);
  const runs = await readRuns(postgres.url);
  expect(runs).toHaveLength(12);
  expect(brokenLaws(runs)).toEqual([]);
});

/** One fault after the other, each for a moment, with progress in between. */
async function troubled(proxy: FaultyProxy, url: string, executionId: number, everyEvents: number): Promise<void> {
  for (const [index, fault] of FAULTS.entries()) {
    await untilEvents(url, executionId, everyEvents * (index + 1), 60_000);
    proxy.set(fault);
    await pause(fault === 'drop' || fault === 'reset' ? 150 : 2_000);
    proxy.set('pass');
  }
}
