/**
 * Reads of the engine about executions and their logs. All go over one pipelined connection; what belongs together is
 * read in one snapshot of the database, in one round trip.
 */
import { gunzipSync } from 'node:zlib';
import type pg from 'pg';
import type { AbandonedChild, CommandRow, ExecutionRow, StoredExecution } from '../../actors/ports.ts';
import type { LogEvent } from '../../machines/events.ts';
import type { Json } from '../../machines/json.ts';
import { readReference } from '../../machines/playbook/reference.ts';
import { commandsInKeyOrder, inKeyOrder, type StateColumn, stateInKeyOrder } from './key-order.ts';
import type { Pipeline } from './pipeline.ts';
import { COMMAND_COLUMNS, EVENT_COLUMNS, EXECUTION_COLUMNS, OPEN } from './rows.ts';

/** Rows of one prepared statement. The caller names the row type its select list has. */
export async function lookUp<Row extends pg.QueryResultRow>(
  pipeline: Pipeline,
  name: string,
  text: string,
  values: readonly unknown[],
): Promise<Row[]> {
  const [result] = await pipeline.send([{ name, text, values }]);
  // The select list behind `name` makes rows of this type.
  return (result?.rows ?? []) as Row[];
}

interface ExecutionWithState extends ExecutionRow {
  readonly state: StateColumn | null;
}

/** Executions with their snapshots, the events after those, and their open commands. Unknown ids are left out. */
export async function loadExecutions(
  pipeline: Pipeline,
  ids: readonly number[],
): Promise<ReadonlyMap<number, StoredExecution>> {
  if (ids.length === 0) return new Map();
  const [, executions, events, commands] = await pipeline.send([
    { name: 'begin_snapshot', text: 'begin isolation level repeatable read read only', values: [] },
    { name: 'load_executions', text: LOAD_EXECUTIONS, values: [ids] },
    { name: 'load_tails', text: LOAD_TAILS, values: [ids] },
    { name: 'load_commands', text: LOAD_OPEN_COMMANDS, values: [ids] },
    { name: 'commit', text: 'commit', values: [] },
  ]);
  const tails = groupRows<LogEvent & { ofExecution: number }>(events, (row) => row.ofExecution);
  const open = groupRows<CommandRow>(commands, (row) => row.executionId);
  const loaded = new Map<number, StoredExecution>();
  // The select list of LOAD_EXECUTIONS makes rows of this type.
  for (const { state, ...row } of (executions?.rows ?? []) as ExecutionWithState[]) {
    loaded.set(row.executionId, {
      row,
      snapshot: state === null ? null : stateInKeyOrder(state, row.machineVersion),
      tail: inKeyOrder((tails.get(row.executionId) ?? []).map(({ ofExecution: _, ...event }) => event)),
      openCommands: commandsInKeyOrder(open.get(row.executionId) ?? []),
    });
  }
  return loaded;
}

/** Rows of the log, with the keys of their values in order. */
async function eventsOf(
  pipeline: Pipeline,
  name: string,
  text: string,
  values: readonly unknown[],
): Promise<LogEvent[]> {
  return inKeyOrder(await lookUp<LogEvent>(pipeline, name, text, values));
}

/** Rows of one log by their numbers, in order. */
export function eventsByNumber(
  pipeline: Pipeline,
  executionId: number,
  eventIds: readonly number[],
): Promise<LogEvent[]> {
  return eventsOf(pipeline, 'events_by_number', EVENTS_BY_NUMBER, [executionId, eventIds]);
}

/**
 * What closed the iterations of one loop activation, by iteration index: the call row, or the command's own closing row where
 * there is none. A parked command is not closed.
 */
export function iterationEvents(
  pipeline: Pipeline,
  executionId: number,
  step: string,
  activation: number,
): Promise<LogEvent[]> {
  const prefix = `${step}@${activation}#`;
  return eventsOf(pipeline, 'iteration_events', ITERATION_EVENTS, [executionId, prefix, `${prefix.slice(0, -1)}$`]);
}

/** Rows written for these reports, in order of their numbers. */
export function reportedEvents(
  pipeline: Pipeline,
  executionId: number,
  reportIds: readonly string[],
): Promise<LogEvent[]> {
  return eventsOf(pipeline, 'reported_events', REPORTED_EVENTS, [executionId, reportIds]);
}

/** Rows of one command that are not stale, from its `command.issued` on. */
export function eventsOfCommand(pipeline: Pipeline, executionId: number, commandId: number): Promise<LogEvent[]> {
  return eventsOf(pipeline, 'events_of_command', EVENTS_OF_COMMAND, [executionId, commandId]);
}

export async function endingOf(pipeline: Pipeline, executionId: number): Promise<LogEvent | null> {
  const [ending] = await eventsOf(pipeline, 'ending_of_execution', ENDING, [executionId]);
  return ending ?? null;
}

/** Reads no further than to the first row of another turn. */
export async function issuedAtStart(pipeline: Pipeline, executionId: number): Promise<number> {
  const rows = await lookUp<{ issued: number }>(pipeline, 'issued_at_start', ISSUED_AT_START, [executionId]);
  return rows[0]?.issued ?? 0;
}

export async function executionById(pipeline: Pipeline, executionId: number): Promise<ExecutionRow | null> {
  const rows = await lookUp<ExecutionRow>(pipeline, 'execution_by_id', EXECUTION_BY_ID, [executionId]);
  return rows[0] ?? null;
}

export function endedExecutions(pipeline: Pipeline, executionIds: readonly number[]): Promise<ExecutionRow[]> {
  return lookUp(pipeline, 'execution_ended', ENDED_EXECUTIONS, [executionIds]);
}

export async function executionByKey(pipeline: Pipeline, path: string, key: string): Promise<ExecutionRow | null> {
  const rows = await lookUp<ExecutionRow>(pipeline, 'execution_by_key', EXECUTION_BY_KEY, [path, key]);
  return rows[0] ?? null;
}

/** Running executions below this one, parents first; ended ones in between are passed through. */
export async function runningDescendants(pipeline: Pipeline, executionId: number): Promise<number[]> {
  return ids(await lookUp(pipeline, 'running_descendants', RUNNING_DESCENDANTS, [executionId]));
}

export async function runningSince(pipeline: Pipeline, before: string, limit: number): Promise<number[]> {
  return ids(await lookUp(pipeline, 'running_since', RUNNING_SINCE, [before, limit]));
}

/** Running children whose parent has given up waiting, or was ended by a cascade, so many seconds ago; by the database's clock. */
export function abandonedChildren(pipeline: Pipeline, seconds: number, limit: number): Promise<AbandonedChild[]> {
  return lookUp(pipeline, 'abandoned_children', ABANDONED_CHILDREN, [seconds, limit]);
}

/** Executions with events no turn has handled: by their head, or written behind its back by an operator (api 3.8). */
export async function executionsWithInbox(pipeline: Pipeline, limit: number): Promise<number[]> {
  return ids(await lookUp(pipeline, 'with_inbox', WITH_INBOX, [limit]));
}

/** The payload a reference names; undefined when there is none (any more). */
export async function payloadOf(pipeline: Pipeline, ref: string): Promise<Json | undefined> {
  const reference = readReference(ref);
  if (reference === null) return undefined;
  const rows = await lookUp<{ data: Buffer | null; encoding: 'json' | 'gzip' }>(pipeline, 'payload', PAYLOAD, [
    reference.executionId,
    ref,
  ]);
  const row = rows[0];
  if (row === undefined || row.data === null) return undefined;
  const text = (row.encoding === 'gzip' ? gunzipSync(row.data) : row.data).toString('utf8');
  // Only JSON text that this service wrote is stored there.
  return JSON.parse(text) as Json;
}

function groupRows<Row>(result: pg.QueryResult | undefined, keyOf: (row: Row) => number): Map<number, Row[]> {
  const groups = new Map<number, Row[]>();
  // The caller names the row type its select list has.
  for (const row of (result?.rows ?? []) as Row[]) {
    const group = groups.get(keyOf(row));
    if (group === undefined) groups.set(keyOf(row), [row]);
    else group.push(row);
  }
  return groups;
}

function ids(rows: readonly { id: number }[]): number[] {
  return rows.map((row) => row.id);
}

const LOAD_EXECUTIONS = `select ${EXECUTION_COLUMNS}, state from core.execution where execution_id = any($1::bigint[])`;

const LOAD_TAILS = `
select execution_id as "ofExecution", ${EVENT_COLUMNS}
from (
    select execution_id as id, coalesce((state ->> 'through_event_id')::bigint, 0) as through
    from core.execution
    where execution_id = any($1::bigint[])
  ) as head
  join core.event on execution_id = head.id and event_id > head.through
order by execution_id, event_id`;

const LOAD_OPEN_COMMANDS = `
select ${COMMAND_COLUMNS}
from core.command
where execution_id = any($1::bigint[]) and ${OPEN}
order by execution_id, event_id`;

const EVENTS_BY_NUMBER = `
select ${EVENT_COLUMNS}
from core.event
where execution_id = $1 and event_id = any($2::bigint[])
order by event_id`;

// The commands of a loop activation are a range of command keys; each finds its event by the natural key.
const ITERATION_EVENTS = `
select ${EVENT_COLUMNS}
from (
    select distinct on (command.iteration_index) event.*, command.iteration_index
    from core.command
      join core.event on event.execution_id = command.execution_id and event.command_id = command.command_id
        and not event.stale and event.event_type in ('call.done', 'call.error', 'command.completed', 'command.failed')
        and not event.context @> '{"pending_callback": true}'
        and event.event_type in ('command.started', 'call.done', 'call.error', 'step.exit', 'command.completed',
          'command.failed', 'command.cancelled')
    where command.execution_id = $1 and event.execution_id = $1
      and command.command_key >= $2 and command.command_key < $3
    order by command.iteration_index, event.event_id
  ) as closing
order by iteration_index`;

const REPORTED_EVENTS = `
select ${EVENT_COLUMNS}
from core.event
where execution_id = $1 and report_id = any($2::text[])
order by event_id`;

const EVENTS_OF_COMMAND = `
select ${EVENT_COLUMNS}
from core.event
where execution_id = $1 and command_id = $2 and not stale
  and event_id >= coalesce((
    select command.event_id from core.command where command.execution_id = $1 and command.command_id = $2), 1)
order by event_id`;

const ENDING = `
select ${EVENT_COLUMNS}
from core.event
where execution_id = $1 and event_type in ('playbook.completed', 'playbook.failed', 'execution.cancelled')`;

const ISSUED_AT_START = `
select count(*)::int as issued
from core.event
where execution_id = $1 and event_type = 'command.issued' and event_id < coalesce(
  (select event_id from core.event where execution_id = $1 and cause_id > 1 order by event_id limit 1), 9007199254740991)`;

const EXECUTION_BY_ID = `select ${EXECUTION_COLUMNS} from core.execution where execution_id = $1`;

const ENDED_EXECUTIONS = `
select ${EXECUTION_COLUMNS} from core.execution where execution_id = any($1::bigint[]) and status <> 'running'`;

const EXECUTION_BY_KEY = `select ${EXECUTION_COLUMNS} from core.execution where path = $1 and idempotency_key = $2`;

const RUNNING_DESCENDANTS = `
with recursive below as (
  select execution_id, status, 1 as depth from core.execution where parent_execution_id = $1
  union all
  select child.execution_id, child.status, depth + 1
  from below join core.execution as child on child.parent_execution_id = below.execution_id
  where depth < 100
)
select execution_id as id from below where status = 'running' order by depth, execution_id`;

// A wait is given up by the row that says that the run is failing, or by its own where it began after that (language 5.7);
// whoever ends a run from outside says himself what becomes of its children. A child that was not waited for, or that
// outlived its time-out, goes on.
const ABANDONED_CHILDREN = `
select child.execution_id as "executionId", child.parent_execution_id as "parentExecutionId"
from core.execution as child
  left join core.command on command.execution_id = child.parent_execution_id
    and command.command_id = child.parent_command_id and command.status = 'CANCELLED'
where child.status = 'running' and child.parent_execution_id is not null
  and exists (
    select from core.event as closing
    where closing.execution_id = child.parent_execution_id
      and closing.created_at <= clock_timestamp() - make_interval(secs => $1)
      and (
        closing.event_type = 'execution.cancelled' and closing.context ->> 'cancelled_by' = 'cascade'
        or closing.event_id = command.latest_event_id
          and (closing.event_type in ('ctx.updated', 'command.completed')
            or closing.event_type = 'playbook.failed' and closing.context #> '{error_detail,failed_steps,0}' is not null)
          and exists (
            select from core.event as parking
            where parking.execution_id = command.execution_id and parking.command_id = command.command_id
              and not parking.stale and parking.event_type = 'command.completed'
              and parking.event_type in ('command.started', 'call.done', 'call.error', 'step.exit', 'command.completed',
                'command.failed', 'command.cancelled')
              and parking.context ->> 'child_execution_id' = child.execution_id::text)
      )
  )
order by child.execution_id
limit $2`;

const RUNNING_SINCE = `
select execution_id as id
from core.execution
where status = 'running' and start_time < $1
order by start_time, execution_id
limit $2`;

const WITH_INBOX = `
select execution_id as id from core.execution where has_inbox
union
select execution_id
from core.execution
where status = 'running' and exists (
  select from core.event where event.execution_id = execution.execution_id and event.event_id = execution.last_event_id + 1)
order by id
limit $1`;

const PAYLOAD = `
select data, encoding
from core.result
where execution_id = $1 and ref = $2 and (expires_at is null or expires_at > now())`;
