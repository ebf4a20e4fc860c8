/**
 * An event as a worker or an operator sends it (api 2.5.2). Older names are read here and nowhere else, and what may
 * stand beside the payload as well as in it (`result`, `error` …) is moved into it, so that one form goes inwards.
 */
import * as v from 'valibot';
import type { EventInput } from '../../actors/services.ts';
import type { EventStatus } from '../../machines/events.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { described } from './described.ts';
import { decimal, flag, instant, integer, json, map, maybe, text } from './fields.ts';
import { ID_SENTENCE, id, name, parseId } from './ids.ts';

/** `^[a-z][a-z_]*([._][a-z_]+)*$` of api 2.5.2, written so that matching is linear. */
const EVENT_TYPE = /^[a-z][a-z_]*(?:\.[a-z_]+)*$/;

export const eventType = described(
  v.custom<string>(
    (value) => typeof value === 'string' && value.length <= 128 && EVENT_TYPE.test(value),
    'must be an event type such as call.done',
  ),
  { type: 'string', pattern: EVENT_TYPE.source, maxLength: 128 },
);

const STATUSES: ReadonlyMap<string, EventStatus> = new Map([
  ['pending', 'pending'],
  ['started', 'started'],
  ['running', 'running'],
  ['completed', 'completed'],
  ['failed', 'failed'],
  ['cancelled', 'cancelled'],
  ['canceled', 'cancelled'],
  ['skipped', 'skipped'],
]);

const status = described(
  v.custom<string>(
    (value) => typeof value === 'string' && STATUSES.has(value.toLowerCase()),
    'must be one of pending, started, running, completed, failed, cancelled, skipped',
  ),
  { type: 'string', enum: [...STATUSES.keys()] },
);

/** The column is an `int`; no command is granted as often. */
const ATTEMPT_MAX = 2_147_483_647;

/** Anything may stand in it, but what is read as an id has to be one (api 1.3). */
const payload = v.pipe(
  map,
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const input = dataset.value;
    const value = input['command_id'];
    if (value == null || parseId(value) !== null) return;
    addIssue({ message: ID_SENTENCE, path: [{ type: 'object', origin: 'value', input, key: 'command_id', value }] });
  }),
);

const fields = {
  event_type: maybe(eventType),
  name: maybe(eventType),
  step: maybe(text(256, 1)),
  node_name: maybe(text(256, 1)),
  payload: maybe(payload),
  context: maybe(payload),
  meta: maybe(map),
  worker_id: maybe(name),
  status: maybe(status),
  report_id: maybe(text(64, 1)),
  event_id: maybe(v.union([text(128, 1), v.number()], 'must be text or a number')),
  command_id: maybe(id),
  attempt: maybe(integer(0, ATTEMPT_MAX)),
  actionable: maybe(flag),
  informative: maybe(flag),
  created_at: maybe(instant),
  error: maybe(json),
  result: maybe(json),
  response: maybe(json),
  duration_ms: maybe(decimal(0, Number.MAX_SAFE_INTEGER)),
};

const NO_TYPE = 'needs event_type';

/** One event inside an exchange or a batch: the execution is the envelope's. */
export const eventItem = v.pipe(
  v.object(fields, 'must be an object'),
  v.check((event) => event.event_type != null || event.name != null, NO_TYPE),
);
export type EventItem = v.InferInput<typeof eventItem>;

export const eventBody = v.pipe(
  v.object({ execution_id: id, ...fields }),
  v.check((event) => event.event_type != null || event.name != null, NO_TYPE),
);
export type EventBody = v.InferInput<typeof eventBody>;

export const eventAnswer = v.object({
  status: v.literal('ok'),
  event_id: v.number(),
  commands_generated: v.number(),
  duplicate: v.boolean(),
  late: v.boolean(),
  stale: v.boolean(),
  execution_status: v.string(),
});
export type EventAnswer = v.InferOutput<typeof eventAnswer>;

/** `actionable` defaults to true for a single event and to false in a batch (api 2.5.2, 2.6.1). */
export function toEventInput(
  item: v.InferOutput<typeof eventItem>,
  actionable = true,
): Omit<EventInput, 'executionId'> {
  const payload = payloadOf(item);
  return {
    // The check above has seen to it that one of the two is there.
    type: item.event_type ?? item.name ?? '',
    step: item.step ?? item.node_name ?? null,
    payload,
    meta: metaOf(item),
    workerId: item.worker_id ?? null,
    status: item.status == null ? null : (STATUSES.get(item.status.toLowerCase()) ?? null),
    reportId: item.report_id ?? (item.event_id == null ? null : String(item.event_id)),
    commandId: item.command_id ?? parseId(payload['command_id']),
    attempt: item.attempt ?? attemptOf(payload['attempt']),
    actionable: item.actionable ?? actionable,
    producerTime: item.created_at ?? null,
  };
}

function payloadOf(item: v.InferOutput<typeof eventItem>): JsonMap {
  const payload = item.payload ?? item.context ?? {};
  const beside: Record<string, Json> = {};
  const result = item.result ?? item.response;
  if (result != null && payload['result'] === undefined && payload['response'] === undefined) beside['result'] = result;
  if (item.error != null && payload['error'] === undefined) beside['error'] = item.error;
  if (item.duration_ms != null && payload['duration_ms'] === undefined) beside['duration_ms'] = item.duration_ms;
  return Object.keys(beside).length === 0 ? payload : { ...payload, ...beside };
}

function metaOf(item: v.InferOutput<typeof eventItem>): JsonMap {
  const meta = item.meta ?? {};
  if (item.event_id == null && item.informative == null && item.actionable == null) return meta;
  return {
    ...meta,
    ...(item.event_id == null ? {} : { producer_event_id: item.event_id }),
    ...(item.informative == null ? {} : { informative: item.informative }),
    ...(item.actionable == null ? {} : { actionable: item.actionable }),
  };
}

function attemptOf(value: Json | undefined): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? Math.min(value, ATTEMPT_MAX) : null;
}
