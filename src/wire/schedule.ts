/** Schedules (api 2.17). */
import * as v from 'valibot';
import type { Schedule, ScheduleDraft } from '../../actors/services.ts';
import { decimal, flag, instant, map, maybe, text, word } from './fields.ts';
import { catalogPath, idOut } from './ids.ts';
import { INPUTS_DIFFER, inputFields, inputsAgree, inputsOf } from './inputs.ts';
import { version } from './start.ts';

const INTERVAL_MAX_SECONDS = 315_360_000;

const fields = {
  version: maybe(version),
  cron: maybe(text(256, 1)),
  interval_seconds: maybe(decimal(1, INTERVAL_MAX_SECONDS)),
  at: maybe(instant),
  timezone: maybe(text(64, 1)),
  ...inputFields,
  resource_kind: maybe(text(64, 1)),
  enabled: maybe(flag),
  overlap: maybe(word('allow', 'skip', 'cancel_previous')),
  catch_up: maybe(word('none', 'last', 'all')),
};

export const scheduleBody = v.pipe(
  v.object({ name: text(255, 1), path: catalogPath, ...fields }),
  v.check(
    ({ cron, interval_seconds, at }) => [cron, interval_seconds, at].filter((each) => each != null).length === 1,
    'needs exactly one of cron, interval_seconds and at',
  ),
  v.check((body) => inputsAgree(body), INPUTS_DIFFER),
);

/** Absent fields stay as they are. */
export const scheduleChange = v.pipe(
  v.object({ name: maybe(text(255, 1)), path: maybe(catalogPath), ...fields }),
  v.check(
    ({ cron, interval_seconds, at }) => [cron, interval_seconds, at].filter((each) => each != null).length <= 1,
    'takes at most one of cron, interval_seconds and at',
  ),
  v.check((body) => inputsAgree(body), INPUTS_DIFFER),
);

const nullableText = v.nullable(v.string());

export const schedule = v.object({
  schedule_id: idOut,
  name: v.string(),
  path: v.string(),
  version: v.union([v.number(), v.literal('latest')]),
  resource_kind: v.string(),
  cron: nullableText,
  interval_seconds: v.nullable(v.number()),
  at: nullableText,
  timezone: v.string(),
  workload: map,
  enabled: v.boolean(),
  overlap: v.string(),
  catch_up: v.string(),
  next_run_at: nullableText,
  last_run_at: nullableText,
  last_execution_id: v.nullable(idOut),
  last_status: nullableText,
  created_at: v.string(),
  updated_at: v.string(),
});

export function toScheduleDraft(body: v.InferOutput<typeof scheduleBody>): ScheduleDraft {
  return {
    name: body.name,
    path: body.path,
    version: typeof body.version === 'number' ? body.version : null,
    resourceKind: body.resource_kind ?? 'playbook',
    cron: body.cron ?? null,
    intervalSeconds: body.interval_seconds ?? null,
    runAt: body.at ?? null,
    timezone: body.timezone ?? 'UTC',
    workload: inputsOf(body) ?? {},
    enabled: body.enabled ?? true,
    overlap: body.overlap ?? 'allow',
    catchUp: body.catch_up ?? 'none',
  };
}

export function toScheduleChange(body: v.InferOutput<typeof scheduleChange>): Partial<ScheduleDraft> {
  const { name, path, version, resource_kind, cron, interval_seconds, at, timezone } = body;
  const workload = inputsOf(body);
  return {
    ...(name == null ? {} : { name }),
    ...(path == null ? {} : { path }),
    ...(version == null ? {} : { version: version === 'latest' ? null : version }),
    ...(resource_kind == null ? {} : { resourceKind: resource_kind }),
    ...(cron == null ? {} : { cron }),
    ...(interval_seconds == null ? {} : { intervalSeconds: interval_seconds }),
    ...(at == null ? {} : { runAt: at }),
    ...(timezone == null ? {} : { timezone }),
    ...(workload === null ? {} : { workload }),
    ...(body.enabled == null ? {} : { enabled: body.enabled }),
    ...(body.overlap == null ? {} : { overlap: body.overlap }),
    ...(body.catch_up == null ? {} : { catchUp: body.catch_up }),
  };
}

export function scheduleToWire(row: Schedule): v.InferOutput<typeof schedule> {
  return {
    schedule_id: row.scheduleId,
    name: row.name,
    path: row.path,
    version: row.version ?? 'latest',
    resource_kind: row.resourceKind,
    cron: row.cron,
    interval_seconds: row.intervalSeconds,
    at: row.runAt,
    timezone: row.timezone,
    workload: row.workload,
    enabled: row.enabled,
    overlap: row.overlap,
    catch_up: row.catchUp,
    next_run_at: row.nextRunAt,
    last_run_at: row.lastRunAt,
    last_execution_id: row.lastExecutionId,
    last_status: row.lastStatus,
    created_at: row.createdAt,
    updated_at: row.updatedAt,
  };
}
