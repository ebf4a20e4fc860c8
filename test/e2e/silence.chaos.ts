/** Workers that are not dead but silent: stopped, or behind a network that swallows everything. They come back too late. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { type ServerProcess, Stage, untilEnded, untilEvents, untilHeld } from '../support/processes.ts';
import { startProxy } from '../support/proxy.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());
let url = '';
let server: ServerProcess;

beforeEach(async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  url = postgres.url;
  server = await stage.server({ SVC_DATABASE_URL: url, SVC_DATA_DIR: await stage.folder() });
});

test('a worker stopped past its silence and continued changes nothing any more, and works on', async () => {
  const sleeper = await stage.worker(server.url, { SVC_WORKER_NAME: 'sleeper', SVC_WORKER_CONCURRENCY: '4' });
  const flow = loop(6, 1.5);
  const executionIds = await stage.startRuns(server.url, [flow]);
  await untilHeld(url, 'sleeper', 4);
  sleeper.signal('SIGSTOP');
  const heir = await stage.worker(server.url, { SVC_WORKER_NAME: 'heir' });
  await untilEnded(url, executionIds, 40_000);
  const [before] = await readRuns(url, executionIds);
  expect(before?.row.result).toEqual(flow.result);
  expect((await heir.stop()).code).toBe(0);
  sleeper.signal('SIGCONT');
  await sleeper.said('does not know this worker any more');
  const further = await stage.startRuns(server.url, [chain(20)]);
  await untilEnded(url, further);

  const runs = await readRuns(url);
  expect(brokenLaws(runs)).toEqual([]);
  const late = runs[0]?.events.slice(before?.row.lastEventId ?? 0) ?? [];
  expect(late.filter((event) => !event.stale)).toEqual([]);
  expect((await sleeper.stop()).code).toBe(0);
});

test('reports that arrive after their commands were given to another worker are stale', async () => {
  const proxy = await startProxy({ port: server.port });
  stage.onEnd(() => proxy.close());
  const cutOff = await stage.worker(`http://127.0.0.1:${proxy.port}`, {
    SVC_WORKER_NAME: 'cut-off',
    SVC_WORKER_CONCURRENCY: '4',
  });
  const flow = loop(6, 1.5);
  const executionIds = await stage.startRuns(server.url, [flow]);
  await untilHeld(url, 'cut-off', 4);
  // Whatever the worker says from now on reaches nobody, and it is not told.
  proxy.set('halfOpen');
  await stage.worker(server.url, { SVC_WORKER_NAME: 'heir' });
  await untilEnded(url, executionIds, 40_000);
  const [before] = await readRuns(url, executionIds);
  const ended = before?.row.lastEventId ?? 0;
  proxy.set('pass');
  await cutOff.said('does not know this worker any more');
  // Its four results were ready all the time: at least the outcome and the closing row of each.
  await untilEvents(url, executionIds[0] ?? 0, ended + 8);

  const [run] = await readRuns(url, executionIds);
  const late = run?.events.slice(ended) ?? [];
  expect(late.every((event) => event.stale && event.workerId === 'cut-off' && event.attempt === 1)).toBe(true);
  expect(run?.row.result).toEqual(flow.result);
  expect(brokenLaws(run === undefined ? [] : [run])).toEqual([]);
});
