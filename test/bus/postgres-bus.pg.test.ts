import { afterAll, beforeAll, expect, test } from 'vitest';
import { createNoneBus } from '../../src/bus/none-bus.ts';
import { createPostgresBus } from '../../src/bus/postgres-bus.ts';
import { listen } from '../conformance/bus-suite.ts';
import { busOptions, untilState } from '../support/bus.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startTestPostgres();
});
afterAll(() => postgres.stop());

test('hints of a few milliseconds leave as one notification', async () => {
  const { options, counted } = busOptions(postgres.url);
  const bus = createPostgresBus(options);
  await untilState(bus, 'ok');
  const ear = listen(bus);
  for (let n = 0; n < 60; n += 1) bus.publish('commands.shared', [{ command_id: n }]);
  bus.publish('workers', [{ offline: 'w' }]);
  await ear.until('workers');
  expect(await ear.until('commands.shared')).toEqual([{ pool: 'shared', count: 60 }]);
  expect(counted.get('svc_bus_published_total commands')).toBe(1);
  await bus.close();
});

test('garbage on the channel is dropped, counted and harmless', async () => {
  const { options, counted } = busOptions(postgres.url);
  const bus = createPostgresBus(options);
  await untilState(bus, 'ok');
  const ear = listen(bus);
  for (const text of ['no json', '{"topic":"strange","hints":[]}', 'echo:someone-else']) {
    await queryRows(postgres.url, `select pg_notify('callboard', $1)`, [text]);
  }
  bus.publish('control', [{ after: true }]);
  await ear.until('control');
  expect(ear.heard).toHaveLength(1);
  expect(counted.get('svc_bus_dropped_total malformed')).toBe(2);
  await bus.close();
});

test('a lost connection degrades the bus until another one is heard', async () => {
  const { options } = busOptions(postgres.url);
  const bus = createPostgresBus(options);
  await untilState(bus, 'ok');
  await queryRows(
    postgres.url,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name in ('callboard:listen', 'callboard:notify') and datname = current_database()`,
  );
  await untilState(bus, 'degraded');
  await untilState(bus, 'ok');
  const ear = listen(bus);
  bus.publish('executions', [{ execution_id: 1 }]);
  expect(await ear.until('executions')).toEqual([{ execution_id: 1 }]);
  await bus.close();
});

test('a connection that is open but deaf is found by the missing echo and replaced', async () => {
  const { options } = busOptions(postgres.url, { echoWithinMs: 100 });
  // It listens in another database, so it is connected and never hears a thing.
  const deaf = createPostgresBus({ ...options, listenUrl: options.url.replace(/test_[0-9a-f]+/, 'postgres') });
  const pids = new Set<number>();
  while (pids.size < 2) {
    const rows = await queryRows<{ pid: number }>(
      postgres.url,
      `select pid from pg_stat_activity where application_name = 'callboard:listen' and datname = 'postgres'`,
    );
    for (const { pid } of rows) pids.add(pid);
  }
  expect(deaf.state()).toBe('degraded');
  await deaf.close();
});

test('an operator who cancels in SQL is heard', async () => {
  const bus = createPostgresBus(busOptions(postgres.url).options);
  await untilState(bus, 'ok');
  const ear = listen(bus);
  await queryRows(
    postgres.url,
    `with entry as (
       insert into core.catalog (catalog_id, path, version, kind, content, payload, sha256)
       values (1, 'a/b', 1, 'playbook', 'x', '{}', '\\x00') returning catalog_id
     )
     insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status, workload,
       last_event_id, handled_through, engine_version, machine_version, start_time)
     select 7, 7, catalog_id, 'a/b', 1, 'playbook', 'shared', 'running', '{}', 1, 1, 1, 1, now() from entry`,
  );
  await queryRows(
    postgres.url,
    `insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name)
     values (7, 1, 1, 1, 'execution.started', 'started', 'a/b')`,
  );
  expect(await queryRows(postgres.url, `select core.cancel_execution(7, 'manual') as id`)).toEqual([{ id: '2' }]);
  expect(await ear.until('executions')).toEqual([{ execution_id: 7, event_id: 2 }]);
  expect(
    await queryRows(
      postgres.url,
      `select status, context ->> 'reason' as reason, cause_id from core.event where event_id = 2`,
    ),
  ).toEqual([{ status: 'cancelled', reason: 'manual', cause_id: '2' }]);
  expect(await queryRows(postgres.url, `select core.cancel_execution(7) as id`)).toEqual([{ id: null }]);
  await bus.close();
});

test('no bus says nothing and hears nothing', async () => {
  const bus = createNoneBus();
  const ear = listen(bus);
  bus.publish('control', [{}]);
  expect(ear.heard).toEqual([]);
  expect(bus.state()).toBe('down');
  await bus.close();
});
