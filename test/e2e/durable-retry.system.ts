/** A retry that waits longer than any process lives: worker and server die during the wait, and the next try comes in time. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { brokenLaws } from '../support/log-laws.ts';
import { queryRows, startTestPostgres } from '../support/postgres.ts';
import { Stage, untilEnded } from '../support/processes.ts';
import { readRuns } from '../support/recorded-runs.ts';

const stage = new Stage();
afterEach(() => stage.close());

test('the next try comes at its time although worker and server are killed meanwhile', {
  timeout: 60_000,
}, async () => {
  const asked: number[] = [];
  const flaky = createServer((_request, response) => {
    asked.push(Date.now());
    const status = asked.length > 1 ? 200 : 503;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ asked: asked.length }));
  });
  flaky.listen(0, '127.0.0.1');
  await once(flaky, 'listening');
  stage.onEnd(async () => flaky.close());
  // A TCP server that listens has an address with a port.
  const { port: flakyPort } = flaky.address() as AddressInfo;
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  const environment = {
    SVC_DATABASE_URL: postgres.url,
    SVC_DATA_DIR: await stage.folder(),
  };
  const server = await stage.server(environment);
  const doomed = await stage.worker(server.url, { ...environment, SVC_WORKER_NAME: 'doomed' });
  const text = `
apiVersion: callboard/v2
kind: Playbook
metadata: { name: patient, path: e2e/patient }
workflow:
  - step: start
    tool:
      - name: before
        kind: noop
        result: { kept: yes it is }
      - name: ask
        kind: http
        url: http://127.0.0.1:${flakyPort}/
        spec:
          policy:
            rules:
              - when: "{{ output.status == 'error' }}"
                then: { do: retry, attempts: 3, backoff: fixed, delay: 7 }
      - name: after
        kind: noop
        result: { kept: "{{ before.kept }}", asked: "{{ ask.data.asked }}" }
`;
  const executionIds = await stage.startRuns(server.url, [{ path: 'e2e/patient', text }]);
  const parked = `select extract(epoch from next_wake_at) * 1000 as at from core.command where parked_on = 0`;
  let due = 0;
  while (due === 0) due = Number((await queryRows<{ at: string }>(postgres.url, parked))[0]?.at ?? 0);
  await doomed.kill();
  await server.kill();
  const { port } = server;
  await stage.server(environment, port);
  await stage.worker(server.url, { ...environment, SVC_WORKER_NAME: 'heir' });
  await untilEnded(postgres.url, executionIds);

  const runs = await readRuns(postgres.url, executionIds);
  expect(runs[0]?.row).toMatchObject({
    status: 'completed',
    result: { after: { kept: 'yes it is', asked: 2 } },
  });
  expect(brokenLaws(runs)).toEqual([]);
  expect(asked).toHaveLength(2);
  expect((asked[1] ?? 0) - due).toBeGreaterThanOrEqual(-50);
  expect((asked[1] ?? 0) - due).toBeLessThan(2_000);
  const claims = runs[0]?.events.filter((event) => event.type === 'command.claimed') ?? [];
  expect(claims.map((event) => [event.workerId, event.meta['reason'] ?? null])).toEqual([
    ['doomed', null],
    ['heir', 'retry_due'],
  ]);
});
