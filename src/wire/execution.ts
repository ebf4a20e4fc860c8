/** The *Execution* object (api 3.1) and the status body (2.3.5). Instants of rows are ISO; `nowMs` is the database's clock. */
import * as v from 'valibot';
import type { ExecutionRow } from '../../actors/ports.ts';
import type { ExecutionInsight } from '../../actors/services.ts';
import { RUNNING_PROGRESS_MAX } from '../../machines/execution/progress.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { durationHuman, durationSeconds } from './duration.ts';
import { json, map } from './fields.ts';
import { idOut } from './ids.ts';

const nullableText = v.nullable(v.string());

const fields = {
  execution_id: idOut,
  catalog_id: idOut,
  path: v.string(),
  version: v.number(),
  kind: v.string(),
  status: v.string(),
  progress: v.number(),
  progress_detail: map,
  result: json,
  error: nullableText,
  error_detail: v.nullable(map),
  workload: map,
  current_step: nullableText,
  parent_execution_id: v.nullable(idOut),
  root_execution_id: idOut,
  rerun_of: v.nullable(idOut),
  start_time: v.string(),
  end_time: nullableText,
  duration_seconds: v.nullable(v.number()),
  duration_human: nullableText,
  last_event_id: v.number(),
  last_event_type: v.string(),
  pool: v.string(),
  priority: v.number(),
  labels: map,
  created_by: nullableText,
};

export const execution = v.object(fields);
export type Execution = v.InferOutput<typeof execution>;

/** In lists a result above 4 KiB is left out (api 2.3.4). */
export const executionItem = v.object({ ...fields, result_truncated: v.boolean() });
export type ExecutionItem = v.InferOutput<typeof executionItem>;

export const NO_PROGRESS: JsonMap = {
  total_steps: 0,
  completed_steps: 0,
  failed_steps: 0,
  running_steps: 0,
  skipped_steps: 0,
};

/** `insight` of a running execution is fresher than its row; an ended one needs none. */
export function executionToWire(row: ExecutionRow, nowMs: number, insight: ExecutionInsight | null = null): Execution {
  const seconds = durationSeconds(row.startTime, row.endTime, nowMs);
  return {
    execution_id: row.executionId,
    catalog_id: row.catalogId,
    path: row.path,
    version: row.version,
    kind: row.kind,
    status: row.status,
    progress: insight === null ? row.progress : progressShown(row, insight),
    progress_detail: insight?.progressDetail ?? row.progressDetail ?? NO_PROGRESS,
    result: row.status === 'completed' ? row.result : null,
    error: row.error,
    error_detail: row.errorDetail,
    workload: row.workload,
    current_step: insight === null ? row.currentStep : insight.currentStep,
    parent_execution_id: row.parentExecutionId,
    root_execution_id: row.rootExecutionId,
    rerun_of: row.rerunOf,
    start_time: row.startTime,
    end_time: row.endTime,
    duration_seconds: seconds,
    duration_human: durationHuman(seconds),
    last_event_id: row.lastEventId,
    last_event_type: row.lastEventType,
    pool: row.pool,
    priority: row.priority,
    labels: row.labels,
    created_by: row.createdBy,
  };
}

/** The insight may know of an end whose commit is under way; as long as the row is running, so is the execution. */
function progressShown(row: ExecutionRow, insight: ExecutionInsight): number {
  return row.status === 'running' ? Math.min(insight.progress, RUNNING_PROGRESS_MAX) : row.progress;
}

const LISTED_RESULT_BYTES_MAX = 4096;

export function executionItemToWire(row: ExecutionRow, nowMs: number): ExecutionItem {
  const item = executionToWire(row, nowMs);
  const truncated = item.result !== null && Buffer.byteLength(JSON.stringify(item.result)) > LISTED_RESULT_BYTES_MAX;
  return { ...item, result: truncated ? null : item.result, result_truncated: truncated };
}

export const status = v.object({
  execution_id: idOut,
  status: v.string(),
  current_step: nullableText,
  completed_steps: v.array(v.string()),
  failed_steps: v.array(v.string()),
  completed: v.boolean(),
  failed: v.boolean(),
  cancelled: v.boolean(),
  is_cancelled: v.boolean(),
  completion_inferred: v.boolean(),
  progress: v.number(),
  progress_detail: map,
  variables: map,
  start_time: v.string(),
  end_time: nullableText,
  duration_seconds: v.nullable(v.number()),
  duration_human: nullableText,
  result: json,
  error: nullableText,
});
export type Status = v.InferOutput<typeof status>;

/** `variables` are shown with `full`, each up to 64 KiB. */
export function statusToWire(row: ExecutionRow, insight: ExecutionInsight, full: boolean, nowMs: number): Status {
  const seconds = durationSeconds(row.startTime, row.endTime, nowMs);
  return {
    execution_id: row.executionId,
    status: row.status,
    current_step: insight.currentStep,
    completed_steps: [...insight.completedSteps],
    failed_steps: [...insight.failedSteps],
    completed: row.status !== 'running',
    failed: row.status === 'failed',
    cancelled: row.status === 'cancelled',
    is_cancelled: row.status === 'cancelled',
    completion_inferred: false,
    progress: progressShown(row, insight),
    progress_detail: row.status === 'running' ? insight.progressDetail : (row.progressDetail ?? insight.progressDetail),
    variables: full ? shortened(insight.variables) : {},
    start_time: row.startTime,
    end_time: row.endTime,
    duration_seconds: seconds,
    duration_human: durationHuman(seconds),
    result: row.status === 'completed' ? row.result : null,
    error: row.error,
  };
}

const VARIABLE_BYTES_MAX = 65_536;
const PREVIEW_CHARS = 256;

function shortened(variables: JsonMap): JsonMap {
  return Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, shortenedValue(value)]));
}

function shortenedValue(value: Json): Json {
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  if (bytes <= VARIABLE_BYTES_MAX) return value;
  return { _truncated: true, _size_bytes: bytes, _preview: text.slice(0, PREVIEW_CHARS).toWellFormed() };
}

export const cancellationCheck = v.object({
  execution_id: idOut,
  status: v.string(),
  event_type: v.string(),
  cancelled: v.boolean(),
  completed: v.boolean(),
  failed: v.boolean(),
  is_cancelled: v.boolean(),
});

export function cancellationCheckToWire(row: ExecutionRow): v.InferOutput<typeof cancellationCheck> {
  const cancelled = row.status === 'cancelled';
  return {
    execution_id: row.executionId,
    status: row.status,
    event_type: row.lastEventType,
    cancelled,
    completed: row.status !== 'running',
    failed: row.status === 'failed',
    is_cancelled: cancelled,
  };
}
