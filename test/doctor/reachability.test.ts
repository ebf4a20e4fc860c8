import { expect, test } from 'vitest';
import { ApiError } from '../../src/client/errors.ts';
import { createDoctor } from '../../src/doctor/doctor.ts';
import type { Facts } from '../../src/doctor/facts.ts';

const THRESHOLDS = { staleSeconds: 300, pendingRetrySeconds: 60, maxRows: 200 };
const WELL = { statusCode: 200, body: { status: 'ok', database: 'ok', bus: 'ok' }, note: null };

/** What the helper says of a server that is well and whose workers are these. */
async function reach(workers: Facts['workers']) {
  const nothing = async () => [];
  const tools = createDoctor({
    facts: { silentExecutions: nothing, staleCommands: nothing, invariants: nothing, workers, close: async () => {} },
    server: { health: async () => WELL, parts: async () => WELL, sweep: async () => WELL },
    pingDatabase: null,
    thresholds: THRESHOLDS,
    now: () => Date.parse('2026-11-20T10:15:02.113Z'),
  });
  const tool = tools.find((each) => each.name === 'reachability');
  return tool?.run(THRESHOLDS);
}

test('a ready worker is enough, and none is an anomaly', async () => {
  const worker = { status: 'ready', heartbeat_age_seconds: 1 };
  expect(await reach(async () => [worker])).toMatchObject({ severity: 'ok', data: { ok: true } });
  for (const workers of [[], [{ ...worker, status: 'offline' }], [{ ...worker, heartbeat_age_seconds: 301 }]]) {
    expect(await reach(async () => workers)).toMatchObject({
      severity: 'anomaly',
      data: { worker_pool: { ready_workers: 0 } },
    });
  }
});

test.each([401, 403])('who may not ask for workers (%i) does not say that there are none', async (status) => {
  const outcome = await reach(async () => {
    throw new ApiError(status, { detail: 'Missing authentication token', code: 'unauthenticated' }, null);
  });
  expect(outcome).toMatchObject({
    action: 'reachability',
    severity: 'error',
    data: { status: 'error', note: 'Missing authentication token' },
  });
});

test('a server too busy to tell of its workers is looked at all the same', async () => {
  const outcome = await reach(async () => {
    throw new ApiError(503, { detail: { code: 'pool_saturated', message: 'busy' }, code: 'pool_saturated' }, 1);
  });
  expect(outcome).toMatchObject({ severity: 'anomaly', data: { server_health: { ok: true }, postgres: { ok: true } } });
});
