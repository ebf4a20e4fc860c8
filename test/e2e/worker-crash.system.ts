/** A worker dies with commands in its hands: they run again soon, and nothing counts twice. */
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { Stage, untilEnded, untilEvents } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());
test('the commands of a killed worker run again within 10 s, as their second attempt, and count once', {
  timeout: 60_000,
}, async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const { url } = postgres;
  const server = await stage.server({ SVC_DATABASE_URL: url, SVC_DATA_DIR: await stage.folder() });
  const doomed = await stage.worker(server.url, { SVC_WORKER_NAME: 'doomed', SVC_WORKER_CONCURRENCY: '4' });
  const flows = [loop(50, 0.1), chain(200)];
  const executionIds = await stage.startRuns(server.url, flows);
  const [looped = 0] = executionIds;
  await untilEvents(url, looped, 60);
  await doomed.kill();
  const killedAt = Date.now();
  await stage.worker(server.url, { SVC_WORKER_NAME: 'heir' });
  await untilEnded(url, executionIds);

  const runs = await readRuns(url, executionIds);
  expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
  expect(brokenLaws(runs)).toEqual([]);
  const again = runs.flatMap(({ events }) =>
    events.filter((event) => event.type === 'command.claimed' && event.meta['reclaimed'] === true),
  );
  expect(again.length).toBeGreaterThan(0);
  for (const event of again) {
    expect(event).toMatchObject({ attempt: 2, workerId: 'heir', meta: { reclaimed_from: 'doomed' } });
    expect(Date.parse(event.at) - killedAt).toBeLessThan(10_000);
  }
});
