/** The database dies under a server with work: callers hear 503, what was acknowledged is there, everything ends by itself. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { closeCluster, openCluster } from '../../src/embedded/cluster.ts';
import { brokenLaws } from '../support/log-laws.ts';
import { quiet } from '../support/postgres.ts';
import { Stage, untilEnded, untilEvents } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());

test('a killed PostgreSQL means 503 with Retry-After until it is back, and no acknowledged start is lost', {
  timeout: 90_000,
}, async () => {
  const data = await stage.folder();
  const cluster = await openCluster(data, quiet);
  const server = await stage.server({ SVC_DATABASE_URL: cluster.url, SVC_DATA_DIR: data });
  await stage.worker(server.url);
  const flows = [chain(200), loop(50, 0.02)];
  const executionIds = await stage.startRuns(server.url, flows);
  const [chained = 0] = executionIds;
  await stage.client(server.url).register(chain(3).text, {});

  // A caller that starts runs all the time and writes down what it was told.
  const acknowledged = new Map<string, number>();
  const refusals: { status: number; retryAfter: string | null; code: unknown }[] = [];
  let isOver = false;
  const caller = (async () => {
    for (let each = 0; !isOver; each += 1) {
      const key = `run-${each}`;
      const answer = await fetch(`${server.url}/api/execute`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key },
        body: JSON.stringify({ path: chain(3).path }),
      });
      // Both answers are objects (api 1.7, 2.3.1).
      const body = (await answer.json()) as { execution_id: number; code?: string };
      if (answer.ok) acknowledged.set(key, body.execution_id);
      else
        refusals.push({
          status: answer.status,
          retryAfter: answer.headers.get('retry-after'),
          code: body.code,
        });
      await pause(20);
    }
  })();

  for (const events of [100, 600]) {
    await untilEvents(cluster.url, chained, events);
    const refused = refusals.length;
    process.kill((await openCluster(data, quiet)).pid, 'SIGKILL');
    while (refusals.length < refused + 3) await pause(10);
    while (!(await reopened(data))) await pause(100);
  }
  await untilEnded(cluster.url, executionIds);
  isOver = true;
  await caller;
  await untilEnded(cluster.url, [...acknowledged.values()]);

  expect(refusals.filter(({ status, retryAfter }) => status !== 503 || retryAfter === null)).toEqual([]);
  const runs = await readRuns(cluster.url);
  expect(brokenLaws(runs)).toEqual([]);
  const byKey = new Map(runs.map(({ row }) => [row.idempotencyKey, row]));
  for (const [key, executionId] of acknowledged) {
    expect(byKey.get(key)).toMatchObject({ executionId, result: chain(3).result });
  }
  expect(runs.filter(({ row }) => executionIds.includes(row.executionId)).map(({ row }) => row.result)).toEqual(
    flows.map(({ result }) => result),
  );
  await closeCluster(data);
});

/** Children of a killed postmaster may need a moment to let go of the shared memory. */
async function reopened(data: string): Promise<boolean> {
  return openCluster(data, quiet).then(
    () => true,
    () => false,
  );
}
