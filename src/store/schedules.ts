/** Rows of `core.schedule`. Instants are compared with the database's clock by whoever asks. */
import type { Schedule, ScheduleDraft, ScheduleStore } from '../../actors/schedule-service.ts';
import type { DueStore } from '../../actors/scheduler.ts';
import { insertAudit } from './audit.ts';
import { fenced } from './leases.ts';
import { onlyRow } from './only-row.ts';
import type { ReadPool } from './pool.ts';

/** A firing that started something has the status of what it started, for as long as that is kept. */
const SELECT = `
select schedule_id as "scheduleId", schedule.name, playbook_path as path, playbook_version as version,
  resource_kind as "resourceKind", cron, interval_seconds as "intervalSeconds", run_at as "runAt", timezone,
  schedule.workload, enabled, overlap, catch_up as "catchUp", next_run_at as "nextRunAt", last_run_at as "lastRunAt",
  last_execution_id as "lastExecutionId",
  case when last_status = 'started' then coalesce(execution.status, last_status) else last_status end as "lastStatus",
  schedule.created_at as "createdAt", schedule.updated_at as "updatedAt"
from core.schedule
left join core.execution on execution.execution_id = schedule.last_execution_id`;

export function createScheduleStore(database: ReadPool): ScheduleStore & DueStore {
  return {
    list: () => database.rows<Schedule>(`${SELECT} order by schedule.name collate "C", schedule_id`),

    async find(scheduleId) {
      return (await database.rows<Schedule>(`${SELECT} where schedule_id = $1`, [scheduleId]))[0] ?? null;
    },

    insert: ({ scheduleId, draft, nextRunAt, max }, audit) =>
      database.transaction(async (tx) => {
        await tx.run(`select pg_advisory_xact_lock(hashtextextended('core.schedule', 0))`);
        const count = onlyRow(
          await tx.rows<{ count: number }>('select count(*)::int as count from core.schedule'),
        ).count;
        if (count >= max) return false;
        await tx.run(
          `insert into core.schedule (schedule_id, name, playbook_path, playbook_version, resource_kind, cron,
             interval_seconds, run_at, timezone, workload, enabled, overlap, catch_up, next_run_at)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12, $13, $14)`,
          valuesOf(scheduleId, draft, nextRunAt),
        );
        await insertAudit(tx, audit);
        return true;
      }),

    update: (scheduleId, draft, nextRunAt, audit) =>
      database.transaction(async (tx) => {
        const changed = await tx.run(
          `update core.schedule
           set name = $2, playbook_path = $3, playbook_version = $4, resource_kind = $5, cron = $6,
               interval_seconds = $7, run_at = $8, timezone = $9, workload = $10::text::jsonb, enabled = $11,
               overlap = $12, catch_up = $13, next_run_at = $14, updated_at = clock_timestamp()
           where schedule_id = $1`,
          valuesOf(scheduleId, draft, nextRunAt),
        );
        if (changed > 0) await insertAudit(tx, audit);
        return changed > 0;
      }),

    remove: (scheduleId, audit) =>
      database.transaction(async (tx) => {
        const removed = await tx.run('delete from core.schedule where schedule_id = $1', [scheduleId]);
        if (removed > 0) await insertAudit(tx, audit);
        return removed > 0;
      }),

    recordTriggered: (scheduleId, { at, executionId, status }, audit) =>
      database.transaction(async (tx) => {
        await tx.run(
          `update core.schedule set last_run_at = $2, last_execution_id = $3, last_status = $4 where schedule_id = $1`,
          [scheduleId, at, executionId, status],
        );
        await insertAudit(tx, audit);
      }),

    due: (until, limit) =>
      database.rows<Schedule>(
        `${SELECT} where enabled and next_run_at <= $1 order by next_run_at, schedule_id limit $2`,
        [until, limit],
      ),

    async nextMoment() {
      const rows = await database.rows<{ next: string | null }>(
        'select min(next_run_at) as next from core.schedule where enabled',
      );
      return onlyRow(rows).next;
    },

    advance: ({ scheduleId, nextRunAt: planned }, { fired, nextRunAt }, fence) =>
      database.transaction(async (tx) => {
        await fenced(tx, fence);
        const changed = await tx.run(
          `update core.schedule
           set next_run_at = $3, last_run_at = coalesce($4, last_run_at), last_status = coalesce($5, last_status),
               last_execution_id = coalesce($6, last_execution_id)
           where schedule_id = $1 and next_run_at = $2`,
          [scheduleId, planned, nextRunAt, fired?.at ?? null, fired?.status ?? null, fired?.executionId ?? null],
        );
        return changed > 0;
      }),
  };
}

function valuesOf(scheduleId: number, draft: ScheduleDraft, nextRunAt: string | null): unknown[] {
  const { name, path, version, resourceKind, cron, intervalSeconds, runAt, timezone, workload } = draft;
  const rhythm = [cron, intervalSeconds, runAt, timezone];
  const json = JSON.stringify(workload);
  return [
    ...[scheduleId, name, path, version, resourceKind, ...rhythm, json],
    ...[draft.enabled, draft.overlap, draft.catchUp, nextRunAt],
  ];
}
