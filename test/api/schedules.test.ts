import { expect, test } from 'vitest';
import type { ScheduleDraft } from '../../actors/services.ts';
import { AT, fakeServices, SCHEDULE } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

const WIRE = {
  schedule_id: 801,
  name: 'nightly',
  path: 'demo/greet',
  version: 'latest',
  resource_kind: 'playbook',
  cron: '0 3 * * *',
  interval_seconds: null,
  at: null,
  timezone: 'UTC',
  workload: {},
  enabled: true,
  overlap: 'allow',
  catch_up: 'none',
  next_run_at: AT,
  last_run_at: null,
  last_execution_id: null,
  last_status: null,
  created_at: AT,
  updated_at: AT,
};

function setting() {
  const drafts: ScheduleDraft[] = [];
  const patches: Partial<ScheduleDraft>[] = [];
  const { app } = testHost(
    fakeServices({
      schedules: {
        create: async (draft) => {
          drafts.push(draft);
          return SCHEDULE;
        },
        update: async (_id, change) => {
          patches.push(change);
          return SCHEDULE;
        },
      },
    }),
  );
  return { app, drafts, patches };
}

test('a schedule is made with the defaults of the contract', async () => {
  const { app, drafts } = setting();
  const payload = { name: 'nightly', path: '/demo/greet/', cron: '0 3 * * *' };
  const answer = await ask(app, 'POST', '/api/schedules', { payload });
  expect([answer.status, answer.json]).toEqual([200, WIRE]);
  expect(drafts).toEqual([
    {
      ...{ name: 'nightly', path: 'demo/greet', version: null, resourceKind: 'playbook', cron: '0 3 * * *' },
      ...{ intervalSeconds: null, runAt: null, timezone: 'UTC', workload: {}, enabled: true },
      ...{ overlap: 'allow', catchUp: 'none' },
    },
  ]);
});

test.each([
  [{ path: 'a', cron: '* * * * *' }, "'name' is required"],
  [{ name: 'n', path: 'a' }, 'needs exactly one of cron, interval_seconds and at'],
  [{ name: 'n', path: 'a', cron: '* * * * *', at: AT }, 'needs exactly one of'],
  [{ name: 'n', path: 'a', interval_seconds: 0.5 }, 'body.interval_seconds: must be at least 1'],
  [{ name: 'n', path: 'a', at: 'tomorrow' }, 'body.at: must be a time such as'],
  [{ name: 'n', path: 'a', at: AT, overlap: 'queue' }, 'body.overlap: must be one of allow, skip, cancel_previous'],
  [{ name: 'n', path: 'a', at: AT, catch_up: 'some' }, 'body.catch_up: must be one of none, last, all'],
])('%j is refused', async (payload, sentence) => {
  const { app, drafts } = setting();
  const answer = await ask(app, 'POST', '/api/schedules', { payload });
  expect([answer.status, answer.json.code]).toEqual([422, 'validation_error']);
  expect(answer.json.detail).toContain(sentence);
  expect(drafts).toEqual([]);
});

test('a schedule may have the inputs that a start may have', async () => {
  const { app } = testHost();
  const post = (bytes: number) =>
    ask(app, 'POST', '/api/schedules', {
      payload: { name: 'nightly', path: 'demo/greet', cron: '0 3 * * *', workload: { text: 'x'.repeat(bytes) } },
    });
  expect((await post(1_000_000)).status).toBe(200);
  expect((await post(1_200_000)).status).toBe(413);
});

test.each(['workload', 'payload', 'input', 'parameters'])('the inputs of a schedule may come as %s', async (name) => {
  const { app, drafts, patches } = setting();
  const inputs = { [name]: { who: 'you' } };
  await ask(app, 'POST', '/api/schedules', {
    payload: { name: 'nightly', path: 'demo/greet', cron: '0 3 * * *', ...inputs },
  });
  await ask(app, 'PUT', '/api/schedules/801', { payload: inputs });
  expect([drafts[0]?.workload, patches]).toEqual([{ who: 'you' }, [{ workload: { who: 'you' } }]]);
  const other = { [name === 'input' ? 'payload' : 'input']: {} };
  expect((await ask(app, 'PUT', '/api/schedules/801', { payload: { ...inputs, ...other } })).status).toBe(422);
});

test('a change names what it changes', async () => {
  const { app, patches } = setting();
  const put = (payload: object) => ask(app, 'PUT', '/api/schedules/801', { payload });
  expect((await put({ enabled: false })).json).toEqual(WIRE);
  await put({ interval_seconds: 60, cron: null, version: 'latest', overlap: 'SKIP' });
  expect(patches).toEqual([{ enabled: false }, { intervalSeconds: 60, version: null, overlap: 'skip' }]);
  expect((await put({ interval_seconds: 60, cron: '* * * * *' })).status).toBe(422);
});

test('schedules are listed, previewed, set off and deleted', async () => {
  const { app } = testHost();
  expect((await ask(app, 'GET', '/api/schedules')).json).toEqual({ items: [WIRE], count: 1 });
  expect((await ask(app, 'GET', '/api/schedules/801')).json).toEqual(WIRE);
  expect((await ask(app, 'GET', '/api/schedules/801/preview')).json.next).toHaveLength(5);
  expect((await ask(app, 'GET', '/api/schedules/801/preview?count=101')).status).toBe(422);
  expect((await ask(app, 'POST', '/api/schedules/801/trigger')).json).toMatchObject({
    execution_id: 41007,
    status: 'started',
  });
  expect((await ask(app, 'DELETE', '/api/schedules/801')).json).toMatchObject({ status: 'success', schedule_id: 801 });
});
