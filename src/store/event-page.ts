/** Pages of one execution's log. All of it lies in one partition, found by the primary key. */
import type { EventPageRequest } from '../../actors/services.ts';
import type { LogEvent } from '../../machines/events.ts';
import { type Conditions, createConditions } from './conditions.ts';
import { inKeyOrder } from './key-order.ts';
import type { Sql } from './pool.ts';
import { EVENT_COLUMNS } from './rows.ts';

/** `total` counts what the filters match; null when a cursor is given. */
export async function pageEvents(
  sql: Sql,
  executionId: number,
  request: EventPageRequest,
): Promise<{ events: LogEvent[]; total: number | null; hasMore: boolean }> {
  const [found, total] = await Promise.all([page(sql, executionId, request), count(sql, executionId, request)]);
  const events = found.slice(0, request.pageSize);
  return { events, total, hasMore: found.length > events.length };
}

/** One row more than the page has, where there is one. */
async function page(sql: Sql, executionId: number, request: EventPageRequest): Promise<LogEvent[]> {
  const where = conditionsOf(executionId, request);
  if (request.sinceEventId !== null) where.add('event_id > ?', request.sinceEventId);
  const limit = where.bind(request.pageSize + 1);
  const offset = where.bind((request.page - 1) * request.pageSize);
  const rows = await sql.rows<LogEvent>(
    `select ${EVENT_COLUMNS}
     from core.event
     ${where.clause()}
     order by execution_id ${request.order}, event_id ${request.order}
     limit ${limit} offset ${offset}`,
    where.values,
  );
  return inKeyOrder(rows);
}

async function count(sql: Sql, executionId: number, request: EventPageRequest): Promise<number | null> {
  if (request.sinceEventId !== null) return null;
  const where = conditionsOf(executionId, request);
  // Numbers have no gaps, so without filters the highest one is the count.
  const what = isUnfiltered(request) ? 'coalesce(max(event_id), 0)' : 'count(*)';
  const rows = await sql.rows<{ total: number }>(
    `select ${what} as total from core.event ${where.clause()}`,
    where.values,
  );
  return rows[0]?.total ?? 0;
}

function isUnfiltered({ types, statuses, step, commandId, q }: EventPageRequest): boolean {
  return types.length === 0 && statuses.length === 0 && step === null && commandId === null && q === null;
}

function conditionsOf(executionId: number, request: EventPageRequest): Conditions {
  const where = createConditions();
  where.add('execution_id = ?', executionId);
  if (request.untilEventId !== null) where.add('event_id <= ?', request.untilEventId);
  if (request.types.length > 0) {
    const exact = where.bind(request.types.filter((type) => !type.endsWith('*')));
    const prefixes = where.bind(request.types.filter((type) => type.endsWith('*')).map((type) => type.slice(0, -1)));
    where.addFixed(
      `event_type = any(${exact}::text[])
       or exists (select from unnest(${prefixes}::text[]) as prefix where starts_with(event_type, prefix))`,
    );
  }
  if (request.statuses.length > 0) where.add('status = any(?::text[])', request.statuses);
  if (request.step !== null) where.add('node_name = ?', request.step);
  if (request.commandId !== null) where.add('command_id = ?', request.commandId);
  if (request.q !== null) {
    where.add(`position(lower(?) in lower(concat_ws(' ', event_type, node_name, worker_id, error))) > 0`, request.q);
  }
  return where;
}
