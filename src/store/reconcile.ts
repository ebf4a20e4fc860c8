/** What reconciliation looks for, as one statement over indexes, and the removal of what has expired. */
import type { Findings, ReconcileStore } from '../../actors/reconcile.ts';
import { fenced } from './leases.ts';
import { onlyRow } from './only-row.ts';
import type { ReadPool } from './pool.ts';
import { OPEN } from './rows.ts';

export function createReconcileStore(pool: ReadPool): ReconcileStore {
  return {
    look: async (limit) => onlyRow(await pool.rows<Findings>(LOOK, [limit])),
    removeExpired: (fence, limit) =>
      pool.transaction(async (tx) => {
        await fenced(tx, fence);
        let removed = 0;
        for (const statement of EXPIRED) removed += await tx.run(statement, [limit]);
        return removed;
      }),
  };
}

const TERMINAL = `event_type in ('playbook.completed', 'playbook.failed', 'execution.cancelled')`;

const LOOK = `
select
  array(
    select execution_id from core.execution
    where has_inbox and exists (
      select from core.event
      where event.execution_id = execution.execution_id and event.event_id = execution.handled_through + 1
        and event.created_at < clock_timestamp() - interval '5 seconds')
    order by execution_id limit $1
  ) as inboxes,
  array(
    select execution_id from core.execution
    where status = 'running' and exists (
      select from core.event where event.execution_id = execution.execution_id and ${TERMINAL})
    order by execution_id limit $1
  ) as ended,
  (
    select count(*) from core.command left join core.execution as child on child.execution_id = command.parked_on
    where command.parked_on is not null
      and (child.status <> 'running' or command.${OPEN} and command.next_wake_at <= clock_timestamp())
  ) as parked,
  (
    select count(*) from (
      (select from core.result where expires_at <= clock_timestamp() limit $1)
      union all
      (select from core.transient where expires_at <= clock_timestamp() limit $1)
    ) as late
  ) as expired`;

const EXPIRED = [
  `with late as (
     select execution_id, result_id from core.result where expires_at <= clock_timestamp() order by expires_at limit $1)
   delete from core.result using late
   where result.execution_id = late.execution_id and result.result_id = late.result_id`,
  `with late as (
     select execution_id, var_name from core.transient where expires_at <= clock_timestamp() order by expires_at limit $1)
   delete from core.transient using late
   where transient.execution_id = late.execution_id and transient.var_name = late.var_name`,
];
