/** Runs that a restart may have interrupted, with what is open in them (actors/auto-resume.ts judges). */
import type { AutoResumeStore, InterruptedCandidate } from '../../actors/auto-resume.ts';
import type { Sql } from './pool.ts';
import { OPEN } from './rows.ts';

export function createAutoResumeStore(sql: Sql): AutoResumeStore {
  return {
    runsStarted: (from, before, limit) => sql.rows<InterruptedCandidate>(RUNS, [from, before, limit]),
  };
}

const RUNS = `
select execution_id as "executionId", parent_execution_id as "parentExecutionId", last_event_id as "lastEventId",
  coalesce((
    select json_agg(json_build_object('pool', command.pool, 'workerId', command.worker_id, 'parkedOn', command.parked_on))
    from core.command
    where command.execution_id = execution.execution_id and command.${OPEN}
  ), '[]') as commands
from core.execution
where status = 'running' and start_time >= $1 and start_time < $2
order by start_time, execution_id
limit $3`;
