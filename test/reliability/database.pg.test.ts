/** A database that is slow, busy, or says no (reliability §5 E), seen from the door of one server with a pool of two. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { queryRows } from '../support/postgres.ts';
import { type Answer, type Door, openDoor } from './in-process.ts';
import { recordStartups, type StartupRecorder } from './startup-recorder.ts';

let recorder: StartupRecorder;
let door: Door;
let catalogId: number;
beforeAll(async () => {
  const environment = {
    SVC_BUS: 'postgres',
    SVC_DATABASE_POOL_MIN: '1',
    SVC_DATABASE_POOL_MAX: '2',
    SVC_DATABASE_POOL_ACQUIRE_TIMEOUT_SECONDS: '1',
    SVC_DATABASE_POOL_WAITING_MAX: '40',
  };
  door = await openDoor(environment, async (url) => {
    recorder = await recordStartups(url);
    return recorder.url;
  });
  catalogId = await door.register('reliability/database');
});
afterAll(async () => {
  await door?.[Symbol.asyncDispose]();
  await recorder?.[Symbol.asyncDispose]();
});

const sql = (text: string) => queryRows<Record<string, unknown>>(door.postgres.url, text);
let number = 0;

/** Writes and reads of every kind of resource, one after another. */
const REQUESTS: readonly ((n: number) => Promise<Answer>)[] = [
  (n) => door.call('POST', '/api/credentials', { name: `c_${n}`, type: 'bearer', data: { token: 'canary-token' } }),
  () => door.call('GET', '/api/credentials'),
  (n) =>
    door.call('POST', `/api/keychain/${catalogId}/k_${n}`, {
      token_data: { access_token: 'canary-token' },
      credential_type: 'bearer',
    }),
  (n) => door.call('GET', `/api/keychain/${catalogId}/k_${n - 1}`),
  () => door.call('POST', '/api/execute', { path: 'reliability/database' }),
  () => door.call('GET', '/api/executions'),
  (n) =>
    door.call('POST', '/api/catalog/playbook', {
      path: `reliability/flow_${n}`,
      content: `kind: Playbook\nmetadata: { path: reliability/flow_${n} }\nworkflow:\n  - { step: start, tool: { kind: noop } }\n`,
    }),
  () => door.call('GET', '/api/catalog/playbooks'),
  (n) => door.call('POST', '/api/worker/pool/register', { name: `w_${n}`, kind: 'worker_pool', capacity: 1 }),
  () => door.call('GET', '/api/worker/pools'),
];

const ask = (count: number) =>
  Promise.all(Array.from({ length: count }, (_, index) => REQUESTS[index % REQUESTS.length]?.(++number)));
const statuses = (answers: readonly (Answer | undefined)[]) =>
  [...new Set(answers.map((answer) => answer?.status ?? 0))].sort();

describe('a pool of two connections', () => {
  test('IF-09 serves fifty requests of all kinds at once without a deadlock', async () => {
    const answers = await ask(50);
    expect(answers.filter((answer) => (answer?.status ?? 500) >= 500 && answer?.status !== 503)).toEqual([]);
    expect(answers.filter((answer) => answer?.status === 200 || answer?.status === 202).length).toBeGreaterThan(25);
    expect(statuses(await ask(10))).toEqual([200]);
  });

  test('IF-09 that is held by others refuses with 503 in bounded time, and serves again after', async () => {
    const holder = sql(`begin; lock table core.credential in access exclusive mode; select pg_sleep(2); commit`);
    while (
      (
        await sql(
          `select from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'core.credential'::regclass`,
        )
      ).length === 0
    )
      await new Promise((resolve) => setTimeout(resolve, 20));
    const startedAt = performance.now();
    const answers = await Promise.all(Array.from({ length: 60 }, () => door.call('GET', '/api/credentials')));
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    const refusals = answers.filter(({ status }) => status === 503);
    expect(refusals.length).toBeGreaterThanOrEqual(18);
    for (const { json } of refusals)
      expect(json).toMatchObject({ code: 'pool_saturated', detail: { code: 'pool_saturated' } });
    expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
    await holder;
    expect((await door.call('GET', '/api/credentials')).status).toBe(200);
  });
});

describe('a backend that is killed', () => {
  const kill = (more: string) =>
    sql(`select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like 'callboard:%' ${more}`);

  test('IF-10 under idle and under busy connections costs 503 at most, and the process lives', async () => {
    await ask(10);
    await kill('');
    const seen: (Answer | undefined)[] = [];
    for (let round = 0; round < 4; round += 1) {
      const asking = ask(20);
      await kill(`and state = 'active'`);
      seen.push(...(await asking));
    }
    expect(seen.filter((answer) => (answer?.status ?? 500) >= 500 && answer?.status !== 503)).toEqual([]);
    let settled: unknown = null;
    for (let tries = 0; tries < 50 && JSON.stringify(settled) !== '[200]'; tries += 1)
      settled = statuses(await ask(10));
    expect(settled).toEqual([200]);
    expect((await door.call('GET', '/api/health')).json).toMatchObject({ status: 'ok' });
  });
});

test('IF-11 every session that lives on has its time limits, and says who it is', async () => {
  await door.call('POST', '/api/execute', { path: 'reliability/database' });
  const lasting = recorder.startups.filter(
    (startup) => !/^callboard:(migrate|query-login)$/.test(startup.get('application_name') ?? ''),
  );
  const parts = new Set(lasting.map((startup) => startup.get('application_name')));
  expect([...parts].sort()).toEqual([
    'callboard:commit',
    'callboard:jobs',
    'callboard:listen',
    'callboard:lookup',
    'callboard:notify',
    'callboard:reads',
  ]);
  for (const startup of lasting) {
    const options = Object.fromEntries(
      [...(startup.get('options') ?? '').matchAll(/-c (\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
    );
    expect({ part: startup.get('application_name'), ...options }).toMatchObject({
      idle_in_transaction_session_timeout: '10s',
      statement_timeout: '30s',
      lock_timeout: '5s',
      synchronous_commit: 'on',
      TimeZone: 'UTC',
      tcp_keepalives_idle: '30',
      tcp_keepalives_interval: '10',
      tcp_keepalives_count: '3',
    });
  }
});

describe('a conflict in the database', () => {
  const TABLES = ['credential', 'keychain', 'event', 'execution', 'command', 'catalog', 'audit', 'runtime'];
  const inject = async (share: number) => {
    await sql(`create or replace function public.conflict() returns trigger language plpgsql as $$
      declare chance float8 := random();
      begin
        if chance < ${share} then
          raise exception 'injected' using errcode = (array['40P01', '40001', '55P03'])[1 + floor(random() * 3)::int];
        end if;
        return null;
      end $$`);
    for (const table of TABLES)
      await sql(`create or replace trigger conflict before insert or update on core.${table}
        for each statement execute function public.conflict()`);
  };
  const heal = async () => {
    for (const table of TABLES) await sql(`drop trigger conflict on core.${table}`);
  };

  test('IF-06 in one statement of twenty is met by another try, and nothing is written by half', async () => {
    await inject(0.05);
    const from = number;
    const answers: (Answer | undefined)[] = [];
    for (let round = 0; round < 4; round += 1) answers.push(...(await ask(20)));
    await heal();
    expect(answers.filter((answer) => (answer?.status ?? 500) >= 500 && answer?.status !== 503)).toEqual([]);
    expect(answers.filter((answer) => answer?.status === 503).length).toBeLessThan(12);
    // A credential and its audit row, an execution and its first events, a version and its trace: both or none.
    const half = await sql(`
      select 'credential' as what, name as which from core.credential c where name ~ '^c_' and
        (select count(*) from core.audit where action = 'credential.write' and target = c.name) <> 1
      union all
      select 'audit', target from core.audit where action = 'credential.write' and
        not exists (select from core.credential c where c.name = target)
      union all
      select 'execution', execution_id::text from core.execution e where last_event_id <>
        (select count(*) from core.event v where v.execution_id = e.execution_id)
      union all
      select 'command', command_id::text from core.command m where
        not exists (select from core.event v where v.execution_id = m.execution_id and v.event_type = 'command.issued')
      union all
      select 'catalog', path from core.catalog c where path ~ '^reliability/flow_' and
        (select count(*) from core.audit where action = 'catalog.register' and target = c.path) <> 1`);
    expect(half).toEqual([]);
    expect(number).toBe(from + 80);
  });

  test('IF-06 that comes each time is 503 after a few tries, and leaves nothing', async () => {
    await inject(1);
    const count = async () => (await sql(`select count(*)::int as n from core.credential`))[0]?.['n'];
    const before = await count();
    const startedAt = performance.now();
    const save = await door.call('POST', '/api/credentials', { name: 'never', type: 'bearer', data: { token: 'x' } });
    const start = await door.call('POST', '/api/execute', { path: 'reliability/database' });
    const took = performance.now() - startedAt;
    await heal();
    for (const { status, json } of [save, start])
      expect({ status, json }).toMatchObject({ status: 503, json: { code: 'db_unavailable' } });
    expect(took).toBeLessThan(5_000);
    expect(await count()).toBe(before);
    expect((await door.call('POST', '/api/execute', { path: 'reliability/database' })).status).toBe(200);
  });
});
