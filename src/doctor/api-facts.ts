/** The facts as the service's own API tells them; for where the helper may not reach the database. */
import type { AdminClient, ListedCommand, ListedWorker } from '../client/admin.ts';
import { type CommandFact, type ExecutionFact, type Facts, isStale } from './facts.ts';

/** The API gives so many at most. */
const PAGE_MAX = 200;
const COMMANDS_MAX = 1_000;

export function createApiFacts(admin: AdminClient, now: () => number): Facts {
  const ageOf = (instant: string): number => Math.max(0, (now() - Date.parse(instant)) / 1000);

  return {
    async silentExecutions(staleSeconds, limit) {
      const silent: ExecutionFact[] = [];
      const old = (await admin.running(Math.min(limit, PAGE_MAX))).filter(
        (each) => ageOf(each.start_time) >= staleSeconds,
      );
      for (const each of old) {
        const last_event_at = (await admin.lastEventAt(each.execution_id)) ?? each.start_time;
        if (ageOf(last_event_at) < staleSeconds) continue;
        const open = await admin.openCommands({ execution_id: each.execution_id, limit: COMMANDS_MAX });
        silent.push({
          execution_id: each.execution_id,
          path: each.path,
          last_event_at,
          stuck_seconds: ageOf(last_event_at),
          non_terminal_command_count: open.length,
        });
      }
      return silent;
    },
    async staleCommands(thresholds) {
      const [commands, workers] = await Promise.all([admin.openCommands({ limit: COMMANDS_MAX }), admin.workers()]);
      return commands
        .filter((each) => each.parked_on == null)
        .map((each) => commandFact(each, workers, ageOf))
        .filter((each) => isStale(each, thresholds))
        .slice(0, thresholds.maxRows);
    },
    invariants: async () => (await admin.invariants()).checks.map(({ name, ok, count }) => ({ name, ok, count })),
    async workers() {
      const pools = (await admin.workers()).filter((worker) => worker.kind === 'worker_pool');
      return pools.map(({ status, heartbeat_age_seconds }) => ({ status, heartbeat_age_seconds }));
    },
    close: () => Promise.resolve(),
  };
}

function commandFact(
  command: ListedCommand,
  workers: readonly ListedWorker[],
  ageOf: (instant: string) => number,
): CommandFact {
  const holder = workers.find((worker) => worker.name === command.worker_id);
  return {
    event_id: command.event_id,
    execution_id: command.execution_id,
    command_id: command.command_id,
    step: command.step,
    status: command.status,
    worker_id: command.worker_id,
    claim_age_seconds: command.claimed_at === null ? null : ageOf(command.claimed_at),
    pending_age_seconds: command.worker_id === null ? ageOf(command.created_at) : null,
    worker_status: holder?.status ?? null,
    worker_heartbeat_age_seconds: holder?.heartbeat_age_seconds ?? null,
  };
}
