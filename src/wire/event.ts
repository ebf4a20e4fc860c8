/** The *Event* object (api 3.1): 15 fields that are always there, three more, and internal ones on request. */
import * as v from 'valibot';
import type { LogEvent } from '../../machines/events.ts';
import type { JsonMap } from '../../machines/json.ts';
import { map } from './fields.ts';
import { idOut } from './ids.ts';

export type EventFields = 'default' | 'all' | 'min';

const nullableText = v.nullable(v.string());

const minimal = {
  execution_id: idOut,
  event_id: v.number(),
  event_type: v.string(),
  node_id: v.string(),
  node_name: v.string(),
  status: v.string(),
  created_at: v.string(),
  timestamp: v.string(),
  error: nullableText,
  catalog_id: idOut,
  parent_execution_id: v.nullable(idOut),
  parent_event_id: v.nullable(v.number()),
  duration: v.nullable(v.number()),
  node_type: nullableText,
  worker_id: nullableText,
};

export const event = v.object({
  ...minimal,
  context: v.optional(map),
  result: v.optional(v.nullable(map)),
  meta: v.optional(map),
  cause_id: v.optional(v.number()),
  command_id: v.optional(v.nullable(idOut)),
  attempt: v.optional(v.nullable(v.number())),
  report_id: v.optional(nullableText),
  stale: v.optional(v.boolean()),
  closes: v.optional(v.boolean()),
  engine_version: v.optional(v.nullable(v.number())),
});
export type Event = v.InferOutput<typeof event>;

export interface EventOwner {
  readonly executionId: number;
  readonly catalogId: number;
}

export function eventToWire(row: LogEvent, owner: EventOwner, fields: EventFields = 'default'): Event {
  const wire: Event = {
    execution_id: owner.executionId,
    event_id: row.eventId,
    event_type: row.type,
    node_id: row.nodeId,
    node_name: row.nodeName,
    status: row.status,
    created_at: row.at,
    timestamp: row.at,
    error: row.error,
    catalog_id: owner.catalogId,
    parent_execution_id: row.parentExecutionId,
    parent_event_id: row.parentEventId,
    duration: row.duration,
    node_type: row.nodeType,
    worker_id: row.workerId,
  };
  if (fields === 'min') return wire;
  wire.context = row.context;
  wire.result = resultOf(row);
  wire.meta = metaOf(row);
  if (fields === 'default') return wire;
  wire.cause_id = row.causeId;
  wire.command_id = row.commandId;
  wire.attempt = row.attempt;
  wire.report_id = row.reportId;
  wire.stale = row.stale;
  wire.closes = row.closes;
  wire.engine_version = row.engineVersion;
  return wire;
}

/** `{status, context?, reference?}` and nothing else. */
function resultOf({ result }: LogEvent): JsonMap | null {
  if (result === null) return null;
  const { reference } = result;
  return {
    status: result.status,
    ...(result.context === undefined ? {} : { context: result.context }),
    ...(reference === undefined
      ? {}
      : {
          reference: { ref: reference.ref, store: reference.store, bytes: reference.bytes, sha256: reference.sha256 },
        }),
  };
}

/** The columns that `meta` shows are the truth; what was stored beside them cannot contradict them. */
function metaOf(row: LogEvent): JsonMap {
  if (row.commandId === null && !row.stale) return row.meta;
  return {
    ...row.meta,
    ...(row.commandId === null ? {} : { command_id: row.commandId }),
    ...(row.attempt === null ? {} : { attempt: row.attempt }),
    ...(row.stale ? { stale: true } : {}),
  };
}
