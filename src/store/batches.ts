/**
 * Rows of `core.batch_request` as they are asked for; what is written to them is part of a flush (commit.ts). Processors of
 * batches make themselves known as leases of their own, which nobody else can take.
 */
import type { BatchJob, BatchRow, BatchStore, CommandRow } from '../../actors/ports.ts';
import type { LogEvent } from '../../machines/events.ts';
import { commandsInKeyOrder, inKeyOrder } from './key-order.ts';
import { lookUp } from './load.ts';
import type { Database } from './pool.ts';
import { COMMAND_COLUMNS, EVENT_COLUMNS } from './rows.ts';

export function createBatchStore(database: Pick<Database, 'hot'>): BatchStore {
  const { lookups } = database.hot;
  return {
    find: (requestIds) => lookUp<BatchRow>(lookups, 'batches_by_id', BATCHES_BY_ID, [requestIds]),
    async byKey(executionId, key) {
      return (await lookUp<BatchRow>(lookups, 'batch_by_key', BATCH_BY_KEY, [executionId, key]))[0] ?? null;
    },
    async depth() {
      return (await lookUp<{ depth: number }>(lookups, 'batch_depth', DEPTH, []))[0]?.depth ?? 0;
    },
    openOf: (executionId) => lookUp<BatchRow>(lookups, 'open_batches', OPEN_BATCHES, [executionId]),
    stranded: (seconds, limit) => lookUp<BatchJob>(lookups, 'stranded_batches', STRANDED, [seconds, limit]),
    async filedBefore(executionId, commandIds, reportIds) {
      // One snapshot: the head says up to where the other answers are complete.
      const [, head, commands, events, reported] = await lookups.send([
        { name: 'begin_snapshot', text: 'begin isolation level repeatable read read only', values: [] },
        { name: 'filed_head', text: FILED_HEAD, values: [executionId] },
        { name: 'filed_commands', text: FILED_COMMANDS, values: [executionId, commandIds] },
        { name: 'filed_events', text: FILED_EVENTS, values: [executionId, commandIds] },
        { name: 'filed_reports', text: FILED_REPORTS, values: [executionId, reportIds] },
        { name: 'commit', text: 'commit', values: [] },
      ]);
      // The select lists make rows of these types.
      return {
        lastEventId: ((head?.rows ?? []) as { lastEventId: number }[])[0]?.lastEventId ?? 0,
        commands: commandsInKeyOrder((commands?.rows ?? []) as CommandRow[]),
        events: inKeyOrder((events?.rows ?? []) as LogEvent[]),
        reported: inKeyOrder((reported?.rows ?? []) as LogEvent[]),
      };
    },
    async effectsOf(executionId, requestId, eventIds) {
      const rows = await lookUp<{ issued: number; endedBy: number | null }>(lookups, 'batch_effects', EFFECTS, [
        executionId,
        eventIds,
        String(requestId),
      ]);
      return rows[0] ?? { issued: 0, endedBy: null };
    },
    async liveProcessors() {
      return (await lookUp<{ live: number }>(lookups, 'batch_processors', PROCESSORS, []))[0]?.live ?? 0;
    },
    async announceProcessor(holder, seconds) {
      await lookUp(lookups, 'announce_processor', ANNOUNCE, [PROCESSOR + holder, holder, seconds]);
    },
    async withdrawProcessor(holder) {
      await lookUp(lookups, 'withdraw_processor', WITHDRAW, [PROCESSOR + holder]);
    },
  };
}

const PROCESSOR = 'batches:';

const COLUMNS = `
  request_id as "requestId", execution_id as "executionId", idempotency_key as "idempotencyKey",
  encode(body_hash, 'hex') as "bodyHash", state, error_code as "errorCode", message, event_ids as "eventIds",
  event_count as "eventCount", commands_generated as "commandsGenerated", worker_id as "workerId",
  deadline_at as "deadlineAt", queue_wait_ms as "queueWaitMs", timings, created_at as "createdAt",
  updated_at as "updatedAt"`;

// As the index of unfinished ones says it.
const OPEN = `state in ('accepted', 'processing')`;

const BATCHES_BY_ID = `select ${COLUMNS} from core.batch_request where request_id = any($1::bigint[])`;

const BATCH_BY_KEY = `select ${COLUMNS} from core.batch_request where execution_id = $1 and idempotency_key = $2`;

const DEPTH = `select count(*)::int as depth from core.batch_request where ${OPEN}`;

const OPEN_BATCHES = `
select ${COLUMNS}
from core.batch_request
where ${OPEN} and execution_id = $1
order by created_at, request_id`;

const STRANDED = `
select request_id as "requestId", execution_id as "executionId"
from core.batch_request
where ${OPEN}
  and case state when 'processing' then coalesce(deadline_at, updated_at) else updated_at end
    <= clock_timestamp() - make_interval(secs => $1)
order by request_id
limit $2`;

const FILED_HEAD = `select last_event_id as "lastEventId" from core.execution where execution_id = $1`;

const FILED_COMMANDS = `
select ${COMMAND_COLUMNS}
from core.command
where execution_id = $1 and command_id = any($2::bigint[])
order by command_id`;

const FILED_EVENTS = `
select ${EVENT_COLUMNS}
from core.event
where execution_id = $1 and command_id = any($2::bigint[]) and not stale
  and event_type in ('command.claimed', 'command.started', 'call.done', 'call.error', 'step.exit', 'command.completed', 'command.failed',
    'command.cancelled')
order by event_id`;

const FILED_REPORTS = `
select ${EVENT_COLUMNS}
from core.event
where execution_id = $1 and report_id = any($2::text[])
order by event_id`;

const EFFECTS = `
select
  (select count(*)::int from core.event issued
    join core.event cause on cause.execution_id = issued.execution_id and cause.event_id = issued.cause_id
    where issued.execution_id = $1 and issued.cause_id = any($2::bigint[]) and issued.event_type = 'command.issued'
      and cause.meta ->> 'batch_request_id' = $3) as issued,
  (select cause_id from core.event
    where execution_id = $1
      and event_type in ('playbook.completed', 'playbook.failed', 'execution.cancelled')) as "endedBy"`;

const PROCESSORS = `
select count(*)::int as live from core.lease where name like 'batches:%' and expires_at > clock_timestamp()`;

const ANNOUNCE = `
with gone as (
  delete from core.lease where name like 'batches:%' and name <> $1 and expires_at < clock_timestamp() - interval '1 hour'
)
insert into core.lease (name, holder, token, acquired_at, renewed_at, expires_at)
values ($1, $2, 1, clock_timestamp(), clock_timestamp(), clock_timestamp() + make_interval(secs => $3))
on conflict (name) do update set renewed_at = excluded.renewed_at, expires_at = excluded.expires_at`;

const WITHDRAW = `delete from core.lease where name = $1`;
