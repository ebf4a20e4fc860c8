/**
 * The pages of the command reaper. Rows are picked with the conditions of api 4.7 so that what is healthy is never read, and
 * judged again by the machine; only its word is stamped. Rows that a commit or another sweep has locked are passed over.
 */
import type { Stamp, SweepStore, SweptRow } from '../../actors/reaper.ts';
import type { SweepPolicy, SweptCommand } from '../../machines/command/sweep.ts';
import { fenced } from './leases.ts';
import type { ReadPool, Sql } from './pool.ts';
import { HELD, OPEN } from './rows.ts';

interface Row extends SweptCommand {
  readonly executionId: number;
  readonly commandId: number;
  readonly pool: string;
  readonly priority: number;
  readonly toolKind: string;
  readonly stepName: string;
  readonly attempt: number;
  readonly republishCount: number;
  readonly trace: string | null;
  readonly holderStatus: string | null;
  readonly registeredMs: number;
  readonly heartbeatMs: number;
  readonly offlineAfterSeconds: number;
  readonly nowMs: number;
}

export function createSweepStore(pool: ReadPool): SweepStore {
  return {
    page: (fence, policy, limit, judge) =>
      pool.transaction(async (tx) => {
        await fenced(tx, fence);
        const held = await tx.rows<Row>(FORGOTTEN_CLAIMS, [...valuesOf(policy), limit]);
        const rows =
          held.length < limit
            ? [...held, ...(await tx.rows<Row>(FORGOTTEN_PENDING, [policy.pendingRetrySeconds, limit - held.length]))]
            : held;
        const [first] = rows;
        if (first === undefined) return 0;
        await stamp(tx, judge(rows.map(sweptOf), first.nowMs));
        return rows.length;
      }),
  };
}

function valuesOf(policy: SweepPolicy): readonly number[] {
  return [policy.pendingRetrySeconds, policy.workerStaleSeconds, policy.hardTimeoutSeconds];
}

function sweptOf(row: Row): SweptRow {
  const { executionId, commandId, pool, priority, toolKind, stepName, attempt, trace } = row;
  // The announcement that is about to be made counts.
  const republishCount = row.republishCount + 1;
  return {
    command: row,
    hint: { executionId, commandId, pool, priority, toolKind, stepName, attempt, republishCount, trace },
    holder:
      row.workerId === null || row.holderStatus === null
        ? null
        : {
            name: row.workerId,
            status: row.holderStatus,
            registeredAt: row.registeredMs,
            heartbeatAt: row.heartbeatMs,
            offlineAfterSeconds: row.offlineAfterSeconds,
          },
  };
}

async function stamp(tx: Sql, stamps: readonly Stamp[]): Promise<void> {
  if (stamps.length === 0) return;
  const rows = stamps.map(({ hint, nextWakeAt }) => ({ ...hint, nextWakeAt }));
  await tx.run(STAMP, [JSON.stringify(rows)]);
}

const COMMAND = `
  command.execution_id as "executionId", command.command_id as "commandId", command.pool, command.priority,
  command.tool_kind as "toolKind", command.status, command.attempt, command.max_attempts as "maxAttempts",
  command.worker_id as "workerId", command.claimed_at as "claimedAt", command.heartbeat_at as "heartbeatAt",
  command.parked_on as "parkedOn", command.next_wake_at as "nextWakeAt", command.republished_at as "republishedAt",
  command.step_name as "stepName", command.republish_count as "republishCount", command.meta ->> 'trace' as trace,
  extract(epoch from clock_timestamp())::double precision * 1000 as "nowMs"`;

const FRESHLY_ANNOUNCED = `command.republished_at > clock_timestamp() - make_interval(secs => $1)`;

const FORGOTTEN_CLAIMS = `
select ${COMMAND}, holder.status as "holderStatus",
  coalesce(extract(epoch from holder.registered_at), 0)::double precision * 1000 as "registeredMs",
  coalesce(extract(epoch from holder.heartbeat), 0)::double precision * 1000 as "heartbeatMs",
  coalesce(holder.offline_after_seconds, 0) as "offlineAfterSeconds"
from core.command
  join core.execution on execution.execution_id = command.execution_id and execution.status = 'running'
  left join lateral (
    select * from core.runtime
    where runtime.name = command.worker_id
    order by runtime.kind = 'worker_pool' desc, runtime.heartbeat desc
    limit 1
  ) as holder on true
where command.${HELD} and command.parked_on is null and ${FRESHLY_ANNOUNCED} is not true
  and (
    holder.name is null or holder.status <> 'ready'
    or holder.heartbeat < clock_timestamp() - make_interval(secs => $2)
    or greatest(command.claimed_at, command.heartbeat_at) <= clock_timestamp() - make_interval(secs => $3)
  )
order by command.claimed_at, command.command_id
limit $4
for update of command skip locked`;

const FORGOTTEN_PENDING = `
select ${COMMAND}, null as "holderStatus", 0 as "registeredMs", 0 as "heartbeatMs", 0 as "offlineAfterSeconds"
from core.command
  join core.execution on execution.execution_id = command.execution_id and execution.status = 'running'
where command.${OPEN} and command.status = 'PENDING' and command.next_wake_at <= clock_timestamp()
  and ${FRESHLY_ANNOUNCED} is not true
order by command.next_wake_at, command.command_id
limit $2
for update of command skip locked`;

const STAMP = `
update core.command
set next_wake_at = stamp."nextWakeAt", republished_at = clock_timestamp(), republish_count = republish_count + 1,
  updated_at = clock_timestamp()
from json_to_recordset($1::json) as stamp ("executionId" bigint, "commandId" bigint, "nextWakeAt" timestamptz)
where command.execution_id = stamp."executionId" and command.command_id = stamp."commandId"`;
