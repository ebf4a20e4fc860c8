/** Two servers with a worker each on one database; one dies and comes back. With the bus, and without any. */
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { Stage, untilEnded } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, fanOut, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());

test.each(['postgres', 'none'])('200 runs through two servers end although one is killed, SVC_BUS=%s', async (bus) => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder(), SVC_BUS: bus };
  const left = await stage.server(environment);
  const right = await stage.server(environment);
  await stage.worker(left.url, { SVC_WORKER_NAME: 'left' });
  await stage.worker(right.url, { SVC_WORKER_NAME: 'right' });
  const flows = [chain(10), fanOut(4), loop(6, 0.01)];
  await stage.startRuns(left.url, flows);
  const through = async (url: string): Promise<number[]> => {
    const client = stage.client(url);
    const executionIds: number[] = [];
    for (let each = 0; each < 100; each += 1) {
      const path = flows[each % flows.length]?.path ?? '';
      const key = `${url}-${each}`;
      // A server that is away answers again soon; the key makes asking again safe.
      for (;;) {
        const answer = await client.execute({ path, idempotency_key: key }).catch(() => null);
        if (answer === null) continue;
        executionIds.push(answer.execution_id);
        break;
      }
      if (each === 50 && url === left.url) {
        await left.kill();
        await stage.server(environment, left.port);
      }
    }
    return executionIds;
  };
  const executionIds = (await Promise.all([through(left.url), through(right.url)])).flat();
  await untilEnded(postgres.url, executionIds, 90_000);
  const runs = await readRuns(postgres.url);
  expect(runs).toHaveLength(203);
  const expected = new Map(flows.map(({ path, result }) => [path, result]));
  for (const { row } of runs) expect([row.executionId, row.result]).toEqual([row.executionId, expected.get(row.path)]);
  expect(brokenLaws(runs)).toEqual([]);
});
