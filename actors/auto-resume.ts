/**
 * What becomes of runs that a restart interrupted (api 4.9). Once per start, under a lease, and only where no other server
 * lives: another server's runs are none of ours. Workers get time to come back first; what one of them holds or could take
 * over goes on. Every end is decided under the lease's token, and not for a run that moved meanwhile.
 */
import { isoOf } from '../machines/command/instant.ts';
import { interruptedRuns, type RunFacts } from '../machines/execution/interrupted.ts';
import type { JsonMap } from '../machines/json.ts';
import type { Executions } from './execution-service.ts';
import { type Fence, type Lease, LeaseLostError, type Leases } from './lease.ts';
import type { Clock, Log, Meter, Store } from './ports.ts';
import type { WorkerService } from './services.ts';

export type AutoResumeMode = 'cancel' | 'continue' | 'restart';

export interface InterruptedCandidate extends RunFacts {
  readonly parentExecutionId: number | null;
  readonly lastEventId: number;
}

export interface AutoResumeStore {
  /** Running executions that started in [from, before), oldest first, with their open commands. */
  runsStarted(from: string, before: string, limit: number): Promise<readonly InterruptedCandidate[]>;
}

export interface AutoResumeParts {
  readonly store: AutoResumeStore;
  readonly executions: Pick<Executions, 'endInterrupted' | 'start' | 'cancel'>;
  readonly heads: Pick<Store, 'execution'>;
  readonly workers: Pick<WorkerService, 'list'>;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  readonly mode: AutoResumeMode;
  readonly windowMinutes: number;
  readonly settleSeconds: number;
  /** Resolves after so many milliseconds, or rejects when the process stops. */
  pause(ms: number): Promise<void>;
}

export interface AutoResumed {
  readonly outcome: 'done' | 'other_server' | 'not_holder' | 'lease_lost';
  readonly interrupted: readonly number[];
}

export const AUTO_RESUME_LEASE = 'auto_resume';
const REASON = 'Server restart - execution was interrupted';
const RUNS_MAX = 10_000;

/** Waits, looks and decides. `startedAt` in milliseconds by the database's clock: what started later is not interrupted. */
export async function resumeAfterRestart(startedAt: number, parts: AutoResumeParts): Promise<AutoResumed> {
  const { leases, log, meter, mode, pause, settleSeconds } = parts;
  await pause(settleSeconds * 1000);
  if (await otherServerLives(startedAt, parts)) {
    log.info('Another server lives, so its runs are left alone');
    return { outcome: 'other_server', interrupted: [] };
  }
  try {
    const interrupted = await leases.during(AUTO_RESUME_LEASE, (lease) => decide(startedAt, lease, parts));
    if (interrupted === null) return { outcome: 'not_holder', interrupted: [] };
    if (interrupted.length > 0) {
      const count = interrupted.length;
      if (mode === 'continue') log.info('Runs wait for a worker since the restart', { count });
      else log.warn('Runs that the restart interrupted were ended', { count, mode });
    }
    return { outcome: 'done', interrupted };
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    leases.lost(AUTO_RESUME_LEASE);
    meter.count('svc_auto_resume_total', { outcome: 'lease_lost' });
    return { outcome: 'lease_lost', interrupted: [] };
  }
}

/** A server that was killed looks alive until its time is over; one that speaks after our start is alive. */
async function otherServerLives(startedAt: number, { leases, clock, pause }: AutoResumeParts): Promise<boolean> {
  for (;;) {
    const others = await leases.others();
    if (others.length === 0) return false;
    if (others.some((other) => other.heartbeatAt > startedAt)) return true;
    const last = Math.max(...others.map((other) => other.goneAt));
    await pause(Math.max(100, last - clock.now() + 1));
  }
}

async function decide(startedAt: number, lease: Lease, parts: AutoResumeParts): Promise<readonly number[]> {
  const { store, workers, clock, meter, mode, windowMinutes } = parts;
  const from = isoOf(startedAt - windowMinutes * 60_000);
  const runs = await store.runsStarted(from, isoOf(startedAt), RUNS_MAX);
  if (runs.length === 0) return [];
  const now = clock.now();
  const live = (await workers.list({ kind: 'worker_pool' })).filter(
    (worker) => worker.status !== 'offline' && now - Date.parse(worker.heartbeatAt) < worker.offlineAfterSeconds * 1000,
  );
  const interrupted = new Set(
    interruptedRuns(runs, {
      workers: new Set(live.map((worker) => worker.name)),
      pools: new Set(live.flatMap((worker) => worker.pools)),
    }),
  );
  const ended: number[] = [];
  for (const run of runs) {
    if (!interrupted.has(run.executionId)) {
      meter.count('svc_auto_resume_total', { outcome: 'continued' });
      continue;
    }
    const isBelow = run.parentExecutionId !== null && interrupted.has(run.parentExecutionId);
    const done =
      mode === 'continue' ||
      (mode === 'restart' && !isBelow ? await restart(run, lease, parts) : await end(run, lease, {}, parts));
    if (!done) continue;
    ended.push(run.executionId);
    meter.count('svc_auto_resume_total', { outcome: OUTCOMES[mode] });
  }
  return ended;
}

const OUTCOMES = { cancel: 'cancelled', continue: 'continued', restart: 'restarted' } as const;

function end(run: InterruptedCandidate, fence: Fence, extra: JsonMap, { executions }: AutoResumeParts) {
  return executions.endInterrupted(run.executionId, {
    seenEventId: run.lastEventId,
    reason: REASON,
    extra: { auto_cancelled: true, ...extra },
    fence,
  });
}

/** Starts the same inputs anew and ends the old run. The key makes a second attempt find the run of the first. */
async function restart(run: InterruptedCandidate, lease: Lease, parts: AutoResumeParts): Promise<boolean> {
  const { executions, heads } = parts;
  const row = await heads.execution(run.executionId);
  if (row === null || row.status !== 'running' || row.lastEventId !== run.lastEventId) return false;
  const again = await executions.start({
    catalogId: row.catalogId,
    resourceKind: row.kind,
    workload: row.workload,
    parentExecutionId: row.parentExecutionId,
    executionPool: row.pool,
    priority: row.priority,
    labels: row.labels,
    rerunOf: row.executionId,
    idempotencyKey: `auto_resume:${row.executionId}`,
  });
  if (await end(run, lease, { restarted_execution_id: again.executionId }, parts)) return true;
  // The old run moved after all: it goes on, the new one must not.
  await executions.cancel(again.executionId, {
    reason: `Execution ${run.executionId} goes on, so it is not run again`,
    cascade: true,
    by: 'api',
  });
  return false;
}
