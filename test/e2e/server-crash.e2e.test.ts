/** The server dies in the middle of runs and comes back; its worker lives on. Nothing is lost and nothing is done twice. */
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { Stage, untilEnded, untilEvents } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, fanOut, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());

test('a server killed three times over a chain of 200 steps, a loop of 50 and a fan-out loses and repeats nothing', {
  timeout: 60_000,
}, async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() };
  let server = await stage.server(environment);
  await stage.worker(server.url);
  const flows = [chain(200), fanOut(8), loop(50, 0.02)];
  const executionIds = await stage.startRuns(server.url, flows);
  const [chained = 0] = executionIds;

  for (const events of [40, 500, 1000]) {
    await untilEvents(postgres.url, chained, events);
    await server.kill();
    expect(brokenLaws(await readRuns(postgres.url))).toEqual([]);
    server = await stage.server(environment, server.port);
  }
  await untilEnded(postgres.url, executionIds);

  const runs = await readRuns(postgres.url, executionIds);
  expect(runs.map(({ row }) => [row.status, row.result])).toEqual(flows.map(({ result }) => ['completed', result]));
  expect(brokenLaws(runs)).toEqual([]);
});
