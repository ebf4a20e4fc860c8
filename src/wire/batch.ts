/** Batches of events on the wire (api 2.6): what comes in, the 202, and the state that is read and streamed. */
import * as v from 'valibot';
import type { BatchRow } from '../../actors/ports.ts';
import type { BatchReceipt, BatchRequest } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { eventItem, toEventInput } from './event-input.ts';
import { list, maybe } from './fields.ts';
import { id, idOut, name } from './ids.ts';
import { jsonBytes } from './json-size.ts';
import { idempotencyKey } from './start.ts';

const EVENTS_MAX = 256;
const PAYLOAD_BYTES_MAX = 2 * 1024 * 1024;

const item = v.intersect([eventItem, v.object({ execution_id: maybe(id) }, 'must be an object')]);

export const batchBody = v.pipe(
  v.object({
    // Null is no id here (api 1.2): only an absent one is looked for in the items.
    execution_id: v.optional(id),
    catalog_id: maybe(id),
    worker_id: maybe(name),
    idempotency_key: maybe(idempotencyKey),
    events: list(item, EVENTS_MAX),
  }),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const { execution_id: envelope, events } = dataset.value;
    const executionId = envelope ?? events[0]?.execution_id;
    if (executionId == null) addIssue({ message: 'needs execution_id' });
    for (const [index, event] of events.entries()) {
      const differs = event.execution_id == null ? envelope === undefined : event.execution_id !== executionId;
      if (executionId != null && differs)
        addIssue({ message: `events[${index}].execution_id must be that of the batch` });
    }
    let bytes = 0;
    for (const event of events) {
      bytes += payloadBytes(event);
      if (bytes > PAYLOAD_BYTES_MAX) break;
    }
    if (bytes > PAYLOAD_BYTES_MAX)
      addIssue({ message: `payloads are larger than ${PAYLOAD_BYTES_MAX} bytes together` });
  }),
);

export type BatchBody = v.InferInput<typeof batchBody>;

export const batchAnswer = v.object({
  status: v.literal('accepted'),
  request_id: v.string(),
  event_ids: v.array(v.number()),
  commands_generated: v.number(),
  queue_depth: v.number(),
  duplicate: v.boolean(),
  idempotency_key: v.nullable(v.string()),
});
export type BatchAnswer = v.InferOutput<typeof batchAnswer>;

export const batchState = v.object({
  request_id: v.string(),
  execution_id: idOut,
  state: v.picklist(['accepted', 'processing', 'completed', 'failed']),
  status: v.picklist(['pending', 'running', 'completed', 'failed']),
  error_code: v.nullable(v.string()),
  message: v.nullable(v.string()),
  event_ids: v.array(v.number()),
  event_count: v.number(),
  commands_generated: v.number(),
  idempotency_key: v.nullable(v.string()),
  queue_wait_ms: v.nullable(v.number()),
  timings: v.nullable(v.custom<JsonMap>((value) => typeof value === 'object')),
  created_at: v.string(),
  updated_at: v.string(),
});
export type BatchState = v.InferOutput<typeof batchState>;

/** `hash` is that of the canonical text given to it. */
export function toBatchRequest(
  body: v.InferOutput<typeof batchBody>,
  headerKey: string | null,
  hash: (value: JsonMap) => string,
): BatchRequest {
  const { idempotency_key: key, ...rest } = body;
  const executionId = body.execution_id ?? body.events[0]?.execution_id;
  // The check above has seen to it that there is one.
  if (executionId == null) throw new Error('a batch without an execution passed its schema');
  return {
    executionId,
    events: body.events.map((event) => toEventInput(event, false)),
    workerId: body.worker_id ?? null,
    idempotencyKey: headerKey ?? key ?? null,
    // A body that was read from JSON is JSON.
    bodyHash: hash(rest as unknown as JsonMap),
  };
}

export function receiptToWire(receipt: BatchReceipt): BatchAnswer {
  return {
    status: 'accepted',
    request_id: String(receipt.requestId),
    event_ids: [...receipt.eventIds],
    // Nothing has been routed yet; the number is in the state of the batch.
    commands_generated: 0,
    queue_depth: receipt.queueDepth,
    duplicate: receipt.duplicate,
    idempotency_key: receipt.idempotencyKey,
  };
}

const STATUS = { accepted: 'pending', processing: 'running', completed: 'completed', failed: 'failed' } as const;

export function batchToWire(row: BatchRow): BatchState {
  return {
    request_id: String(row.requestId),
    execution_id: row.executionId,
    state: row.state,
    status: STATUS[row.state],
    error_code: row.errorCode,
    message: row.message,
    event_ids: [...row.eventIds],
    event_count: row.eventCount,
    commands_generated: row.commandsGenerated,
    idempotency_key: row.idempotencyKey,
    queue_wait_ms: row.queueWaitMs,
    timings: row.timings,
    created_at: row.createdAt,
    updated_at: row.updatedAt,
  };
}

function payloadBytes(event: v.InferOutput<typeof item>): number {
  const { payload, context, error, result, response } = event;
  return jsonBytes([payload ?? context ?? null, error ?? null, result ?? response ?? null], PAYLOAD_BYTES_MAX);
}
