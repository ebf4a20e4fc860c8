/** Each law of api 3.6 catches the row that breaks it, where the schema lets such a row in at all. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { checkInvariants } from '../../actors/invariants.ts';
import type { Meter } from '../../actors/ports.ts';
import { createInvariantStore } from '../../src/store/invariants.ts';
import { createStore } from '../../src/store/store.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';

let opened: TestDatabase;
beforeAll(async () => {
  opened = await openTestDatabase();
  await run('alter table core.event disable trigger event_append_only');
});
afterAll(() => opened.close());

function run(text: string): Promise<number> {
  return opened.database.reads.run(text.replaceAll('CATALOG', String(opened.catalogId)));
}

const EXECUTION = `insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status,
  workload, last_event_id, handled_through, engine_version, machine_version, start_time, open_commands, updated_at)
  values (1, 1, CATALOG, 'suite/flow', 1, 'playbook', 'shared', 'running', '{}', 4, 4, 1, 1, now(), 1, now() - interval '1 hour')`;
const EVENTS = `insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name, command_id,
    attempt, worker_id)
  values (1, 1, 1, CATALOG, 'execution.started', 'running', 'p', null, null, null),
    (1, 2, 1, CATALOG, 'step.enter', 'started', 's', null, null, null),
    (1, 3, 1, CATALOG, 'command.issued', 'pending', 's', 7, null, null),
    (1, 4, 4, CATALOG, 'command.claimed', 'running', 's', 7, 1, 'w')`;
const COMMAND = `insert into core.command (execution_id, command_id, event_id, catalog_id, command_key, step_name, tool_kind, pool,
    status, attempt, worker_id, claimed_at, next_wake_at, meta)
  values (1, 7, 3, CATALOG, 's@1', 's', 'noop', 'shared', 'CLAIMED', 1, 'w', now(), now(), '{}')`;
const event = (id: number, type: string, more = 'null, null, null') =>
  `insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name, command_id, attempt,
     worker_id) values (1, ${id}, ${id}, CATALOG, '${type}', 'running', 'p', ${more})`;

beforeEach(async () => {
  for (const table of ['event', 'command', 'execution', 'keychain', 'credential'])
    await run(`delete from core.${table}`);
  for (const statement of [EXECUTION, EVENTS, COMMAND]) await run(statement);
});

async function violated(): Promise<readonly string[]> {
  const store = createInvariantStore(opened.database.reads);
  const found: string[] = [];
  for (const name of store.names()) if ((await store.check(name)).count > 0) found.push(name);
  return found;
}

test('a healthy run breaks none', async () => {
  expect(await violated()).toEqual([]);
});

test.each([
  ['ids', 'a number is missing', ['delete from core.event where event_id = 2']],
  ['started', 'it was started twice', [event(5, 'execution.started')]],
  ['one_terminal', 'the log has ended and the row runs', [event(5, 'execution.cancelled')]],
  ['after_terminal', 'a step was entered after the end', [event(5, 'execution.cancelled'), event(6, 'step.enter')]],
  ['pair', 'an end stands alone', [event(5, 'playbook.failed')]],
  ['projection', 'the row counts other commands than there are', ['update core.execution set open_commands = 3']],
  ['settled_once', 'a command was never issued', [`delete from core.event where event_type = 'command.issued'`]],
  [
    'wake',
    'nothing is open and nothing is planned',
    ['delete from core.command', 'update core.execution set open_commands = 0'],
  ],
  ['claim', 'a grant is not in the log', ['update core.command set attempt = 2']],
  [
    'batch',
    'an accepted batch has no request',
    [
      `insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name, result)
       values (1, 5, 5, CATALOG, 'batch.accepted', 'pending', 'p', '{"status": "pending", "context": {"request_id": "99"}}')`,
    ],
  ],
  [
    'keychain',
    'an entry has no log',
    [
      `insert into core.keychain (cache_key, keychain_name, catalog_id, credential_type, cache_type, scope_type,
         data_encrypted, expires_at)
       values ('a:900:global', 'a', CATALOG, 'http', 'token', 'global', 'cb1.k1.a.b', now())`,
    ],
  ],
  [
    'sealed',
    'a value names a key nobody knows',
    [`insert into core.credential (id, name, type, data_encrypted) values (1, 'a', 'bearer', 'cb1.k9.a.b')`],
  ],
])('%s: %s', async (name, _why, statements) => {
  for (const statement of statements) await run(statement);
  expect(await violated()).toContain(name);
  const { count, sample } = await createInvariantStore(opened.database.reads).check(name);
  expect([count, sample.length]).toEqual([1, 1]);
});

test('what the check finds broken is counted by law, for an alarm', async () => {
  const counted: [string, unknown, number | undefined][] = [];
  const meter: Meter = {
    count: (...words) => counted.push(words as (typeof counted)[number]),
    observe() {},
    gauge() {},
  };
  const store = createInvariantStore(opened.database.reads);
  const parts = { store, logs: createStore(opened.database), clock: { now: () => 0 }, meter };
  await run('delete from core.command');
  await run('update core.execution set open_commands = 0');
  await run(event(5, 'execution.started'));
  const report = await checkInvariants(parts);
  const broken = report.checks.filter(({ ok }) => !ok);
  expect(broken.map(({ name }) => name)).toContain('started');
  expect(counted).toEqual(broken.map(({ name, count }) => ['svc_engine_assert_total', { law: name }, count]));
});

test('lease: the trigger that keeps tokens growing is there', async () => {
  await run('alter table core.lease disable trigger lease_token_grows');
  expect(await violated()).toEqual(['lease']);
  await run('alter table core.lease enable trigger lease_token_grows');
});
