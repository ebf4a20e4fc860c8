import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import type { EventPageRequest, ExecutionListRequest, ReadService } from '../../actors/services.ts';
import { readMigrations } from '../../src/store/migrate.ts';
import { createDatabase } from '../../src/store/pool.ts';
import { createReads } from '../../src/store/reads.ts';
import { createStore } from '../../src/store/store.ts';
import { command, event, execution, flush, held } from '../conformance/rows.ts';
import { addCatalogEntry, databaseConfig, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { quiet } from '../support/postgres.ts';

const ALL: ExecutionListRequest = {
  page: 1,
  pageSize: 100,
  beforeExecutionId: null,
  statuses: [],
  path: null,
  catalogId: null,
  kind: null,
  parentExecutionId: null,
  rootExecutionId: null,
  rootsOnly: false,
  startedAfter: null,
  startedBefore: null,
  minDurationSeconds: null,
  labels: [],
  q: null,
  error: null,
  order: '-start_time',
};
const LOG: EventPageRequest = {
  page: 1,
  pageSize: 100,
  sinceEventId: null,
  untilEventId: null,
  types: [],
  statuses: [],
  step: null,
  commandId: null,
  q: null,
  order: 'asc',
};

let db: TestDatabase;
let reads: ReadService;
const numbers = createSeededIds(5_001);
const [root, child, failed] = [numbers.next(), numbers.next(), numbers.next()];

beforeAll(async () => {
  db = await openTestDatabase();
  reads = createReads(db.database);
  await addCatalogEntry(db.database, 901, 'other/Path_');
  const ended = { progress: 100, endTime: '2026-11-20T10:20:30.000Z' } as const;
  await createStore(db.database).commit(
    flush({
      started: [
        execution(root, db.catalogId, { startTime: '2026-11-20T10:00:00.000Z', labels: { team: 'a', env: 'x' } }),
        execution(child, db.catalogId, {
          startTime: '2026-11-20T10:10:00.000Z',
          parentExecutionId: root,
          rootExecutionId: root,
          status: 'completed',
          ...ended,
          result: { ok: true },
          labels: { team: 'a' },
        }),
        execution(failed, 901, {
          path: 'other/Path_',
          startTime: '2026-11-20T10:20:00.000Z',
          status: 'failed',
          ...ended,
          error: 'Failed steps: fetch: Boom 100%',
        }),
      ],
      events: [
        event(root, db.catalogId, 1),
        event(root, db.catalogId, 2, { type: 'step.enter', nodeName: 'fetch' }),
        event(root, db.catalogId, 3, { type: 'call.done', status: 'completed', nodeName: 'fetch', commandId: 7 }),
        event(root, db.catalogId, 4, { type: 'call.error', status: 'failed', nodeName: 'load', error: 'Boom 100%' }),
      ],
      issued: [
        command(root, db.catalogId, 8001),
        command(root, db.catalogId, 8002, held('w1')),
        command(child, db.catalogId, 8003, { status: 'FAILED', completedAt: ended.endTime }),
      ],
    }),
  );
});
afterAll(() => db.close());

const listed = async (more: Partial<ExecutionListRequest>) =>
  (await reads.executions({ ...ALL, ...more })).rows.map((row) => row.executionId);

describe('the list of executions', () => {
  const cases: readonly [string, Partial<ExecutionListRequest>, readonly number[]][] = [
    ['newest first', {}, [failed, child, root]],
    ['oldest first', { order: 'start_time' }, [root, child, failed]],
    ['longest first', { order: '-duration' }, [root, child, failed]],
    ['shortest first', { order: 'duration' }, [failed, child, root]],
    ['a page', { page: 2, pageSize: 1 }, [child]],
    ['before an execution', { beforeExecutionId: child }, [root]],
    ['before an execution, oldest first', { beforeExecutionId: child, order: 'start_time' }, [failed]],
    ['one status', { statuses: ['running'] }, [root]],
    ['several statuses', { statuses: ['running', 'failed'] }, [failed, root]],
    ['a path', { path: 'suite/flow' }, [child, root]],
    ['a path prefix, read literally', { path: 'other/Path_*' }, [failed]],
    ['a path prefix that is no pattern', { path: 'suite_*' }, []],
    ['a catalog entry', { catalogId: 901 }, [failed]],
    ['a kind', { kind: 'agent' }, []],
    ['a parent', { parentExecutionId: root }, [child]],
    ['a root', { rootExecutionId: root }, [child, root]],
    ['roots', { rootsOnly: true }, [failed, root]],
    ['started after', { startedAfter: '2026-11-20T10:10:00.000Z' }, [failed, child]],
    ['started before', { startedBefore: '2026-11-20T10:10:00.000Z' }, [root]],
    ['a duration', { minDurationSeconds: 600, statuses: ['completed', 'failed'] }, [child]],
    [
      'labels',
      {
        labels: [
          ['team', 'a'],
          ['env', 'x'],
        ],
      },
      [root],
    ],
    ['a text in the path', { q: 'PATH_' }, [failed]],
    ['an id', { q: String(root) }, [root]],
    ['an error', { error: 'boom 100%' }, [failed]],
  ];
  test.each(cases)('filters: %s', async (_, request, expected) => {
    expect(await listed(request)).toEqual(expected);
  });

  test('counts what the filters match, not what the page shows', async () => {
    expect(await reads.executions({ ...ALL, rootsOnly: true, pageSize: 1, beforeExecutionId: failed })).toMatchObject({
      total: 2,
      totalIsExact: true,
      rows: [{ executionId: root }],
    });
  });

  const ends: readonly [Partial<ExecutionListRequest>, boolean][] = [
    [{ pageSize: 3 }, false],
    [{ pageSize: 2 }, true],
    [{ pageSize: 2, page: 2 }, false],
    [{ pageSize: 2, order: '-duration' }, true],
    [{ pageSize: 2, beforeExecutionId: failed }, false],
    [{ pageSize: 1, beforeExecutionId: failed }, true],
  ];
  test.each(ends)('%j has more behind it: %s', async (request, hasMore) => {
    expect((await reads.executions({ ...ALL, ...request })).hasMore).toBe(hasMore);
  });

  test('leaves out versions of playbooks as if they had no runs', async () => {
    const page = await reads.executions({ ...ALL, exceptCatalogIds: [901, 902] });
    expect(page).toMatchObject({ rows: [{ executionId: child }, { executionId: root }], total: 2 });
    expect(await listed({ exceptCatalogIds: [] })).toEqual([failed, child, root]);
  });

  test('gives one execution as the store has it', async () => {
    expect(await reads.execution(child)).toMatchObject({ executionId: child, result: { ok: true }, progress: 100 });
    expect(await reads.execution(1)).toBeNull();
  });
});

describe('the pages of a log', () => {
  const cases: readonly [string, Partial<EventPageRequest>, readonly number[], number | null][] = [
    ['oldest first', {}, [1, 2, 3, 4], 4],
    ['newest first', { order: 'desc', pageSize: 2 }, [4, 3], 4],
    ['a second page', { page: 2, pageSize: 3 }, [4], 4],
    ['after a number, without a total', { sinceEventId: 2 }, [3, 4], null],
    ['up to a number', { untilEventId: 2 }, [1, 2], 2],
    ['a type', { types: ['call.done'] }, [3], 1],
    ['a prefix and a type', { types: ['call.*', 'execution.started'] }, [1, 3, 4], 3],
    ['statuses', { statuses: ['failed', 'completed'] }, [3, 4], 2],
    ['a step', { step: 'fetch' }, [2, 3], 2],
    ['a command', { commandId: 7 }, [3], 1],
    ['a text', { q: 'BOOM 100%' }, [4], 1],
  ];
  test.each(cases)('%s', async (_, request, expected, total) => {
    const answer = await reads.events(root, { ...LOG, ...request });
    expect(answer.events.map((one) => one.eventId)).toEqual(expected);
    expect(answer.total).toBe(total);
  });

  test.each([
    [{ sinceEventId: 2, pageSize: 2 }, false],
    [{ sinceEventId: 1, pageSize: 2 }, true],
    [{ pageSize: 4 }, false],
    [{ pageSize: 2, order: 'desc' as const }, true],
  ])('%j has more behind it: %s', async (request, hasMore) => {
    expect((await reads.events(root, { ...LOG, ...request })).hasMore).toBe(hasMore);
  });

  test('of an unknown execution are empty', async () => {
    expect(await reads.events(1, LOG)).toEqual({ events: [], total: 0, hasMore: false });
  });
});

test('commands are found by what they are and who has them', async () => {
  const found = async (filter: Parameters<ReadService['commands']>[0]) =>
    (await reads.commands(filter)).map((row) => row.commandId);
  expect(await found({ limit: 10 })).toEqual([8001, 8002, 8003]);
  expect(await found({ executionId: root, limit: 10 })).toEqual([8001, 8002]);
  expect(await found({ statuses: ['CLAIMED', 'RUNNING', 'FAILED'], limit: 10 })).toEqual([8002, 8003]);
  expect(await found({ workerId: 'w1', limit: 10 })).toEqual([8002]);
  expect(await found({ pool: 'other', limit: 10 })).toEqual([]);
  expect(await found({ exceptCatalogIds: [db.catalogId], limit: 10 })).toEqual([]);
  expect(await found({ after: 8001, limit: 1 })).toEqual([8002]);
  expect(await found({ olderThanSeconds: 1e9, limit: 10 })).toEqual([]);
});

test('the dashboard counts, and many viewers share one count', async () => {
  const [one, other] = await Promise.all([reads.dashboard(), reads.dashboard()]);
  expect(one).toMatchObject({ totalExecutions: 3, running: 1, completed: 1, failed: 1, cancelled: 0 });
  expect(one).toMatchObject({ playbooks: 2, workers: 0, queueDepth: 1 });
  expect(other).toBe(one);
});

test('health and schema tell the version and what is missing', async () => {
  const newest = (await readMigrations()).at(-1)?.version;
  expect(await reads.health()).toEqual({ database: 'ok', schemaVersion: newest });
  const whole = await reads.schema();
  expect(whole.missing).toEqual([]);
  expect(whole.tables).toContain('event');
  expect(whole.tables).not.toContain('event_p0');
  const nowhere = createDatabase(databaseConfig('postgres://nobody@127.0.0.1:1/none'), quiet);
  expect(await createReads(nowhere).health()).toEqual({ database: 'down', schemaVersion: null });
  await nowhere.close();
});

describe('with many rows', () => {
  test('no read of a list or a log scans a whole table', async () => {
    await db.database.reads.run(
      `insert into core.execution (execution_id, root_execution_id, catalog_id, path, version, kind, pool, status,
         workload, last_event_id, handled_through, engine_version, machine_version, start_time, end_time, progress,
         error, labels)
       select n, n, 901, 'other/Path_', 1, 'playbook', 'shared', case n % 50 when 0 then 'failed' else 'completed' end,
         '{}', 1, 1, 1, 1, now() - n * interval '1 second', now(), 100, case n % 50 when 0 then 'x' end,
         jsonb_build_object('n', n::text)
       from generate_series(10000, 32000) as n`,
    );
    await db.database.reads.run('vacuum analyze core.execution');
    const explained: string[] = [];
    const watching = {
      reads: {
        ...db.database.reads,
        async rows<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
          const plan = await db.database.reads.rows<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
          explained.push(`${plan.map((line) => line['QUERY PLAN']).join('\n')}\n`);
          return db.database.reads.rows<Row & Record<string, unknown>>(text, values);
        },
      },
    };
    const watched = createReads(watching);
    expect((await watched.executions(ALL)).totalIsExact).toBe(false);
    for (const request of [
      { statuses: ['running'] as const },
      { path: 'suite/flow' },
      { q: '5001' },
      { rootExecutionId: root },
      { parentExecutionId: root },
      { labels: [['n', '12000']] as const },
      { error: 'x', pageSize: 10 },
      { beforeExecutionId: 12_000 },
    ]) {
      await watched.executions({ ...ALL, ...request });
    }
    await watched.events(root, LOG);
    await watched.commands({ statuses: ['PENDING'], pool: 'shared', limit: 10 });
    expect(explained.length).toBeGreaterThan(15);
    for (const plan of explained) expect(plan).not.toMatch(/Seq Scan on (execution|event|command)/);
  });
});
