/** The facts as the service's own API tells them; for where the helper may not reach the database. */
import type { AdminClient, ListedCommand, ListedWorker, OwnCommand } from '../client/admin.ts';
import { type CommandFact, type ExecutionFact, type Facts, isStale } from './facts.ts';

/** The API gives so many at most. */
const PAGE_MAX = 200;
const COMMANDS_MAX = 1_000;
const OPEN: ReadonlySet<string> = new Set(['PENDING', 'CLAIMED', 'RUNNING']);

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
        const commands = await admin.commandsOf(each.execution_id, COMMANDS_MAX);
        silent.push({
          execution_id: each.execution_id,
          path: each.path,
          last_event_at,
          stuck_seconds: ageOf(last_event_at),
          non_terminal_command_count: commands.filter(isOpen).length,
        });
      }
      return silent;
    },
    async staleCommands(thresholds) {
      const [commands, workers] = await Promise.all([admin.openCommands(COMMANDS_MAX), admin.workers()]);
      const facts: CommandFact[] = [];
      const own = new Map<number, readonly OwnCommand[]>();
      for (const each of commands) {
        if (facts.length >= thresholds.maxRows) break;
        const fact = commandFact(each, workers);
        if (!isStale(fact, thresholds)) continue;
        // The list does not say what a command waits for; its execution does.
        const siblings = own.get(each.execution_id) ?? (await admin.commandsOf(each.execution_id, COMMANDS_MAX));
        own.set(each.execution_id, siblings);
        const row = siblings.find((sibling) => sibling.command_id === each.command_id);
        if (row !== undefined && isOpen(row) && row.parked_on === null) facts.push({ ...fact, event_id: row.event_id });
      }
      return facts;
    },
    invariants: async () => (await admin.invariants()).checks.map(({ name, ok, count }) => ({ name, ok, count })),
    async workers() {
      const pools = (await admin.workers()).filter((worker) => worker.kind === 'worker_pool');
      return pools.map(({ status, heartbeat_age_seconds }) => ({ status, heartbeat_age_seconds }));
    },
    close: () => Promise.resolve(),
  };
}

function isOpen(command: OwnCommand): boolean {
  return OPEN.has(command.status);
}

function commandFact(command: ListedCommand, workers: readonly ListedWorker[]): CommandFact {
  const holder = workers.find((worker) => worker.name === command.worker_id);
  return {
    event_id: 0,
    execution_id: command.execution_id,
    command_id: command.command_id,
    step: command.step,
    status: command.status,
    worker_id: command.worker_id,
    claim_age_seconds: command.claim_age_seconds,
    pending_age_seconds: command.worker_id === null ? command.age_seconds : null,
    worker_status: command.worker_status,
    worker_heartbeat_age_seconds: holder?.heartbeat_age_seconds ?? null,
  };
}
