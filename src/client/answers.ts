/**
 * The parts of answers that our own clients read, as schemas: what a newer server adds passes through unread. The
 * worker protocol has its complete schemas in src/wire.
 */
import * as v from 'valibot';
import { json, map } from '../wire/fields.ts';
import { idOut } from '../wire/ids.ts';

const executionStatus = v.picklist(['running', 'completed', 'failed', 'cancelled']);

export const startAnswer = v.looseObject({
  execution_id: idOut,
  status: v.string(),
  path: v.string(),
  catalog_id: idOut,
  version: v.number(),
  kind: v.string(),
  commands_generated: v.number(),
  duplicate: v.boolean(),
  /** These three only where the request had `wait_ms`. */
  execution_status: v.nullish(executionStatus),
  result: v.optional(json),
  error: v.nullish(v.string()),
});
export type StartAnswer = v.InferOutput<typeof startAnswer>;

export const executionAnswer = v.looseObject({
  execution_id: idOut,
  path: v.string(),
  status: executionStatus,
  progress: v.number(),
  result: json,
  error: v.nullable(v.string()),
  start_time: v.string(),
  end_time: v.nullable(v.string()),
});
export type ExecutionAnswer = v.InferOutput<typeof executionAnswer>;

/** A chart as a drawing tool takes it. */
export const machineAnswer = v.looseObject({ name: v.string(), version: v.number(), config: map });
export type MachineAnswer = v.InferOutput<typeof machineAnswer>;

const frameAnswer = v.looseObject({
  n: v.number(),
  event_id: v.number(),
  type: v.string(),
  at: v.string(),
  states: v.array(v.string()),
  context_patch: map,
  keyframe: v.boolean(),
});
export type FrameAnswer = v.InferOutput<typeof frameAnswer>;

export const traceAnswer = v.looseObject({
  execution_id: idOut,
  machine: v.string(),
  frames: v.array(frameAnswer),
  next_after: v.nullable(v.number()),
});
export type TraceAnswer = v.InferOutput<typeof traceAnswer>;

export const statusAnswer = v.looseObject({
  execution_id: idOut,
  status: executionStatus,
  current_step: v.nullable(v.string()),
  completed_steps: v.array(v.string()),
  failed_steps: v.array(v.string()),
  completed: v.boolean(),
  failed: v.boolean(),
  progress: v.number(),
  result: json,
  error: v.nullable(v.string()),
});
export type StatusAnswer = v.InferOutput<typeof statusAnswer>;

export const eventRow = v.looseObject({
  execution_id: idOut,
  event_id: v.number(),
  event_type: v.string(),
  node_name: v.string(),
  status: v.string(),
  created_at: v.string(),
  context: v.nullish(map),
  result: v.nullish(map),
  error: v.nullish(v.string()),
  worker_id: v.nullish(v.string()),
  meta: v.nullish(map),
});
export type EventRow = v.InferOutput<typeof eventRow>;

export const eventsAnswer = v.looseObject({
  execution_id: idOut,
  status: v.string(),
  events: v.array(eventRow),
  pagination: v.looseObject({ page: v.number(), has_next: v.boolean() }),
});
export type EventsAnswer = v.InferOutput<typeof eventsAnswer>;

export const cancelAnswer = v.looseObject({
  status: v.picklist(['cancelled', 'already_completed']),
  execution_id: idOut,
  cancelled_executions: v.array(v.string()),
  message: v.string(),
});
export type CancelAnswer = v.InferOutput<typeof cancelAnswer>;

export const registerAnswer = v.looseObject({
  path: v.string(),
  version: v.number(),
  catalog_id: idOut,
  kind: v.string(),
});
export type RegisterAnswer = v.InferOutput<typeof registerAnswer>;

export const catalogEntry = v.looseObject({
  catalog_id: idOut,
  path: v.string(),
  version: v.number(),
  kind: v.string(),
  name: v.string(),
});
export type CatalogEntryAnswer = v.InferOutput<typeof catalogEntry>;

export const credentialAnswer = v.looseObject({
  name: v.string(),
  type: v.string(),
  meta: v.optional(v.nullable(map)),
  data: v.optional(map),
});
export type CredentialAnswer = v.InferOutput<typeof credentialAnswer>;

export const putResultAnswer = v.looseObject({
  ref: v.string(),
  store: v.string(),
  bytes: v.number(),
  sha256: v.string(),
  summary: map,
});
export type PutResultAnswer = v.InferOutput<typeof putResultAnswer>;

export const healthAnswer = v.looseObject({ status: v.string() });
export type HealthAnswer = v.InferOutput<typeof healthAnswer>;
