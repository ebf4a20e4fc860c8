/** The server dies in the middle of runs and comes back; its worker lives on. Nothing is lost and nothing is done twice. */
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { Stage, untilDue, untilEnded, untilEvents } from '../support/processes.ts';
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

test('a command given up right before the server died is taken at once by the next worker', {
  timeout: 60_000,
}, async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() };
  const server = await stage.server(environment);
  const client = stage.client(server.url);
  const flow = chain(3);
  const executionIds = await stage.startRuns(server.url, [flow]);
  await client.workerRegister({ name: 'quitter', instance: 'first' });
  const { commands } = await client.exchange({
    worker_id: 'quitter',
    instance: 'first',
    claim: { claim_id: 'only', max: 1 },
  });
  expect(commands).toHaveLength(1);
  expect(await client.workerDeregister({ name: 'quitter' })).toMatchObject({ released: 1 });
  await untilDue(postgres.url);
  // The hint that the command can be claimed again is lost with the memory of this process.
  await server.kill();
  const again = await stage.server(environment, server.port);
  await stage.worker(again.url, { SVC_WORKER_NAME: 'heir' });
  await untilEnded(postgres.url, executionIds, 5_000);

  const runs = await readRuns(postgres.url);
  expect(runs[0]?.row.result).toEqual(flow.result);
  expect(runs[0]?.commands[0]).toMatchObject({ attempt: 2, workerId: 'heir' });
  expect(brokenLaws(runs)).toEqual([]);
});
