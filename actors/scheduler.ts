/**
 * Starts what is due (api 2.17). One process does it at a time, under a lease; it sleeps until the next planned moment or until
 * somebody changes a schedule. Each firing has the idempotency key `schedule:<id>:<planned time>`, so that a process that dies
 * between the start and its note of it, or that has lost its lease without knowing, starts nothing twice.
 */
import { instantOf, isoOf } from '../machines/command/instant.ts';
import { newestUpTo, nextAfter, type Rhythm } from '../machines/schedule/rhythm.ts';
import { DomainError } from './errors.ts';
import type { Fence, Leases } from './lease.ts';
import type { Bus, Clock, Log, Meter } from './ports.ts';
import { type Fired, rhythmOf, type Schedule, type ScheduleParts, startOf } from './schedule-service.ts';
import type { ExecutionService } from './services.ts';

export interface DueStore {
  /** Enabled ones planned up to the instant, the longest overdue first. */
  due(until: string, limit: number): Promise<readonly Schedule[]>;
  /** The next planned moment of all; null when nothing is planned. */
  nextMoment(): Promise<string | null>;
  /**
   * Notes what became of a planned moment and what is planned next; false, and nothing changed, when somebody has planned anew
   * meanwhile. Throws LeaseLostError.
   */
  advance(
    schedule: Schedule,
    change: { readonly fired: Fired | null; readonly nextRunAt: string | null },
    fence: Fence,
  ): Promise<boolean>;
}

export interface SchedulerParts {
  readonly store: DueStore;
  readonly executions: Pick<ExecutionService, 'start' | 'cancel'>;
  readonly isRunning: (executionId: number) => Promise<boolean>;
  readonly zone: ScheduleParts['zone'];
  readonly leases: Pick<Leases, 'ask' | 'release'>;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Log;
  readonly meter: Meter;
  /** How late a firing may be and still be on time. */
  readonly graceSeconds?: number;
}

export interface Scheduler {
  start(): void;
  /** Look again: a schedule was changed here. Tells the other processes too. */
  changed(): void;
  stop(): Promise<void>;
}

export const SCHEDULER_LEASE = 'schedules';
const CHANGED = 'schedules.changed';
const DUE_AT_ONCE = 100;
const CATCH_UP_MAX = 100;
const GRACE_SECONDS = 60;
/** Signals are hints: one that was lost costs at most this. */
const LOOK_AGAIN_MS = 30_000;
const RETRY_MS = 5_000;
/** A timer that wakes a moment early would find nothing due. */
const SLACK_MS = 2;

export function createScheduler(parts: SchedulerParts): Scheduler {
  const { store, leases, clock, bus, log, meter } = parts;
  const graceMs = (parts.graceSeconds ?? GRACE_SECONDS) * 1000;
  let timer: ReturnType<typeof setTimeout> | null = null;
  let looking: Promise<void> | null = null;
  let isAsked = false;
  let isStopped = true;

  const unsubscribe = bus.subscribe((topic, hints) => {
    if (topic === 'control' && hints.some((hint) => hint['action'] === CHANGED)) look();
  });

  /** One look at a time; one that is asked for during another follows it. */
  function look(): void {
    if (isStopped) return;
    isAsked = true;
    looking ??= rounds().finally(() => {
      looking = null;
    });
  }

  async function rounds(): Promise<void> {
    let pauseMs = RETRY_MS;
    while (isAsked && !isStopped) {
      isAsked = false;
      try {
        pauseMs = await round();
      } catch (error) {
        pauseMs = RETRY_MS;
        log.warn('Schedules could not be looked at and will be again', { error: String(error) });
      }
    }
    if (isStopped) return;
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(look, pauseMs);
    timer.unref?.();
  }

  /** Fires what is due; answers after how many milliseconds to look again. */
  async function round(): Promise<number> {
    const { lease, row } = await leases.ask(SCHEDULER_LEASE);
    if (lease === null) {
      // Somebody else does it; stand by for the end of the lease.
      return row === null ? RETRY_MS : Math.max(instantOf(row.expiresAt) - clock.now(), SLACK_MS) + SLACK_MS;
    }
    for (;;) {
      const due = await store.due(isoOf(clock.now()), DUE_AT_ONCE);
      for (const schedule of due) {
        if (isStopped || !lease.isHeld()) return SLACK_MS;
        if (await settle(schedule, lease)) continue;
        // A server that drains leaves it to another one.
        await leases.release(lease);
        return RETRY_MS;
      }
      if (due.length < DUE_AT_ONCE) break;
    }
    const next = await store.nextMoment();
    if (next === null) return LOOK_AGAIN_MS;
    return Math.min(LOOK_AGAIN_MS, Math.max(0, instantOf(next) - clock.now()) + SLACK_MS);
  }

  /** Everything one schedule has to make up for. False: not now, try again later. */
  async function settle(schedule: Schedule, fence: Fence): Promise<boolean> {
    const now = clock.now();
    const rhythm = readRhythm(schedule, now);
    if (rhythm === null) return true;
    const { nextRunAt } = schedule;
    if (nextRunAt === null) return true;
    const moments = momentsOf(schedule, rhythm, instantOf(nextRunAt), now, graceMs);
    let current = schedule;
    for (const [index, moment] of moments.entries()) {
      const fired = await fire(current, moment);
      if (fired === null) return false;
      const following = moments[index + 1] ?? nextAfter(rhythm, now);
      const next = following === null ? null : isoOf(following);
      if (!(await store.advance(current, { fired, nextRunAt: next }, fence))) return true;
      current = { ...current, nextRunAt: next, lastExecutionId: fired.executionId ?? current.lastExecutionId };
    }
    if (moments.length > 0) return true;
    meter.count('svc_schedule_fired_total', { outcome: 'missed' });
    log.warn('A planned run was missed', { schedule_id: schedule.scheduleId, planned_at: nextRunAt });
    const next = nextAfter(rhythm, now);
    const fired = { at: nextRunAt, executionId: null, status: 'missed' };
    await store.advance(schedule, { fired, nextRunAt: next === null ? null : isoOf(next) }, fence);
    return true;
  }

  /** A row that somebody wrote by hand may hold anything; it is left alone. */
  function readRhythm(schedule: Schedule, now: number): Rhythm | null {
    try {
      return rhythmOf(schedule, parts.zone, now);
    } catch (error) {
      log.warn('A schedule cannot be read', { schedule_id: schedule.scheduleId, error: String(error) });
      return null;
    }
  }

  /** Null: the service cannot start anything at this moment. */
  async function fire(schedule: Schedule, moment: number): Promise<Fired | null> {
    const { scheduleId, overlap, lastExecutionId } = schedule;
    const at = isoOf(moment);
    const done = (outcome: string, executionId: number | null, status: string): Fired => {
      meter.count('svc_schedule_fired_total', { outcome });
      return { at, executionId, status };
    };
    if (overlap !== 'allow' && lastExecutionId !== null && (await parts.isRunning(lastExecutionId))) {
      if (overlap === 'skip') return done('skipped', null, 'skipped');
      const reason = `Schedule '${schedule.name}' starts anew`;
      await parts.executions.cancel(lastExecutionId, { reason, cascade: true, by: 'api' });
    }
    try {
      const receipt = await parts.executions.start({
        ...startOf(schedule),
        idempotencyKey: `schedule:${scheduleId}:${at}`,
        meta: { schedule_id: scheduleId, planned_at: at },
      });
      log.info('A schedule started an execution', { schedule_id: scheduleId, execution_id: receipt.executionId });
      return done(receipt.duplicate ? 'duplicate' : 'started', receipt.executionId, 'started');
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      if (PASSING.has(error.code)) return null;
      // Its inputs were changed after another process had started it.
      if (error.code === 'idempotency_conflict') return done('duplicate', null, 'started');
      log.warn('A schedule could not start its playbook', { schedule_id: scheduleId, code: error.code });
      return done('failed', null, 'failed_to_start');
    }
  }

  return {
    start() {
      isStopped = false;
      look();
    },
    changed() {
      bus.publish('control', [{ action: CHANGED }]);
      look();
    },
    async stop() {
      isStopped = true;
      unsubscribe();
      if (timer !== null) clearTimeout(timer);
      await looking;
    },
  };
}

const PASSING: ReadonlySet<string> = new Set([
  'shutting_down',
  'queue_unavailable',
  'pool_saturated',
  'db_unavailable',
]);

/** Which of the planned moments up to now are to be started, oldest first. */
function momentsOf(
  { catchUp }: Schedule,
  rhythm: Rhythm,
  from: number,
  now: number,
  graceMs: number,
): readonly number[] {
  if (catchUp === 'all') return newestUpTo(rhythm, from, now, CATCH_UP_MAX);
  const newest = newestUpTo(rhythm, from, now, 1);
  return catchUp === 'last' ? newest : newest.filter((moment) => now - moment <= graceMs);
}
