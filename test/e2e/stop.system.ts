/** The orderly end: what runs may finish, what was accepted is written, nothing stays claimed, and the exit code says so. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { freePort, Stage, untilEnded, untilEvents, untilHeld } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());

const HELD_BY_THE_LIVING = `
select from core.command join core.runtime as worker on worker.name = worker_id
where command.status in ('CLAIMED', 'RUNNING') and worker.status <> 'offline'`;

test('a worker that is told to stop finishes what it runs, leaves no claim behind and exits with 0', {
  timeout: 30_000,
}, async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const server = await stage.server({ SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder() });
  const worker = await stage.worker(server.url, { SVC_WORKER_NAME: 'leaving', SVC_WORKER_CONCURRENCY: '3' });
  const flow = loop(8, 0.7);
  const [executionId = 0] = await stage.startRuns(server.url, [flow]);
  await untilHeld(postgres.url, 'leaving', 3);
  expect((await worker.stop()).code).toBe(0);

  expect(await queryRows(postgres.url, HELD_BY_THE_LIVING)).toEqual([]);
  const [left] = await readRuns(postgres.url, [executionId]);
  const done = left?.commands.filter((command) => command.status === 'COMPLETED') ?? [];
  expect(done.length).toBeGreaterThanOrEqual(3);
  expect(done.every((command) => command.attempt === 1)).toBe(true);

  await stage.worker(server.url);
  await untilEnded(postgres.url, [executionId]);
  const [run] = await readRuns(postgres.url, [executionId]);
  expect(run?.row.result).toEqual(flow.result);
  expect(run?.commands.every((command) => command.attempt === 1)).toBe(true);
});

test('`callboard dev` told to stop in the middle of runs exits with 0 and goes on with them when it starts again', {
  timeout: 60_000,
}, async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const port = await freePort();
  const environment = {
    SVC_DATABASE_URL: postgres.url,
    SVC_DATA_DIR: await stage.folder(),
    SVC_PORT: String(port),
    SVC_WORKER_CONCURRENCY: '4',
  };
  const flows = [chain(200), loop(30, 0.05)];
  const first = stage.start(['dev', '--no-examples'], environment);
  await first.said('Ctrl-C stops it');
  const executionIds = await stage.startRuns(`http://127.0.0.1:${port}`, flows);
  await untilEvents(postgres.url, executionIds[0] ?? 0, 50);
  expect((await first.stop()).code).toBe(0);
  const stopped = await readRuns(postgres.url, executionIds);
  expect(brokenLaws(stopped)).toEqual([]);
  // A grant may cross the end of the poll it was for; then its holder has left, and whoever comes takes it at once.
  expect(await queryRows(postgres.url, HELD_BY_THE_LIVING)).toEqual([]);

  const second = stage.start(['dev', '--no-examples'], environment);
  await second.said('Ctrl-C stops it');
  await untilEnded(postgres.url, executionIds);
  const runs = await readRuns(postgres.url, executionIds);
  expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
  expect(brokenLaws(runs)).toEqual([]);
  expect((await second.stop()).code).toBe(0);
});

test('two instances share a data directory, a stale lock file bothers nobody, and the last one stops the database', {
  timeout: 60_000,
}, async () => {
  const folder = await stage.folder();
  // The number of a process that cannot exist.
  await writeFile(join(folder, 'starting.pid'), '4194304\n');
  const environment = { SVC_DATA_DIR: folder, SVC_PORT: '0' };
  const first = stage.start(['dev', '--no-examples'], environment);
  await first.said('Ctrl-C stops it');
  const second = stage.start(['dev', '--no-examples'], environment);
  await second.said('Ctrl-C stops it');
  expect(second.output()).toContain('The embedded database was running already');
  expect((await first.stop()).code).toBe(0);
  const url = /address +(\S+)/.exec(second.output())?.[1] ?? '';
  expect((await stage.client(url).health()).status).toBe('ok');
  expect((await second.stop()).code).toBe(0);
  const taken = stage.start(['dev', '--no-examples'], environment);
  await taken.said('The embedded database has started');
  await taken.said('Ctrl-C stops it');
  expect((await taken.stop()).code).toBe(0);
});
