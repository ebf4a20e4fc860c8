/**
 * Schedules as people keep them (api 2.17): made, changed, looked at, set off by hand. When one is due, scheduler.ts starts
 * what it names.
 */
import { instantOf, isoOf } from '../machines/command/instant.ts';
import type { JsonMap } from '../machines/json.ts';
import { readCron } from '../machines/schedule/cron.ts';
import { nextAfter, type Offset, type Rhythm, upcoming } from '../machines/schedule/rhythm.ts';
import type { AuditRow, CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Clock, Ids } from './ports.ts';
import type { CatalogService, ExecutionService, StartReceipt, StartRequest } from './services.ts';

export interface ScheduleDraft {
  readonly name: string;
  readonly path: string;
  /** Null: the newest when it is due. */
  readonly version: number | null;
  readonly resourceKind: string;
  /** Exactly one of these three. */
  readonly cron: string | null;
  readonly intervalSeconds: number | null;
  readonly runAt: string | null;
  readonly timezone: string;
  readonly workload: JsonMap;
  readonly enabled: boolean;
  /** What becomes of a firing while the last execution runs. */
  readonly overlap: 'allow' | 'skip' | 'cancel_previous';
  /** What becomes of firings that no server was there for. */
  readonly catchUp: 'none' | 'last' | 'all';
}

export interface Schedule extends ScheduleDraft {
  readonly scheduleId: number;
  /** Null: nothing is planned any more, or it is not enabled. */
  readonly nextRunAt: string | null;
  readonly lastRunAt: string | null;
  readonly lastExecutionId: number | null;
  /** Of the last execution, or why a firing started none: `skipped`, `missed`, `failed_to_start`. */
  readonly lastStatus: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

export interface Fired {
  readonly at: string;
  readonly executionId: number | null;
  readonly status: string;
}

export interface ScheduleStore {
  list(): Promise<readonly Schedule[]>;
  find(scheduleId: number): Promise<Schedule | null>;
  /** False: there are `max` already. */
  insert(
    row: {
      readonly scheduleId: number;
      readonly draft: ScheduleDraft;
      readonly nextRunAt: string | null;
      readonly max: number;
    },
    audit: AuditRow,
  ): Promise<boolean>;
  update(scheduleId: number, draft: ScheduleDraft, nextRunAt: string | null, audit: AuditRow): Promise<boolean>;
  remove(scheduleId: number, audit: AuditRow): Promise<boolean>;
  /** Set off by hand; what is planned stays. */
  recordTriggered(scheduleId: number, fired: Fired, audit: AuditRow): Promise<void>;
}

export interface ScheduleService {
  list(): Promise<readonly Schedule[]>;
  /** Throws not_found. */
  get(scheduleId: number): Promise<Schedule>;
  /** Throws validation_error, and what a start of its playbook would be refused with. */
  create(draft: ScheduleDraft): Promise<Schedule>;
  /** Fields that are given take the place of the old ones; a rhythm takes the place of any other. */
  update(scheduleId: number, change: Partial<ScheduleDraft>): Promise<Schedule>;
  remove(scheduleId: number): Promise<Schedule>;
  /** Starts it now, whatever is planned. */
  trigger(scheduleId: number, trace: string | null): Promise<StartReceipt>;
  preview(scheduleId: number, count: number): Promise<readonly string[]>;
}

export interface ScheduleParts {
  readonly store: ScheduleStore;
  readonly catalog: Pick<CatalogService, 'executable'>;
  readonly executions: Pick<ExecutionService, 'start'>;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly caller: CurrentCaller;
  /** The wall of a time zone; null for one that is unknown. */
  readonly zone: (name: string) => Offset | null;
  /** Whoever waits for the next due moment has to look again. */
  readonly onChange: () => void;
}

export const SCHEDULES_MAX = 10_000;

export function createScheduleService(parts: ScheduleParts): ScheduleService {
  const { store, catalog, executions, ids, clock, caller, zone, onChange } = parts;

  async function auditOf(action: string, scheduleId: number, detail: JsonMap): Promise<AuditRow> {
    await ids.reserve(1);
    return { ...caller(), auditId: ids.next(), action, target: String(scheduleId), outcome: 'ok', detail };
  }

  async function get(scheduleId: number): Promise<Schedule> {
    return (await store.find(scheduleId)) ?? notFound(scheduleId);
  }

  /** What is planned next, as it is to be stored. Throws for what is no rhythm or starts nothing. */
  async function planned(draft: ScheduleDraft, isNew: boolean): Promise<string | null> {
    const now = clock.now();
    const rhythm = rhythmOf({ ...draft, nextRunAt: null }, zone, now);
    const next = nextAfter(rhythm, now);
    if (next === null && isNew) refuse('body.at: lies in the past');
    await catalog.executable({ path: draft.path, ...startVersion(draft), resourceKind: draft.resourceKind });
    return draft.enabled && next !== null ? isoOf(next) : null;
  }

  return {
    list: () => store.list(),
    get,

    async create(draft) {
      const nextRunAt = await planned(draft, true);
      await ids.reserve(2);
      const scheduleId = ids.next();
      const audit = await auditOf('schedule.create', scheduleId, { name: draft.name, path: draft.path });
      if (!(await store.insert({ scheduleId, draft, nextRunAt, max: SCHEDULES_MAX }, audit)))
        refuse(`body: there are ${SCHEDULES_MAX} schedules already; delete some`);
      onChange();
      return get(scheduleId);
    },

    async update(scheduleId, change) {
      const old = await get(scheduleId);
      const hasRhythm = [change.cron, change.intervalSeconds, change.runAt].some((each) => each != null);
      const none = hasRhythm ? { cron: null, intervalSeconds: null, runAt: null } : {};
      const draft: ScheduleDraft = { ...old, ...none, ...change };
      const next = await planned(draft, hasRhythm);
      const keepsPlan = old.nextRunAt !== null && draft.enabled && sameRhythm(old, draft);
      const audit = await auditOf('schedule.update', scheduleId, { changed: Object.keys(change) });
      if (!(await store.update(scheduleId, draft, keepsPlan ? old.nextRunAt : next, audit))) notFound(scheduleId);
      onChange();
      return get(scheduleId);
    },

    async remove(scheduleId) {
      const old = await get(scheduleId);
      const audit = await auditOf('schedule.delete', scheduleId, { name: old.name });
      if (!(await store.remove(scheduleId, audit))) notFound(scheduleId);
      onChange();
      return old;
    },

    async trigger(scheduleId, trace) {
      const schedule = await get(scheduleId);
      const receipt = await executions.start({ ...startOf(schedule), trace, meta: { schedule_id: scheduleId } });
      const fired = { at: isoOf(clock.now()), executionId: receipt.executionId, status: 'started' };
      const audit = await auditOf('schedule.trigger', scheduleId, { execution_id: receipt.executionId });
      await store.recordTriggered(scheduleId, fired, audit);
      return receipt;
    },

    async preview(scheduleId, count) {
      const now = clock.now();
      const schedule = await get(scheduleId);
      return upcoming(rhythmOf(schedule, zone, now), now, count).map(isoOf);
    },
  };
}

/** How a start names what a schedule runs. */
export function startOf(schedule: ScheduleDraft): StartRequest {
  return {
    path: schedule.path,
    ...startVersion(schedule),
    resourceKind: schedule.resourceKind,
    workload: schedule.workload,
  };
}

function startVersion({ version }: ScheduleDraft): { readonly version: number | 'latest' } {
  return { version: version ?? 'latest' };
}

/** Throws validation_error for what is none. Intervals count from what is planned, or from now. */
export function rhythmOf(
  draft: ScheduleDraft & { readonly nextRunAt?: string | null },
  zone: ScheduleParts['zone'],
  now: number,
): Rhythm {
  const { cron, intervalSeconds, runAt, timezone } = draft;
  if ([cron, intervalSeconds, runAt].filter((each) => each !== null).length !== 1) {
    refuse('body: needs exactly one of cron, interval_seconds and at');
  }
  const offset = zone(timezone) ?? refuse('body.timezone: must be a time zone such as UTC or Europe/Berlin');
  if (intervalSeconds !== null) {
    const everyMs = intervalSeconds * 1000;
    const anchor = draft.nextRunAt == null ? now + everyMs : instantOf(draft.nextRunAt);
    return { kind: 'interval', everyMs, anchor };
  }
  if (runAt !== null) return { kind: 'once', at: instantOf(runAt) };
  const reading = readCron(cron ?? '');
  return reading.ok ? { kind: 'cron', cron: reading.cron, offset } : refuse(`body.cron: ${reading.problem}`);
}

function sameRhythm(a: ScheduleDraft, b: ScheduleDraft): boolean {
  const keys = ['cron', 'intervalSeconds', 'runAt', 'timezone'] as const;
  return keys.every((key) => a[key] === b[key]);
}

function refuse(message: string): never {
  throw new DomainError('validation_error', message, { errors: [message] });
}

function notFound(scheduleId: number): never {
  throw new DomainError('not_found', `Schedule ${scheduleId} not found`);
}
