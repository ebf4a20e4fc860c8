/**
 * The list of executions and its filters. Every filter leads to an index: path and text filters go through the
 * catalog, which is small; error texts only exist on ended runs. Durations have no index, so that order applies to the
 * newest ten thousand matches.
 */
import type { ExecutionRow } from '../../actors/ports.ts';
import type { ExecutionListRequest } from '../../actors/services.ts';
import { addExcept, type Conditions, createConditions } from './conditions.ts';
import type { Sql } from './pool.ts';
import { EXECUTION_COLUMNS, OPEN } from './rows.ts';

/** Counts and sorts stop here; a total beyond it is not exact. */
const COUNTED_MAX = 10_000;
const ID = /^[1-9]\d{0,15}$/;

export async function listExecutions(
  sql: Sql,
  request: ExecutionListRequest,
): Promise<{ rows: ExecutionRow[]; total: number; totalIsExact: boolean; hasMore: boolean }> {
  const entries = await matchingEntries(sql, request);
  const [found, counted] = await Promise.all([page(sql, request, entries), count(sql, request, entries)]);
  const rows = found.slice(0, request.pageSize);
  const total = Math.min(counted, COUNTED_MAX);
  return { rows, total, totalIsExact: counted <= COUNTED_MAX, hasMore: found.length > rows.length };
}

/** Catalog ids the path filters mean; null without such a filter. Looked up first, so that the plan knows how many. */
interface Entries {
  readonly ofPrefix: readonly number[] | null;
  readonly ofText: readonly number[] | null;
}

async function matchingEntries(sql: Sql, { path, q }: ExecutionListRequest): Promise<Entries> {
  const ids = async (condition: string, value: string) => {
    const rows = await sql.rows<{ id: number }>(`select catalog_id as id from core.catalog where ${condition}`, [
      value,
    ]);
    return rows.map((row) => row.id);
  };
  return {
    ofPrefix: path?.endsWith('*') ? await ids('starts_with(path, $1)', path.slice(0, -1)) : null,
    ofText: q === null ? null : await ids('position(lower($1) in lower(path)) > 0', q),
  };
}

/** One row more than the page has, where there is one. */
function page(sql: Sql, request: ExecutionListRequest, entries: Entries): Promise<ExecutionRow[]> {
  const where = conditionsOf(request, entries);
  if (request.beforeExecutionId !== null) {
    const side = request.order === 'start_time' ? '>' : '<';
    where.add(
      `(start_time, execution_id) ${side} (select start_time, execution_id from core.execution where execution_id = ?)`,
      request.beforeExecutionId,
    );
  }
  const limit = where.bind(request.pageSize + 1);
  const offset = where.bind((request.page - 1) * request.pageSize);
  if (request.order === 'start_time' || request.order === '-start_time') {
    const direction = request.order === 'start_time' ? 'asc' : 'desc';
    return sql.rows<ExecutionRow>(
      `select ${EXECUTION_COLUMNS}
       from core.execution
       ${where.clause()}
       order by start_time ${direction}, execution_id ${direction}
       limit ${limit} offset ${offset}`,
      where.values,
    );
  }
  const direction = request.order === 'duration' ? 'asc' : 'desc';
  return sql.rows<ExecutionRow>(
    `select ${EXECUTION_COLUMNS}
     from (
       select *
       from core.execution
       ${where.clause()}
       order by start_time desc, execution_id desc
       limit ${COUNTED_MAX}
     ) as newest
     order by coalesce(end_time, now()) - start_time ${direction}, execution_id ${direction}
     limit ${limit} offset ${offset}`,
    where.values,
  );
}

async function count(sql: Sql, request: ExecutionListRequest, entries: Entries): Promise<number> {
  const where = conditionsOf(request, entries);
  const rows = await sql.rows<{ counted: number }>(
    `select count(*) as counted
     from (select from core.execution ${where.clause()} limit ${COUNTED_MAX + 1}) as matches`,
    where.values,
  );
  return rows[0]?.counted ?? 0;
}

function conditionsOf(request: ExecutionListRequest, entries: Entries): Conditions {
  const where = createConditions();
  // One status keeps the order of the index; several need a sort.
  if (request.statuses.length === 1) where.add('status = ?', request.statuses[0]);
  else if (request.statuses.length > 1) where.add('status = any(?::text[])', request.statuses);
  if (entries.ofPrefix !== null) where.add('catalog_id = any(?::bigint[])', entries.ofPrefix);
  else if (request.path !== null) where.add('path collate "C" = ?', request.path);
  if (request.catalogId !== null) where.add('catalog_id = ?', request.catalogId);
  if (request.kind !== null) where.add('kind = ?', request.kind);
  if (request.parentExecutionId !== null) where.add('parent_execution_id = ?', request.parentExecutionId);
  if (request.rootExecutionId !== null) where.add('root_execution_id = ?', request.rootExecutionId);
  if (request.rootsOnly) where.addFixed('parent_execution_id is null');
  if (request.startedAfter !== null) where.add('start_time >= ?', request.startedAfter);
  if (request.startedBefore !== null) where.add('start_time < ?', request.startedBefore);
  if (request.minDurationSeconds !== null) {
    where.add('coalesce(end_time, now()) - start_time >= make_interval(secs => ?)', request.minDurationSeconds);
  }
  for (const [name, value] of request.labels) where.add('labels @> ?::jsonb', JSON.stringify({ [name]: value }));
  if (entries.ofText !== null) {
    const byPath = `catalog_id = any(${where.bind(entries.ofText)}::bigint[])`;
    if (ID.test(request.q ?? '')) where.add(`execution_id = ? or ${byPath}`, request.q);
    else where.addFixed(byPath);
  }
  if (request.stuck === true) where.addFixed(STUCK);
  addExcept(where, request.exceptCatalogIds);
  if (request.error !== null) {
    where.add(`status in ('failed', 'cancelled') and position(lower(?) in lower(error)) > 0`, request.error);
  }
  return where;
}

// Nothing that is alive or planned can move it (api 2.3.13): no inbox, no child that has ended or runs, no claim of a live
// worker, no ready worker for its pools; or somebody should have looked a minute ago.
const STUCK = `
  status = 'running' and (
    not has_inbox and not exists (
      select from core.command
      where command.execution_id = execution.execution_id and command.${OPEN} and (
        command.parked_on is not null
        or exists (
          select from core.runtime
          where runtime.kind = 'worker_pool' and runtime.status = 'ready'
            and runtime.heartbeat > clock_timestamp() - make_interval(secs => runtime.offline_after_seconds)
            and (runtime.name = command.worker_id or command.pool = any (runtime.pools))))
    )
    or exists (
      select from core.command
      where command.execution_id = execution.execution_id and command.${OPEN} and command.parked_on is null
        and command.next_wake_at < clock_timestamp() - interval '1 minute')
  )`;
