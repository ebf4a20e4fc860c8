/** Area A of the catalogue of checks: the log and its transitions, on a real server and a real database. */
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StaleError } from '../../actors/ports.ts';
import { createDatabase } from '../../src/store/pool.ts';
import { createStore } from '../../src/store/store.ts';
import { event, flush, head } from '../conformance/rows.ts';
import { databaseConfig } from '../support/database.ts';
import { quiet } from '../support/postgres.ts';
import { type Granted, Service, until } from './service.ts';

const WRITERS = 64;
const READERS = 8;
const FINISHES = 40;
const CHILDREN = 200;
let service: Service;

beforeAll(async () => {
  service = await Service.start();
  await service.register('log/one', '  - { step: one, tool: { kind: noop } }\n');
  await service.enlist('alice');
});
afterAll(() => service.stop());

const note = (executionId: number, n: number, more: object = {}) =>
  service.post('/api/events', {
    ...{ execution_id: executionId, event_type: 'report.note', step: 'one', payload: { n } },
    ...more,
  });

test('EV-01 what readers with cursors saw, put together, is the log, while 64 write to it at once', async () => {
  const id = await service.start('log/one');
  let isOver = false;
  const reader = async () => {
    const seen: number[] = [];
    for (let last = false; ; last = isOver) {
      const after = seen.at(-1) ?? 0;
      const { json } = await service.get(`/api/events/${id}?since_event_id=${after}&page_size=50`);
      seen.push(...json.events.map((each: { event_id: number }) => each.event_id));
      if (last && json.events.length === 0) return seen;
    }
  };
  const readers = Array.from({ length: READERS }, reader);
  const writer = async (n: number) => {
    const ids: number[] = [];
    for (let round = 0; round < 2; round += 1) {
      const answer = await note(id, n);
      // A full mailbox is a 503 that stored nothing.
      if (answer.status === 200) ids.push(answer.json.event_id);
      else expect(answer.status).toBe(503);
    }
    return ids;
  };
  const written = (await Promise.all(Array.from({ length: WRITERS }, (_, n) => writer(n)))).flat();
  isOver = true;
  const log = (
    await service.rows<{ id: number }>(
      'select event_id::int as id from core.event where execution_id = $1 order by 1',
      [id],
    )
  ).map((row) => row.id);
  expect(log).toEqual(log.map((_, index) => index + 1));
  expect(new Set(written).size).toBe(written.length);
  expect(written.length).toBeGreaterThan(WRITERS);
  expect(log).toEqual(expect.arrayContaining(written));
  for (const seen of await Promise.all(readers)) expect(seen).toEqual(log);
});

test('EV-02 who has taken a number and sleeps is waited for: nobody reads a later number first', async () => {
  const id = await service.start('log/one');
  const sleeper = new pg.Client({ connectionString: service.databaseUrl });
  await sleeper.connect();
  const database = createDatabase(databaseConfig(service.databaseUrl), quiet);
  try {
    const [{ last, catalog }] = (await service.rows<{ last: number; catalog: number }>(
      'select last_event_id::int as last, catalog_id::int as catalog from core.execution where execution_id = $1',
      [id],
    )) as [{ last: number; catalog: number }];
    await sleeper.query('begin');
    await sleeper.query(`select pg_advisory_xact_lock(hashtextextended('core.execution', $1))`, [id]);
    await sleeper.query(
      `insert into core.event (execution_id, event_id, cause_id, catalog_id, event_type, status, node_id, node_name,
         context, meta, created_at)
       values ($1, $2, $2, $3, 'report.slow', 'completed', 'one', 'one', '{}', '{}', now())`,
      [id, last + 1, catalog],
    );
    let isDone = false;
    const late = createStore(database)
      .commit(flush({ events: [event(id, catalog, last + 2)], heads: [head(id, last, last + 2)] }))
      .then(
        () => null,
        (error: unknown) => error,
      )
      .finally(() => {
        isDone = true;
      });
    const waits = `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`;
    await until('the second writer waits', async () => (await service.rows<{ n: number }>(waits))[0]?.n === 1);
    expect(isDone).toBe(false);
    const seen = (await service.get(`/api/events/${id}?since_event_id=${last}`)).json.events;
    expect(seen).toEqual([]);
    await sleeper.query('update core.execution set last_event_id = $2, handled_through = $2 where execution_id = $1', [
      id,
      last + 1,
    ]);
    await sleeper.query('commit');
    // It decided from a log that has moved: nothing of it is written.
    expect(await late).toBeInstanceOf(StaleError);
    const answer = await note(id, 1);
    expect(answer.json.event_id).toBe(last + 2);
  } finally {
    await sleeper.end();
    await database.close();
  }
});

test(`EV-04 complete, fail and cancel at the same instant end a run once, ${FINISHES} times; losers are late`, async () => {
  const ids: number[] = [];
  for (let count = 0; count < FINISHES; count += 1) ids.push(await service.start('log/one'));
  const [other] = ids;
  const ends = ids.flatMap((id) => [
    service.post('/api/events', { execution_id: id, event_type: 'playbook.completed', step: 'one' }),
    service.post('/api/events', {
      execution_id: id,
      event_type: 'playbook.failed',
      step: 'one',
      payload: { error: 'x' },
    }),
    service.post(`/api/executions/${id}/cancel`, { reason: 'x' }),
    service.post(`/api/executions/${id}/finalize`, { status: 'failed', reason: 'x' }),
  ]);
  for (const answer of await Promise.all(ends)) expect([200, 409]).toContain(answer.status);
  const counts = await service.rows<{ n: number }>(
    `select count(*)::int as n from core.event where execution_id = any($1)
       and event_type in ('playbook.completed', 'playbook.failed', 'execution.cancelled') group by execution_id`,
    [ids],
  );
  expect(counts).toEqual(Array(FINISHES).fill({ n: 1 }));
  const late = await service.rows<{ reported: string }>(
    `select meta ->> 'reported_type' as reported from core.event where execution_id = $1 and event_type = 'late.outcome'`,
    [other],
  );
  const won = (await service.get(`/api/executions/${other}/status`)).json.status;
  const losers = ['playbook.completed', 'playbook.failed'].filter((type) => type !== `playbook.${won}`);
  // Where an end by finalize came first, both reports of the end are late.
  expect(late.map((row) => row.reported)).toEqual(expect.arrayContaining(losers));
});

test('EV-06 an event an hour after the end is stored, moves the last event id and nothing else', async () => {
  const id = await service.start('log/one');
  const commands = await service.claim('alice', 100);
  await service.report('alice', commands);
  expect(await service.status(id)).toBe('completed');
  const hash = `select last_event_id::int as last, updated_at, md5((to_jsonb(e) - 'last_event_id' - 'updated_at' - 'handled_through')::text) as rest,
      (select count(*)::int from core.command where execution_id = e.execution_id) as commands
    from core.execution as e where execution_id = $1`;
  const shift = async (hours: number) => {
    await service.rows('alter table core.execution disable trigger user');
    await service.rows(
      `update core.execution set start_time = start_time + make_interval(hours => $2),
         end_time = end_time + make_interval(hours => $2) where execution_id = $1`,
      [id, hours],
    );
    await service.rows('alter table core.execution enable trigger user');
  };
  await shift(-1);
  const [before] = await service.rows(hash, [id]);
  const [command] = commands.filter((each) => each.execution_id === id);
  const answers = [
    await note(id, 1),
    await service.post('/api/events', {
      ...{ execution_id: id, event_type: 'call.error', command_id: command?.command_id, worker_id: 'alice' },
      payload: { error: 'late' },
    }),
    await service.post('/api/events', { execution_id: id, event_type: 'playbook.failed', step: 'one' }),
  ];
  expect(answers.map(({ json }) => [json.late, json.duplicate, json.execution_status])).toEqual([
    [true, false, 'completed'],
    // The natural key of a settled command: not stored at all.
    [false, true, 'completed'],
    [true, false, 'completed'],
  ]);
  const [after] = await service.rows(hash, [id]);
  expect(after).toMatchObject({
    rest: before?.['rest'],
    commands: before?.['commands'],
    last: Number(before?.['last']) + 2,
  });
  await shift(1);
});

test('EV-07 the pair of rows at the end is written whole or not at all', async () => {
  await service.rows(`create function core.test_fail() returns trigger language plpgsql as
    $$ begin raise exception 'a fault between the two'; end $$`);
  await service.rows(
    `create trigger test_fail before insert on core.event for each row when (new.event_type = 'playbook.completed') execute function core.test_fail()`,
  );
  const id = await service.start('log/one');
  const commands = (await service.claim('alice', 100)).filter((each) => each.execution_id === id);
  const pair = `select event_id::int as id, event_type as type from core.event
    where execution_id = $1 and event_type in ('workflow.completed', 'playbook.completed') order by 1`;
  const reports = commands.map(({ command_id, attempt }) => ({
    report_id: 'pair',
    command_id,
    attempt,
    outcome: 'ok',
  }));
  const refused = await service.exchange('alice', { reports });
  expect(refused.json.reports?.[0]?.result ?? 'none').not.toBe('accepted');
  expect(await service.rows(pair, [id])).toEqual([]);
  await service.rows('drop trigger test_fail on core.event');
  const status = await service.status(id);
  if (status === 'running') await service.exchange('alice', { reports });
  const rows = await service.rows<{ id: number; type: string }>(
    pair.replace(
      "'workflow.completed', 'playbook.completed'",
      "'workflow.completed', 'playbook.completed', 'workflow.failed', 'playbook.failed'",
    ),
    [id],
  );
  expect(rows.map((row) => row.type.split('.')[0])).toEqual(['workflow', 'playbook']);
  expect((rows[1]?.id ?? 0) - (rows[0]?.id ?? 0)).toBe(1);
});

test(`EV-12 a parent sees the end of each of its ${CHILDREN} children once, and ends once`, async () => {
  await service.register(
    'log/many',
    `  - step: each
    loop: { in: ${CHILDREN}, iterator: n, spec: { mode: parallel, max_in_flight: ${CHILDREN} } }
    tool: { kind: playbook, path: log/one, wait: true }\n`,
  );
  const top = await service.start('log/many');
  const children: number[] = [];
  for (let waits = await service.claim('alice', 200, { tool_kinds: ['playbook'] }); waits.length > 0; ) {
    const started = await Promise.all(
      waits.map(async (wait: Granted) => {
        const of = { parent_execution_id: top, parent_command_id: wait.command_id };
        return { wait, child: await service.start('log/one', { ...of, idempotency_key: `${wait.command_id}` }) };
      }),
    );
    children.push(...started.map(({ child }) => child));
    const parked = started.map(({ wait: { command_id, attempt }, child }) => {
      const outcome = { outcome: 'parked', child_execution_id: child };
      return { report_id: `parked-${command_id}`, command_id, attempt, ...outcome };
    });
    expect((await service.exchange('alice', { reports: parked })).status).toBe(200);
    waits = await service.claim('alice', 200, { tool_kinds: ['playbook'] });
  }
  expect(children).toHaveLength(CHILDREN);
  const commands = (await service.claim('alice', 256)).filter((each) => children.includes(each.execution_id));
  expect(commands).toHaveLength(CHILDREN);
  // Each child by a call of its own, all at the same time.
  await Promise.all(commands.map((command) => service.report('alice', [command])));
  await until('the parent has ended', async () => (await service.status(top)) !== 'running', 20_000);
  expect(await service.status(top)).toBe('completed');
  const [counts] = await service.rows(
    `select count(*) filter (where event_type = 'call.done')::int as calls, count(distinct command_id)::int as commands,
       count(*) filter (where event_type = 'playbook.completed')::int as ends
     from core.event where execution_id = $1 and (event_type = 'call.done' or event_type = 'playbook.completed')`,
    [top],
  );
  expect(counts).toEqual({ calls: CHILDREN, commands: CHILDREN, ends: 1 });
}, 60_000);

test('EV-08 every row of an execution is what its log folds to, after all of this', async () => {
  expect(await service.brokenLaws()).toEqual([]);
});
