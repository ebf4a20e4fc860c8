/**
 * The one write path of the engine: a flush as one transaction in one network write. The number of statements does not
 * depend on the number of rows; each takes its rows as one JSON text (flush-rows.ts), and payloads as bytes. Locks come first, in ascending
 * order, and belong to the transaction.
 *
 * Nobody waits between statements, so what must hold is checked by the database: `core.require_all` ends the
 * transaction when a head is not at the event the turns were computed from, and then nothing is written.
 */
import pg from 'pg';
import { endedBy } from '../../actors/keychain-store.ts';
import { LeaseLostError } from '../../actors/lease.ts';
import {
  type CommitPhase,
  DuplicateKeyError,
  type Flush,
  RefusedWriteError,
  type ResultRow,
  StaleError,
} from '../../actors/ports.ts';
import {
  AUDITS,
  BATCHES,
  CHANGES,
  COMMANDS,
  EVENTS,
  EXECUTIONS,
  flatHead,
  HEADS,
  MOVES,
  RESULTS,
} from './flush-rows.ts';
import { REMOVE_ENDED } from './keychain.ts';
import type { Pipeline, Statement } from './pipeline.ts';
import { type RowSet, SOURCE } from './row-set.ts';

const STALE_HEAD = 'CB001';
const MISSING_COMMAND = 'CB002';
const LOST_LEASE = 'CB003';
const MOVED_BATCH = 'CB004';

/** Throws StaleError, LeaseLostError, DuplicateKeyError, UnavailableError (outcome unknown), or what the database refused. */
export async function commitFlush(
  pipeline: Pipeline,
  flush: Flush,
  enqueue: readonly Statement[] = [],
  onPhase?: (phase: CommitPhase, ms: number) => void,
): Promise<void> {
  const statements = [...statementsOf(flush), ...enqueue];
  let answered = 0;
  let before = performance.now();
  const measured = (phase: CommitPhase | undefined): void => {
    const now = performance.now();
    if (phase !== undefined) onPhase?.(phase, now - before);
    before = now;
  };
  const onAnswer = (index: number): void => {
    answered = index + 1;
    if (onPhase !== undefined) measured(PHASES[statements[index]?.name ?? '']);
  };
  try {
    await pipeline.transact(statements, onAnswer, { timed: onPhase !== undefined });
    measured('commit');
  } catch (error) {
    const failed = statements[answered];
    if (failed !== undefined && enqueue.includes(failed) && error instanceof pg.DatabaseError) {
      throw new RefusedWriteError('enqueue', { cause: error });
    }
    throw explained(error, flush);
  }
}

const PHASES: Readonly<Record<string, CommitPhase | undefined>> = {
  lock: 'lock',
  append: 'append',
  issue: 'issue',
  change: 'issue',
  head: 'save',
};

/** The statements of the transaction; those without rows are left out, none is ever repeated. */
export function statementsOf(flush: Flush): readonly Statement[] {
  const statements: Statement[] = [];
  const add = (name: string, text: string, rows: readonly unknown[], values: () => readonly unknown[]) => {
    if (rows.length > 0) statements.push({ name, text, values: values() });
  };
  add('lock', LOCK, flush.locks, () => [flush.locks]);
  for (const fence of flush.fences ?? []) {
    add('fence', FENCE, [fence], () => [fence.name, fence.holder, fence.token]);
  }
  add('start', INSERT_EXECUTIONS, flush.started, () => [EXECUTIONS.text(flush.started)]);
  add('append', INSERT_EVENTS, flush.events, () => [EVENTS.text(flush.events)]);
  add('issue', INSERT_COMMANDS, flush.issued, () => [COMMANDS.text(flush.issued)]);
  add('keep', INSERT_RESULTS, flush.results, () => resultValues(flush.results));
  add('change', UPDATE_COMMANDS, flush.commands, () => [
    CHANGES.text(flush.commands),
    flush.commands.map((change) => change.commandId),
  ]);
  add('head', UPDATE_HEADS, flush.heads, () => [
    HEADS.text(flush.heads.map(flatHead)),
    flush.heads.map((head) => head.executionId),
  ]);
  const ended = endedBy(flush);
  add('forget', REMOVE_ENDED, ended, () => [ended]);
  const { accepted, moved } = flush.batches;
  add('accept', INSERT_BATCHES, accepted, () => [BATCHES.text(accepted)]);
  add('batch', UPDATE_BATCHES, moved, () => [MOVES.text(moved), moved.map((move) => move.requestId)]);
  const { audits = [] } = flush;
  add('audit', INSERT_AUDITS, audits, () => [AUDITS.text(audits)]);
  return statements;
}

/**
 * Payloads may be megabytes: they travel as bytes, one behind the other, and a row says where its own are. Within the JSON of the
 * rows they would be written and read a second time, at half as much again as the first.
 */
function resultValues(results: readonly ResultRow[]): readonly unknown[] {
  const payloads = results.map(({ data }) => Buffer.from(data, 'utf8'));
  let from = 1;
  const rows = results.map(({ data: _, ...row }, index) => {
    const length = payloads[index]?.length ?? 0;
    from += length;
    return { ...row, from: from - length, length };
  });
  const [only] = payloads;
  return [RESULTS.text(rows), payloads.length === 1 ? only : Buffer.concat(payloads)];
}

function explained(error: unknown, flush: Flush): unknown {
  if (!(error instanceof pg.DatabaseError)) return error;
  if (error.code === LOST_LEASE) return new LeaseLostError(flush.fences?.[0]?.name ?? '', { cause: error });
  if (error.code === STALE_HEAD) return new StaleError(idsIn(error.detail ?? '', flush), { cause: error });
  if (error.code === MOVED_BATCH) return new RefusedWriteError('batch_moved', { cause: error });
  if (error.code !== '23505') return error;
  if (error.constraint === 'batch_idempotency') return new RefusedWriteError('batch_key', { cause: error });
  const detail = error.detail ?? '';
  if (error.table?.startsWith('event') && /\(execution_id(, event_id)?\)=/.test(detail)) {
    const key = /=\((\d+)/.exec(detail)?.[1] ?? '';
    return new StaleError(idsIn(key, flush), { cause: error });
  }
  if (error.constraint === 'execution_idempotency') {
    const row = flush.started.find((one) => detail.includes(`=(${one.path}, ${one.idempotencyKey})`));
    return new DuplicateKeyError(row?.executionId ?? null, { cause: error });
  }
  return error;
}

/** The executions the database named, or all of the flush. */
function idsIn(text: string, flush: Flush): readonly number[] {
  const named = text.split(',').map(Number);
  return named.every((id) => id > 0) ? named : flush.locks;
}

const LOCK = `
select pg_advisory_xact_lock(hashtextextended('core.execution', id)) from unnest($1::bigint[]) as id`;

// The lock keeps everybody from taking the lease over before this transaction has ended.
const FENCE = `
with standing as (
  select token
  from core.lease
  where name = $1 and holder = $2 and token = $3 and expires_at > clock_timestamp()
  for share
)
select core.require_all(array[$3]::bigint[], array(select token from standing), '${LOST_LEASE}')`;

const INSERT_EVENTS = insertInto('core.event', EVENTS);
const INSERT_EXECUTIONS = insertInto('core.execution', EXECUTIONS);
const INSERT_COMMANDS = insertInto('core.command', COMMANDS);
const INSERT_BATCHES = insertInto('core.batch_request', BATCHES);
const INSERT_AUDITS = insertInto('core.audit', AUDITS);

function insertInto(table: string, { columns, values }: Pick<RowSet<unknown>, 'columns' | 'values'>): string {
  return `insert into ${table} (${columns}) select ${values} from ${SOURCE}`;
}

// The same bytes under the same name are one result when a worker stores them (api 2.12.1). Here each row has been
// named by an event already, so a repetition is kept under a name of its own.
const INSERT_RESULTS = `
with fresh as (
  select *, row_number() over (partition by "executionId", name, sha256 order by "resultId") as occurrence
  from ${RESULTS.relation} as result
)
insert into core.result (execution_id, result_id, ref, name, command_id, scope, store, data, bytes, sha256, media_type,
  summary, expires_at)
select "executionId", "resultId", ref,
  case when occurrence = 1 and not exists (
      select from core.result as present
      where present.execution_id = fresh."executionId" and present.name = fresh.name and present.sha256 = fresh.sha256)
    then name else name || '#' || "resultId" end,
  "commandId", scope, store, substring($2::bytea from "from" for length), bytes, sha256, "mediaType", summary, "expiresAt"
from fresh`;

const UPDATE_COMMANDS = `
with written as (
  update core.command as command
  set status = change.status, attempt = change.attempt, max_attempts = change."maxAttempts", worker_id = change."workerId", claim_id = change."claimId",
    claimed_at = change."claimedAt", started_at = change."startedAt", completed_at = change."completedAt",
    parked_on = change."parkedOn", next_wake_at = change."nextWakeAt", error = change.error,
    latest_event_id = change."latestEventId", context = coalesce(change.context, command.context),
    updated_at = clock_timestamp()
  from ${CHANGES.relation} as change
  where command.execution_id = change."executionId" and command.command_id = change."commandId"
  returning command.command_id
)
select core.require_all($2::bigint[], array(select command_id from written), '${MISSING_COMMAND}')`;

const UPDATE_HEADS = `
with written as (
  update core.execution as execution
  set last_event_id = head."lastEventId", handled_through = head."handledThrough",
    last_event_type = case when head.late then execution.last_event_type else head."lastEventType" end,
    last_node_name = case when head.late then execution.last_node_name else head."lastNodeName" end,
    current_step = case when head.late then execution.current_step else head."currentStep" end,
    progress = case when head.late then execution.progress else head.progress end,
    open_commands = case when head.late then execution.open_commands else head."openCommands" end,
    next_wake_at = case when head.late then execution.next_wake_at else head."nextWakeAt" end,
    status = coalesce(head.status, execution.status), result = coalesce(head.result, execution.result),
    result_ref = coalesce(head."resultRef", execution.result_ref), error = coalesce(head.error, execution.error),
    error_detail = coalesce(head."errorDetail", execution.error_detail),
    progress_detail = coalesce(head."progressDetail", execution.progress_detail),
    end_time = coalesce(head."endTime", execution.end_time), state = coalesce(head.state, execution.state),
    machine_version = coalesce(head."machineVersion", execution.machine_version), updated_at = clock_timestamp()
  from ${HEADS.relation} as head
  where execution.execution_id = head."executionId" and execution.last_event_id = head."expectedLastEventId"
    and execution.handled_through = head."expectedHandledThrough"
  returning execution.execution_id
)
select core.require_all($2::bigint[], array(select execution_id from written), '${STALE_HEAD}')`;

// A batch moves from the state it was read in, or nothing moves: two processors may have the same job. The deadline tells
// apart the rounds of a batch that failed and was taken up again.
const UPDATE_BATCHES = `
with moved as (
  update core.batch_request as batch
  set state = move.state, error_code = move."errorCode", message = move.message,
    commands_generated = move."commandsGenerated", deadline_at = move."deadlineAt", queue_wait_ms = move."queueWaitMs",
    timings = move.timings, updated_at = clock_timestamp()
  from ${MOVES.relation} as move
  where batch.request_id = move."requestId" and batch.state = move."from"
    and batch.deadline_at is not distinct from move."fromDeadlineAt"
  returning batch.request_id
)
select core.require_all($2::bigint[], array(select request_id from moved), '${MOVED_BATCH}')`;

/** An empty flush with every statement; run once on a new connection it parses and plans them before they are needed. */
export const REHEARSAL: readonly Statement[] = [
  { name: 'lock', text: LOCK, values: [[]] },
  { name: 'start', text: INSERT_EXECUTIONS, values: ['[]'] },
  { name: 'append', text: INSERT_EVENTS, values: ['[]'] },
  { name: 'issue', text: INSERT_COMMANDS, values: ['[]'] },
  { name: 'keep', text: INSERT_RESULTS, values: resultValues([]) },
  { name: 'change', text: UPDATE_COMMANDS, values: ['[]', []] },
  { name: 'head', text: UPDATE_HEADS, values: ['[]', []] },
  { name: 'accept', text: INSERT_BATCHES, values: ['[]'] },
  { name: 'batch', text: UPDATE_BATCHES, values: ['[]', []] },
  { name: 'forget', text: REMOVE_ENDED, values: [[]] },
];
