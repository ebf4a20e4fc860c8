/**
 * The log as inspection reads it: rows in the order of the fold, found by the index on (execution, cause, event), with
 * values cut off in the database. Twenty thousand rows of a run with large results are then a few megabytes.
 */
import type { ExecutionRow } from '../../actors/ports.ts';
import type { Trail, TrailPosition } from '../../actors/trail.ts';
import type { LogEvent } from '../../machines/events.ts';
import { type StateColumn, stateInKeyOrder } from './key-order.ts';
import type { Sql } from './pool.ts';
import { EXECUTION_COLUMNS } from './rows.ts';

export function createTrail(sql: Sql): Trail {
  return {
    async head(executionId) {
      const rows = await sql.rows<ExecutionRow & { state: StateColumn | null }>(
        `select ${EXECUTION_COLUMNS}, state from core.execution where execution_id = $1`,
        [executionId],
      );
      const [found] = rows;
      if (found === undefined) return null;
      const { state, ...row } = found;
      return { row, snapshot: state === null ? null : stateInKeyOrder(state, row.machineVersion) };
    },
    async locate(executionId, eventId) {
      const rows = await sql.rows<TrailPosition>(
        `select cause_id as "causeId", event_id as "eventId"
         from core.event
         where execution_id = $1 and event_id = $2`,
        [executionId, eventId],
      );
      return rows[0] ?? null;
    },
    rows: (executionId, after, handledThrough, limit) =>
      sql.rows<LogEvent>(ROWS, [executionId, after.causeId, after.eventId, handledThrough, limit]),
  };
}

/** What evolve.ts reads of each type of event, and nothing else. */
const ROWS = `
select
  event_id as "eventId", cause_id as "causeId", event_type as "type", status, node_id as "nodeId",
  node_name as "nodeName", node_type as "nodeType", parent_event_id as "parentEventId",
  null as "parentExecutionId", command_id as "commandId", attempt, worker_id as "workerId",
  null as "reportId", null as "reportSeq", closes, stale, duration,
  case event_type
    when 'step.enter' then context - '{collection,collection_ref}'::text[]
    when 'step.skipped' then jsonb_build_object('reason', context -> 'reason')
    when 'command.completed' then jsonb_build_object(
      'pending_callback', context -> 'pending_callback', 'child_execution_id', context -> 'child_execution_id')
    when 'loop.done' then jsonb_build_object('stats', context -> 'stats')
    when 'ctx.updated' then jsonb_build_object('values', coalesce(
      (select jsonb_object_agg(name, null) from jsonb_object_keys(context -> 'values') as name), '{}'))
    else '{}'
  end as context,
  null as result, left(error, 500) as error,
  case when event_type in ('command.issued', 'ctx.updated', 'step.exit') then meta - 'key_order' else '{}' end as meta,
  engine_version as "engineVersion", created_at as "at"
from core.event
where execution_id = $1 and (cause_id, event_id) > ($2, $3) and cause_id <= $4
order by execution_id, cause_id, event_id
limit $5`;
