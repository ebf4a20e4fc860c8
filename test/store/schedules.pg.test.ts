import { afterAll, beforeAll, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { DomainError } from '../../actors/errors.ts';
import { LeaseLostError } from '../../actors/lease.ts';
import { createScheduleService, type ScheduleDraft, type ScheduleService } from '../../actors/schedule-service.ts';
import { createLeaseStore } from '../../src/store/leases.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { createScheduleStore } from '../../src/store/schedules.ts';
import { zoneOffset } from '../../src/time-zones.ts';
import { catalogEntry, RECEIPT } from '../api/fake-services.ts';
import { playbookOf, step } from '../support/playbooks.ts';
import { queryRows, quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let schedules: ScheduleService;
let changes = 0;
let lastId = 800;
const NOW = Date.parse('2026-11-20T10:15:00.000Z');

const DRAFT: ScheduleDraft = {
  name: 'nightly',
  path: 'demo/greet',
  version: null,
  resourceKind: 'playbook',
  cron: '0 3 * * *',
  intervalSeconds: null,
  runAt: null,
  timezone: 'Europe/Berlin',
  workload: { who: 'me' },
  enabled: true,
  overlap: 'skip',
  catchUp: 'last',
};

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 4, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  schedules = createScheduleService({
    store: createScheduleStore(database.reads),
    catalog: {
      executable: async ({ path }) => {
        if (path === 'gone') throw new DomainError('not_found', 'Executable catalog entry not found: gone');
        return { entry: catalogEntry(), playbook: playbookOf([step('a')]) };
      },
    },
    executions: { start: async () => RECEIPT },
    ids: { next: () => ++lastId, reserve: async () => {} },
    clock: { now: () => NOW },
    caller: () => OPEN_CALLER,
    zone: zoneOffset,
    onChange: () => {
      changes += 1;
    },
  });
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

test('a schedule is kept, changed and deleted, each with its audit row and a signal', async () => {
  const made = await schedules.create(DRAFT);
  expect(made).toMatchObject({ ...DRAFT, nextRunAt: '2026-11-21T02:00:00.000Z', lastRunAt: null, lastStatus: null });
  const { scheduleId } = made;
  expect(await schedules.list()).toEqual([made]);
  expect(await schedules.preview(scheduleId, 2)).toEqual(['2026-11-21T02:00:00.000Z', '2026-11-22T02:00:00.000Z']);
  const off = await schedules.update(scheduleId, { enabled: false, workload: {} });
  expect(off).toMatchObject({ enabled: false, nextRunAt: null, workload: {}, cron: '0 3 * * *' });
  const every = await schedules.update(scheduleId, { enabled: true, intervalSeconds: 90 });
  expect(every).toMatchObject({ cron: null, intervalSeconds: 90, nextRunAt: '2026-11-20T10:16:30.000Z' });
  expect(await schedules.update(scheduleId, { name: 'often' })).toMatchObject({ nextRunAt: every.nextRunAt });
  expect((await schedules.update(scheduleId, { intervalSeconds: 30 })).nextRunAt).toBe('2026-11-20T10:15:30.000Z');
  await schedules.trigger(scheduleId, null);
  expect(await schedules.get(scheduleId)).toMatchObject({
    lastExecutionId: RECEIPT.executionId,
    lastStatus: 'started',
  });
  await schedules.remove(scheduleId);
  await expect(schedules.get(scheduleId)).rejects.toMatchObject({ code: 'not_found' });
  await expect(schedules.remove(scheduleId)).rejects.toMatchObject({ message: `Schedule ${scheduleId} not found` });
  expect(changes).toBe(6);
  const trail = await queryRows(
    postgres.url,
    `select action from core.audit where target = '${scheduleId}' order by audit_id`,
  );
  expect(trail.map((row) => row['action'])).toEqual([
    'schedule.create',
    ...Array.from({ length: 4 }, () => 'schedule.update'),
    'schedule.trigger',
    'schedule.delete',
  ]);
});

test.each([
  [{ cron: null }, 'exactly one of'],
  [{ intervalSeconds: 5 }, 'exactly one of'],
  [{ cron: '0 3 * *' }, 'body.cron: must have 5 fields'],
  [{ timezone: 'Mars/Olympus' }, 'body.timezone: must be a time zone'],
  [{ cron: null, runAt: '2026-11-20T10:14:59.000Z' }, 'body.at: lies in the past'],
  [{ path: 'gone' }, 'Executable catalog entry not found: gone'],
])('%j is refused and stored nowhere', async (change, sentence) => {
  await expect(schedules.create({ ...DRAFT, ...change })).rejects.toThrow(sentence);
  expect(await schedules.list()).toEqual([]);
});

test('what is due is found in order, and noted once under a lease that stands', async () => {
  const store = createScheduleStore(database.reads);
  const leases = createLeaseStore(database.reads);
  const late = await schedules.create({ ...DRAFT, name: 'late', cron: null, intervalSeconds: 60 });
  const later = await schedules.create({ ...DRAFT, name: 'later', cron: null, intervalSeconds: 120 });
  await schedules.create({ ...DRAFT, name: 'off', cron: null, intervalSeconds: 1, enabled: false });
  expect(await store.nextMoment()).toBe(late.nextRunAt);
  const due = await store.due('2026-11-20T10:30:00.000Z', 10);
  expect(due.map(({ name }) => name)).toEqual(['late', 'later']);
  expect(await store.due('2026-11-20T10:16:00.000Z', 10)).toHaveLength(1);
  const fence = await leases.take('schedules', 'a', 60);
  const fired = { at: late.nextRunAt ?? '', executionId: 7, status: 'started' };
  const change = { fired, nextRunAt: later.nextRunAt };
  expect(await store.advance(late, change, fence)).toBe(true);
  expect(await store.advance(late, change, fence)).toBe(false);
  expect(await store.find(late.scheduleId)).toMatchObject({
    nextRunAt: later.nextRunAt,
    lastRunAt: late.nextRunAt,
    lastExecutionId: 7,
    lastStatus: 'started',
  });
  await expect(store.advance(later, change, { ...fence, token: fence.token + 1 })).rejects.toBeInstanceOf(
    LeaseLostError,
  );
});
