/** The questions that change nothing (ReadService), answered from rows over the general pool. */
import { setTimeout as delay } from 'node:timers/promises';
import { type CommandRow, type CommandStatus, type ExecutionRow, UnavailableError } from '../../actors/ports.ts';
import type { ReadService } from '../../actors/services.ts';
import { addExcept, createConditions } from './conditions.ts';
import { pageEvents } from './event-page.ts';
import { listExecutions } from './execution-list.ts';
import { commandsInKeyOrder } from './key-order.ts';
import type { Database, Sql } from './pool.ts';
import { COMMAND_COLUMNS, EXECUTION_COLUMNS } from './rows.ts';

type Dashboard = Awaited<ReturnType<ReadService['dashboard']>>;
type CommandFilter = Parameters<ReadService['commands']>[0];

const DASHBOARD_FOR_MS = 5_000;
const HEALTH_WITHIN_MS = 2_000;

/** Every table of the schema; the partitions of three of them come and go. */
const TABLES = [
  'api_token',
  'audit',
  'batch_request',
  'catalog',
  'command',
  'credential',
  'encryption_key',
  'event',
  'execution',
  'keychain',
  'keychain_event',
  'lease',
  'resource',
  'result',
  'runtime',
  'schedule',
  'schema_migration',
  'session',
  'test_suite',
  'transient',
] as const;

export function createReads(database: Pick<Database, 'reads'>): ReadService {
  const sql = database.reads;
  let dashboard: { readonly at: number; readonly answer: Promise<Dashboard> } | null = null;
  return {
    async execution(executionId) {
      const text = `select ${EXECUTION_COLUMNS} from core.execution where execution_id = $1`;
      return (await sql.rows<ExecutionRow>(text, [executionId]))[0] ?? null;
    },
    executions: (request) => listExecutions(sql, request),
    events: (executionId, request) => pageEvents(sql, executionId, request),
    commands: (filter) => listCommands(sql, filter),
    dashboard() {
      // Many viewers poll it; all get one answer for a few seconds, and a failed one is not kept.
      if (dashboard === null || performance.now() - dashboard.at > DASHBOARD_FOR_MS) {
        const mine = { at: performance.now(), answer: countAll(sql) };
        dashboard = mine;
        mine.answer.catch(() => {
          if (dashboard === mine) dashboard = null;
        });
      }
      return dashboard.answer;
    },
    async health() {
      const late = new AbortController();
      const down = { database: 'down', schemaVersion: null } as const;
      try {
        return await Promise.race([
          schemaVersion(sql).then((version) => ({ database: 'ok', schemaVersion: version }) as const),
          delay(HEALTH_WITHIN_MS, down, { signal: late.signal, ref: false }),
        ]);
      } catch (error) {
        // A full pool says nothing about the database, but this process cannot use it.
        if (error instanceof UnavailableError) return down;
        throw error;
      } finally {
        late.abort();
      }
    },
    async schema() {
      const rows = await sql.rows<{ name: string }>(
        `select relname as name from pg_class
         where relnamespace = 'core'::regnamespace and relkind in ('r', 'p') and not relispartition
         order by relname`,
      );
      const tables = rows.map((row) => row.name);
      const missing = TABLES.filter((name) => !tables.includes(name));
      return { version: (await schemaVersion(sql)) ?? 0, tables, missing };
    },
    poolStatus: () => sql.status(),
  };
}

async function schemaVersion(sql: Sql): Promise<number | null> {
  const rows = await sql.rows<{ version: number | null }>('select max(version) as version from core.schema_migration');
  return rows[0]?.version ?? null;
}

/** By command id. Statuses become part of the text, so that the partial indexes can be used. */
async function listCommands(sql: Sql, filter: CommandFilter): Promise<CommandRow[]> {
  const where = createConditions();
  if (filter.executionId !== undefined) where.add('execution_id = ?', filter.executionId);
  if (filter.statuses !== undefined && filter.statuses.length > 0) {
    where.addFixed(`status in (${filter.statuses.map((status) => STATUS_LITERALS[status]).join(', ')})`);
  }
  if (filter.pool !== undefined) where.add('pool = ?', filter.pool);
  if (filter.workerId !== undefined) where.add('worker_id = ?', filter.workerId);
  if (filter.olderThanSeconds !== undefined) {
    where.add('created_at < now() - make_interval(secs => ?)', filter.olderThanSeconds);
  }
  if (filter.after !== undefined) where.add('command_id > ?', filter.after);
  addExcept(where, filter.exceptCatalogIds);
  const limit = where.bind(filter.limit);
  const rows = await sql.rows<CommandRow>(
    `select ${COMMAND_COLUMNS} from core.command ${where.clause()} order by command_id limit ${limit}`,
    where.values,
  );
  return commandsInKeyOrder(rows);
}

const STATUS_LITERALS: Readonly<Record<CommandStatus, string>> = {
  PENDING: `'PENDING'`,
  CLAIMED: `'CLAIMED'`,
  RUNNING: `'RUNNING'`,
  COMPLETED: `'COMPLETED'`,
  FAILED: `'FAILED'`,
  CANCELLED: `'CANCELLED'`,
};

async function countAll(sql: Sql): Promise<Dashboard> {
  const rows = await sql.rows<Omit<Dashboard, 'totalExecutions'>>(
    `with executions as (select status, count(*) as n from core.execution group by status)
     select
       coalesce((select n from executions where status = 'running'), 0) as running,
       coalesce((select n from executions where status = 'completed'), 0) as completed,
       coalesce((select n from executions where status = 'failed'), 0) as failed,
       coalesce((select n from executions where status = 'cancelled'), 0) as cancelled,
       (select count(distinct path) from core.catalog where kind in ('playbook', 'agent') and archived_at is null)
         as playbooks,
       (select count(*) from core.runtime where kind = 'worker_pool' and status <> 'offline') as workers,
       (select count(*) from core.command where status = 'PENDING') as "queueDepth",
       now() as "asOf"`,
  );
  const [counts] = rows;
  if (counts === undefined) throw new Error('a count has a row');
  return { totalExecutions: counts.running + counts.completed + counts.failed + counts.cancelled, ...counts };
}
