/** What a bus shortens still happens without one: found by looking, later. The whole suite can run so, see testing.md. */
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { startTestPostgres } from '../support/postgres.ts';
import { Stage, untilEnded, untilHeld } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';
import { chain, fanOut, loop } from './flows.ts';

const NESTED = `
apiVersion: callboard/v2
kind: Playbook
metadata: { name: nested, path: e2e/nested }
workflow:
  - { step: start, tool: { kind: playbook, path: e2e/chain-20, wait: true }, next: { arcs: [{ step: after }] } }
  - { step: after, tool: { kind: noop, result: { counted: "{{ start.counted }}" } } }
`;

const SLEEPER = `
apiVersion: callboard/v2
kind: Playbook
metadata: { name: sleeper, path: e2e/sleeper }
workflow:
  - { step: start, tool: { kind: shell, command: sleep 600 } }
`;

const stage = new Stage();
afterEach(() => stage.close());

test('BU-01 two servers without a bus: runs, children and cancellations of one reach the workers of the other', {
  timeout: 120_000,
}, async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder(), SVC_BUS: 'none' };
  const [one, other] = await Promise.all([stage.server(environment), stage.server(environment)]);
  const client = stage.client(one.url);
  expect(await client.health()).toMatchObject({ status: 'ok', bus: 'down' });
  // Who starts is not who hands out.
  await stage.worker(other.url, { SVC_WORKER_NAME: 'far' });

  const flows = [chain(20), fanOut(4), loop(20, 0.02), { path: 'e2e/nested', text: NESTED, result: { counted: 20 } }];
  const executionIds = await stage.startRuns(one.url, flows);
  await untilEnded(postgres.url, executionIds, 60_000);
  const runs = await readRuns(postgres.url, executionIds);
  expect(runs.map(({ row }) => row.result)).toEqual(flows.map(({ result }) => result));
  expect(brokenLaws(runs)).toEqual([]);

  const [sleeping = 0] = await stage.startRuns(one.url, [{ path: 'e2e/sleeper', text: SLEEPER }]);
  await untilHeld(postgres.url, 'far', 1);
  await client.cancel(sleeping, { reason: 'enough' });
  await untilEnded(postgres.url, [sleeping]);
  // The worker is told by the server it talks to, and is free for what comes then.
  const [last = 0] = await stage.startRuns(one.url, [chain(20)]);
  await untilEnded(postgres.url, [last]);
  expect((await client.execution(sleeping)).status).toBe('cancelled');
});
