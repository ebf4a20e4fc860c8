/**
 * Reads of the engine about commands, and the two writes that never change a status: when to look again. Those writes
 * skip rows that a commit holds at that moment; the commit says when to look again itself.
 */
import type { CommandHint, CommandRow, ParkedCommand, ParkedWait, StoredHold } from '../../actors/ports.ts';
import { commandsInKeyOrder } from './key-order.ts';
import { lookUp } from './load.ts';
import type { Pipeline } from './pipeline.ts';
import { COMMAND_COLUMNS, HELD, HINT_COLUMNS, OPEN } from './rows.ts';

export async function commandById(pipeline: Pipeline, commandId: number): Promise<CommandRow | null> {
  const rows = await lookUp<CommandRow>(pipeline, 'command_by_id', COMMAND_BY_ID, [commandId]);
  return commandsInKeyOrder(rows)[0] ?? null;
}

/** Open commands granted to this worker under this claim, oldest first. */
export async function commandsClaimedBy(pipeline: Pipeline, claimId: string, workerId: string): Promise<CommandRow[]> {
  const rows = await lookUp<CommandRow>(pipeline, 'commands_claimed_by', CLAIMED_BY, [claimId, workerId]);
  return commandsInKeyOrder(rows);
}

export function pendingCommands(pipeline: Pipeline, pools: readonly string[], limit: number): Promise<CommandHint[]> {
  return lookUp(pipeline, 'pending_commands', PENDING, [pools, limit]);
}

/** By the database's clock. */
export function overdueCommands(pipeline: Pipeline, limit: number): Promise<CommandHint[]> {
  return lookUp(pipeline, 'overdue_commands', OVERDUE, [limit]);
}

export function commandsHeldBy(pipeline: Pipeline, workerId: string): Promise<CommandHint[]> {
  return lookUp(pipeline, 'commands_held_by', HELD_BY, [workerId]);
}

/** Of these commands those that somebody works on. */
export async function holdsOf(
  pipeline: Pipeline,
  commandIds: readonly number[],
): Promise<ReadonlyMap<number, StoredHold>> {
  if (commandIds.length === 0) return new Map();
  const rows = await lookUp<StoredHold & { commandId: number }>(pipeline, 'holds', HOLDS, [commandIds]);
  return new Map(rows.map(({ commandId, ...hold }) => [commandId, hold]));
}

/** By the database's clock. */
export async function standingOf(pipeline: Pipeline, commandIds: readonly number[]): Promise<ReadonlySet<number>> {
  const rows = await lookUp<{ commandId: number }>(pipeline, 'standing', STANDING, [commandIds]);
  return new Set(rows.map(({ commandId }) => commandId));
}

export async function earliestWake(pipeline: Pipeline): Promise<string | null> {
  const rows = await lookUp<{ at: string | null }>(pipeline, 'earliest_wake', EARLIEST_WAKE, []);
  return rows[0]?.at ?? null;
}

/** Parked on one of these children; without an argument, on a child that has ended. */
export function parkedCommands(pipeline: Pipeline, childIds?: readonly number[]): Promise<ParkedCommand[]> {
  return childIds === undefined
    ? lookUp(pipeline, 'parked_on_ended', PARKED_ON_ENDED, [])
    : lookUp(pipeline, 'parked_on', PARKED_ON, [childIds]);
}

/** By the database's clock. */
export function parkedUntil(pipeline: Pipeline, seconds: number, limit: number): Promise<ParkedWait[]> {
  return lookUp(pipeline, 'parked_until', PARKED_UNTIL, [seconds, limit]);
}

export async function postponeCommands(
  pipeline: Pipeline,
  commands: readonly { executionId: number; commandId: number; nextWakeAt: string; republished: boolean }[],
): Promise<void> {
  if (commands.length > 0) await lookUp(pipeline, 'postpone', POSTPONE, [JSON.stringify(commands)]);
}

export async function touchCommands(
  pipeline: Pipeline,
  holds: readonly { executionId: number; commandId: number; attempt: number; nextWakeAt: string }[],
): Promise<void> {
  if (holds.length > 0) await lookUp(pipeline, 'touch', TOUCH, [JSON.stringify(holds)]);
}

const COMMAND_BY_ID = `select ${COMMAND_COLUMNS} from core.command where command_id = $1`;

const CLAIMED_BY = `
select ${COMMAND_COLUMNS}
from core.command
where worker_id = $2 and claim_id = $1 and ${HELD}
order by command_id`;

const PENDING = `
select chosen.*
from (select distinct name from unnest($1::text[]) as name) as wanted
  cross join lateral (
    select ${HINT_COLUMNS}
    from core.command
    where status = 'PENDING' and pool = wanted.name
    order by priority desc, command_id
    limit $2
  ) as chosen
order by priority desc, "commandId"
limit $2`;

const PARKED_COLUMNS = `
  command.execution_id as "executionId", command_id as "commandId", parked_on as "childExecutionId"`;

const OVERDUE = `
(
  select ${HINT_COLUMNS}, parked_on is not null as retry
  from core.command
  where ${OPEN} and ${HELD} and coalesce(parked_on, 0) = 0 and next_wake_at <= now()
  order by next_wake_at
  limit $1
)
union all
(
  select ${HINT_COLUMNS}, false as retry
  from core.command
  where ${OPEN} and status = 'PENDING' and next_wake_at <= now()
  order by next_wake_at
  limit $1
)
limit $1`;

const HELD_BY = `
select ${HINT_COLUMNS}
from core.command
where worker_id = $1 and ${HELD} and parked_on is null
order by command_id`;

const HOLDS = `
select command_id as "commandId", execution_id as "executionId", attempt, worker_id as "workerId", heartbeat_at as "heartbeatAt"
from core.command
where command_id = any($1::bigint[]) and ${HELD} and parked_on is null`;

const STANDING = `
select command_id as "commandId"
from core.command
where command_id = any($1::bigint[])
  and (status = 'PENDING' or ${OPEN} and coalesce(parked_on, 0) = 0 and next_wake_at <= clock_timestamp())`;

const EARLIEST_WAKE = `select min(next_wake_at) as at from core.command where ${OPEN}`;

const PARKED_ON = `
select ${PARKED_COLUMNS}
from core.command
where parked_on = any($1::bigint[]) and parked_on is not null
order by command_id`;

const PARKED_ON_ENDED = `
select ${PARKED_COLUMNS}
from core.command join core.execution as child on child.execution_id = command.parked_on
where parked_on is not null and child.status <> 'running'
order by command_id`;

const PARKED_UNTIL = `
select ${PARKED_COLUMNS}, next_wake_at as "nextWakeAt"
from core.command
where parked_on is not null and ${OPEN} and next_wake_at <= now() + make_interval(secs => $1)
order by next_wake_at
limit $2`;

const POSTPONE = `
with chosen as (
  select command.execution_id, command.command_id, change."nextWakeAt", change.republished
  from json_to_recordset($1::json) as change ("executionId" bigint, "commandId" bigint, "nextWakeAt" timestamptz,
      republished boolean)
    join core.command on command.execution_id = change."executionId" and command.command_id = change."commandId"
  where ${OPEN}
  for update of command skip locked
)
update core.command
set next_wake_at = chosen."nextWakeAt",
  republished_at = case when chosen.republished then clock_timestamp() else command.republished_at end,
  republish_count = command.republish_count + case when chosen.republished then 1 else 0 end,
  updated_at = clock_timestamp()
from chosen
where command.execution_id = chosen.execution_id and command.command_id = chosen.command_id`;

const TOUCH = `
with chosen as (
  select command.execution_id, command.command_id, hold."nextWakeAt"
  from json_to_recordset($1::json) as hold ("executionId" bigint, "commandId" bigint, attempt int,
      "nextWakeAt" timestamptz)
    join core.command on command.execution_id = hold."executionId" and command.command_id = hold."commandId"
  where ${HELD} and command.parked_on is null and command.attempt = hold.attempt
  for update of command skip locked
)
update core.command
set next_wake_at = chosen."nextWakeAt", heartbeat_at = clock_timestamp(), updated_at = clock_timestamp()
from chosen
where command.execution_id = chosen.execution_id and command.command_id = chosen.command_id`;
