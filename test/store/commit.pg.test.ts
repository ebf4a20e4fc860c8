import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import { type Store, UnavailableError } from '../../actors/ports.ts';
import { REHEARSAL, statementsOf } from '../../src/store/commit.ts';
import { createPipeline } from '../../src/store/pipeline.ts';
import { createDatabase } from '../../src/store/pool.ts';
import { createStore } from '../../src/store/store.ts';
import { change, command, event, execution, flush, head, held, result } from '../conformance/rows.ts';
import { databaseConfig, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { queryRows, quiet } from '../support/postgres.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

let db: TestDatabase;
let store: Store;
const numbers = createSeededIds();

beforeAll(async () => {
  db = await openTestDatabase();
  store = createStore(db.database);
});
afterAll(() => db.close());

/** A worker's report for each of these executions: two events, a settled command, a new one, the head. */
function reports(ids: readonly number[], commands: readonly ReturnType<typeof command>[], from: number) {
  return flush({
    events: ids.flatMap((id) => [event(id, db.catalogId, from + 1), event(id, db.catalogId, from + 2)]),
    issued: ids.map((id) => command(id, db.catalogId, numbers.next(), { eventId: from + 2 })),
    commands: commands.map((row) =>
      change(row, { ...held('w'), status: 'COMPLETED', completedAt: row.createdAt, nextWakeAt: null }),
    ),
    heads: ids.map((id) => head(id, from, from + 2)),
    results: ids.map((id) => result(id, numbers.next(), { id })),
  });
}

async function start(count: number) {
  const ids = Array.from({ length: count }, () => numbers.next());
  const commands = ids.map((id) => command(id, db.catalogId, numbers.next(), { eventId: 1 }));
  await store.commit(
    flush({
      started: ids.map((id) => execution(id, db.catalogId, { path: `suite/${id}` })),
      events: ids.map((id) => event(id, db.catalogId, 1)),
      issued: commands,
    }),
  );
  return { ids, commands };
}

describe('a flush', () => {
  test('takes the same statements for one execution and for two hundred, and leaves out those without rows', async () => {
    const one = await start(1);
    const many = await start(200);
    const names = (of: ReturnType<typeof reports>) => statementsOf(of).map((statement) => statement.name);
    expect(names(reports(many.ids, many.commands, 1))).toEqual(names(reports(one.ids, one.commands, 1)));
    expect(names(reports(one.ids, one.commands, 1))).toEqual(['lock', 'append', 'issue', 'keep', 'change', 'head']);
    expect(names(flush({ events: [event(1, 1, 2)] }))).toEqual(['lock', 'append']);
  });

  test('never scans a table, however its plans were made', async () => {
    const { ids, commands } = await start(3);
    const pipeline = createPipeline(db.url, 'plans', quiet, REHEARSAL);
    for (const statement of statementsOf(reports(ids, commands, 1))) {
      const values = statement.values.map((value) => literal(value)).join(', ');
      await pipeline.send([{ name: statement.name, text: statement.text, values: statement.values.map(emptied) }]);
      const [, plan] = await pipeline.send([
        { name: 'off', text: 'begin', values: [] },
        { name: '', text: `explain (costs off) execute "${statement.name}" (${values})`, values: [] },
        { name: 'on', text: 'rollback', values: [] },
      ]);
      const text = (plan?.rows ?? []).map((row: { 'QUERY PLAN': string }) => row['QUERY PLAN']).join('\n');
      expect(text).not.toMatch(/Seq Scan|Hash Join|Merge Join/);
    }
    await pipeline.close();
  });

  test('keeps the bytes of each result by itself, whatever they are', async () => {
    const { ids } = await start(1);
    const [id = 0] = ids;
    const values = [
      { text: 'é ☃ 😀' },
      '',
      { lone: '\ud800', nul: '\u0000', quote: '"\\' },
      'a'.repeat(20_000),
      [1, 2],
    ];
    await store.commit(flush({ results: values.map((value) => result(id, numbers.next(), value)) }));
    const rows = await queryRows<{ data: string; right: boolean }>(
      db.url,
      `select convert_from(data, 'UTF8') as data, length(data) = bytes as right
       from core.result where execution_id = $1 order by result_id`,
      [id],
    );
    expect(rows).toEqual(values.map((value) => ({ data: JSON.stringify(value), right: true })));
  });

  test('updates heads within their page, so that no index is touched', async () => {
    const { ids } = await start(1);
    const [id = 0] = ids;
    // Sessions hand in their counts when they end.
    const own = createDatabase(databaseConfig(db.url), quiet);
    const writer = createStore(own);
    let handled = 1;
    for (let n = 1; n <= 60; n += 1) {
      const through = n <= 20 ? n + (n % 2) : n + 1;
      const more = { expectedHandledThrough: handled, handledThrough: through };
      await writer.commit(flush({ events: [event(id, db.catalogId, n + 1)], heads: [head(id, n, n + 1, more)] }));
      handled = through;
    }
    await own.close();
    let counts = { updated: 0, hot: 0 };
    while (counts.updated < 60) {
      const rows = await queryRows<typeof counts>(
        db.url,
        `select n_tup_upd::int as updated, n_tup_hot_upd::int as hot from pg_stat_user_tables
         where schemaname = 'core' and relname = 'execution'`,
      );
      counts = rows[0] ?? counts;
    }
    // Each of the first twenty flips the inbox and moves the row in one index; the rest stays in the page.
    expect(counts.hot).toBeGreaterThanOrEqual(35);
  });

  test('whose answer is lost is unavailable and may have happened', async () => {
    const url = new URL(db.url.replace('@/', '@socket/'));
    const directory = url.searchParams.get('host');
    const port = url.searchParams.get('port') ?? '5432';
    const proxy = await startTcpProxy(
      directory === null ? { port: Number(url.port) } : { path: `${directory}/.s.PGSQL.${port}` },
    );
    const through = `postgres://${url.username}:${url.password}@127.0.0.1:${proxy.port}${url.pathname}`;
    const database = createDatabase(databaseConfig(through), quiet);
    const distant = createStore(database);
    const id = numbers.next();
    await distant.commit(flush({ started: [execution(id, db.catalogId)], events: [event(id, db.catalogId, 1)] }));
    proxy.dropAnswers();
    const lost = distant.commit(flush({ events: [event(id, db.catalogId, 2)], heads: [head(id, 1, 2)] }));
    const failure = expect(lost).rejects.toThrow(UnavailableError);
    while ((await store.execution(id))?.lastEventId !== 2);
    proxy.cut();
    await failure;
    // The connection is replaced by the next use.
    await distant.commit(flush({ events: [event(id, db.catalogId, 3)], heads: [head(id, 2, 3)] }));
    expect((await store.execution(id))?.lastEventId).toBe(3);
    await database.close();
    await proxy.close();
  });

  test('ends with the sentence of the database when a value cannot be stored', async () => {
    const { ids } = await start(1);
    const [id = 0] = ids;
    await expect(
      store.commit(flush({ events: [event(id, db.catalogId, 2, { context: { text: 'a\u0000b' } })] })),
    ).rejects.toMatchObject({ code: '22P05' });
    await store.commit(flush({ events: [event(id, db.catalogId, 2)], heads: [head(id, 1, 2)] }));
  });

  test('waits for an operator who holds the lock of its execution', async () => {
    const { ids } = await start(1);
    const [id = 0] = ids;
    let committed = false;
    const order: string[] = [];
    await db.database.reads.transaction(async (tx) => {
      await tx.rows(`select pg_advisory_xact_lock(hashtextextended('core.execution', $1))`, [id]);
      store.commit(flush({ events: [event(id, db.catalogId, 2)], heads: [head(id, 1, 2)] })).then(() => {
        committed = true;
        order.push('flush');
      });
      const waiting = `select from pg_locks where locktype = 'advisory' and not granted`;
      while ((await queryRows(db.url, waiting)).length === 0);
      expect(committed).toBe(false);
      order.push('operator');
    });
    while (!committed) await queryRows(db.url, 'select 1');
    expect(order).toEqual(['operator', 'flush']);
  });
});

function literal(value: unknown): string {
  return Array.isArray(value) ? `'{${value.join(',')}}'` : `'${String(value).replaceAll("'", "''")}'`;
}

function emptied(value: unknown): unknown {
  return Array.isArray(value) ? [] : '[]';
}

describe('a row that an operator writes by hand', () => {
  test('needs only the columns of the interface: its cause is itself, and its node the playbook', async () => {
    const {
      ids: [id = 0],
    } = await start(1);
    await queryRows(
      db.url,
      `insert into core.event (execution_id, event_id, event_type, node_id, status, context, catalog_id, created_at)
       values ($1, 2, 'execution.cancelled', 'workflow', 'cancelled', '{"reason": "manual"}', $2, now())`,
      [id, db.catalogId],
    );
    expect(
      await queryRows(
        db.url,
        'select cause_id::int, node_name from core.event where execution_id = $1 and event_id = 2',
        [id],
      ),
    ).toEqual([{ cause_id: 2, node_name: `suite/${id}` }]);
  });
});
