/** `npm start` as a whole is killed, launcher, server, worker at once; the database lives on as an orphan and is adopted. */
import { afterEach, expect, test } from 'vitest';
import { openCluster } from '../../src/embedded/cluster.ts';
import { brokenLaws } from '../support/log-laws.ts';
import { quiet } from '../support/postgres.ts';
import { freePort, Stage, untilEnded, untilEvents } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, fanOut, loop } from './flows.ts';

const stage = new Stage();
afterEach(() => stage.close());

test('`callboard dev` killed three times adopts its orphaned database and finishes what was running', async () => {
  const data = await stage.folder();
  const port = await freePort();
  const environment = { SVC_DATA_DIR: data, SVC_PORT: String(port) };
  let whole = stage.start(['dev'], environment);
  await whole.said('Ctrl-C stops it');
  const { url, pid } = await openCluster(data, quiet);
  const flows = [chain(200), loop(50, 0.05), fanOut(8)];
  const executionIds = await stage.startRuns(`http://127.0.0.1:${port}`, flows);
  for (const events of [100, 500, 900]) {
    await untilEvents(url, executionIds[0] ?? 0, events);
    await whole.kill();
    whole = stage.start(['dev'], environment);
    await whole.said('Ctrl-C stops it');
    expect(whole.output()).toContain('The embedded database was running already');
  }
  await untilEnded(url, executionIds, 40_000);
  expect((await openCluster(data, quiet)).pid).toBe(pid);
  const runs = await readRuns(url, executionIds);
  expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
  expect(brokenLaws(runs)).toEqual([]);
  expect((await whole.stop()).code).toBe(0);
});
