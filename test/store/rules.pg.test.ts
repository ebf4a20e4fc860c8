/** The rules of rows (migration 0005): as functions they say what the checks before them said, by the same names. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { migrate, readMigrations } from '../../src/store/migrate.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let database: TestPostgres;

/** A run from before the rules were functions. */
const OLD_ROWS = `
insert into core.catalog (catalog_id, path, version, kind, content, payload, sha256)
values (1, 'suite/flow', 1, 'playbook', 'x', '{}', '\\x00');
insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status, workload,
  last_event_id, handled_through, engine_version, machine_version, start_time)
values (1, 1, 1, 'suite/flow', 1, 'playbook', 'shared', 'running', '{}', 1, 1, 1, 1, now());
insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name)
values (1, 1, 1, 1, 'execution.started', 'running', 'suite/flow');
insert into core.command (execution_id, command_id, event_id, catalog_id, command_key, step_name, tool_kind, pool,
  next_wake_at, meta)
values (1, 2, 1, 1, 'one@1', 'one', 'noop', 'shared', now(), '{}');
`;

beforeAll(async () => {
  database = await startTestPostgres({ migrated: false });
  const all = await readMigrations();
  await migrate(database.url, { migrations: all.filter(({ version }) => version < 5) });
  await queryRows(database.url, OLD_ROWS);
  await migrate(database.url);
  await queryRows(
    database.url,
    `create function core.holds(statement text) returns boolean language plpgsql as $$
     declare
       answer boolean;
     begin
       execute 'select ' || statement into answer;
       return answer;
     exception when check_violation then
       return false;
     end
     $$`,
  );
});
afterAll(() => database.stop());

/** Columns with the values they are tried with, the checks as they were, and the function. */
const TABLES = [
  {
    table: 'event',
    values: {
      event_id: ['0', '1', '5'],
      cause_id: ['0', '1', '5', '6'],
      parent_event_id: ['null::bigint', '1', '5', '9'],
      duration: ['null::double precision', '-0.5', '0'],
      result: [
        'null::jsonb',
        ...[
          '{}',
          '{"status":"x"}',
          '{"status":1}',
          '{"status":null}',
          '{"status":"x","more":1}',
          '[]',
          '"x"',
          'null',
        ].map((json) => `'${json}'::jsonb`),
      ],
    },
    checks: `event_id >= 1 and cause_id between 1 and event_id and (parent_event_id < event_id) is not false
      and (duration >= 0) is not false and (result is null or jsonb_typeof(result) = 'object'
        and coalesce(jsonb_typeof(result -> 'status') = 'string', false)
        and case when jsonb_typeof(result) = 'object' then result - array['status', 'context', 'reference'] = '{}' end)`,
    rule: 'core.is_event(%L::bigint, %L::bigint, %L::bigint, %L::double precision, %L::jsonb)',
  },
  {
    table: 'execution',
    values: {
      status: ['running', 'completed', 'failed', 'cancelled', 'pending'].map((status) => `'${status}'::text`),
      progress: ['-1', '0', '50', '100', '101'],
      open_commands: ['-1', '0', '1'],
      handled_through: ['0', '1'],
      last_event_id: ['0', '1'],
      end_time: ['null::timestamptz', 'now()'],
      error: ['null::text', "'broken'"],
    },
    checks: `status in ('running', 'completed', 'failed', 'cancelled') and progress between 0 and 100
      and open_commands >= 0 and handled_through <= last_event_id and (status = 'running') = (end_time is null)
      and (status = 'running' or (progress = 100 and open_commands = 0)) and (status = 'failed') <= (error is not null)`,
    rule: 'core.is_execution(%L, %L::smallint, %L::int, %L::bigint, %L::bigint, %L::timestamptz, %L)',
  },
  {
    table: 'command',
    values: {
      status: ['PENDING', 'CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'X'].map(
        (status) => `'${status}'::text`,
      ),
      attempt: ['-1', '0', '1'],
      worker_id: ['null::text', "'w'"],
      claimed_at: ['null::timestamptz', 'now()'],
      next_wake_at: ['null::timestamptz', 'now()'],
      completed_at: ['null::timestamptz', 'now()'],
      parked_on: ['null::bigint', '0', '7'],
    },
    checks: `status in ('PENDING', 'CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED') and attempt >= 0
      and (status <> 'PENDING' or worker_id is null)
      and (status not in ('CLAIMED', 'RUNNING') or (worker_id is not null and claimed_at is not null and attempt >= 1))
      and (status not in ('PENDING', 'CLAIMED', 'RUNNING') or next_wake_at is not null)
      and ((status in ('COMPLETED', 'FAILED', 'CANCELLED')) = (completed_at is not null))
      and (parked_on is null or status = 'RUNNING')`,
    rule: 'core.is_command(%L, %L::int, %L, %L::timestamptz, %L::timestamptz, %L::timestamptz, %L::bigint)',
  },
] as const;

describe('the rules of a row', () => {
  test.each(TABLES)('of core.$table refuse and let pass what its checks did', async ({ values, checks, rule }) => {
    const columns = Object.keys(values);
    const lists = Object.entries(values).map(([column, each]) => `unnest(array[${each.join(', ')}]) as ${column}`);
    const rows = await queryRows<{ all: number; passing: number; differing: number }>(
      database.url,
      `select count(*)::int as all, count(*) filter (where expected)::int as passing,
         count(*) filter (where expected is distinct from core.holds(format('${rule.replaceAll("'", "''")}', ${columns.join(', ')})))::int as differing
       from (select *, coalesce(${checks}, false) as expected
         from ${lists.map((list) => `(select ${list}) as ${list.split(' ').at(-1)}_values`).join(' cross join ')}) as tried`,
    );
    expect(rows[0]?.all).toBeGreaterThan(200);
    expect(rows[0]?.passing).toBeGreaterThan(10);
    expect(rows[0]?.differing).toBe(0);
  });

  test.each([
    ['event', 'event_cause'],
    ['event', 'event_result'],
    ['execution', 'execution_rest'],
    ['command', 'command_held'],
  ])('are named in the refusal: core.%s, %s', async (table, constraint) => {
    await expect(queryRows(database.url, REFUSED[constraint] ?? '')).rejects.toMatchObject({
      code: '23514',
      schema: 'core',
      table,
      constraint,
    });
  });

  test('are all the checks these tables have', async () => {
    const rows = await queryRows<{ name: string }>(
      database.url,
      `select conname as name from pg_constraint where contype = 'c'
         and conrelid in ('core.event'::regclass, 'core.execution'::regclass, 'core.command'::regclass) order by 1`,
    );
    expect(rows.map(({ name }) => name)).toEqual(['command_rules', 'event_rules', 'execution_rules']);
  });

  test('let rows stand that were written before, and go with new partitions', async () => {
    expect(await queryRows(database.url, 'select count(*)::int as count from core.command')).toEqual([{ count: 1 }]);
    await queryRows(
      database.url,
      `update core.command set status = 'CLAIMED', worker_id = 'w', claimed_at = now(), attempt = 1`,
    );
    await queryRows(database.url, 'select core.ensure_partitions(4194304, 4)');
    const bare = await queryRows(
      database.url,
      `select inhrelid::regclass::text as partition from pg_inherits
       where inhparent in ('core.event'::regclass, 'core.command'::regclass)
         and not exists (select from pg_constraint where conrelid = inhrelid and conname in ('event_rules', 'command_rules'))`,
    );
    expect(bare).toEqual([]);
  });

  test('an ended run stays as it ended, and what does not belong to its end may move', async () => {
    await queryRows(
      database.url,
      `update core.execution set status = 'completed', progress = 100, end_time = now(), last_event_id = 2`,
    );
    await queryRows(database.url, 'update core.execution set last_event_id = 3');
    const change = queryRows(database.url, `update core.execution set result = '{"other": 1}'`);
    await expect(change).rejects.toMatchObject({ code: '23001', message: expect.stringContaining('has ended') });
  });
});

const EVENT =
  'insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_name, result)';
const REFUSED: Readonly<Record<string, string>> = {
  event_cause: `${EVENT} values (1, 2, 3, 1, 'step.enter', 'running', 'one', null)`,
  event_result: `${EVENT} values (1, 2, 2, 1, 'call.done', 'completed', 'one', '{"status": 1}')`,
  execution_rest: `update core.execution set status = 'completed', end_time = now(), progress = 50`,
  command_held: `update core.command set status = 'RUNNING'`,
};
