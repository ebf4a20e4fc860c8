/** Charts on the wire (api 2.16): their documents, where one stands, the frames of a trace, and a trial. */
import * as v from 'valibot';
import type { BatchView, ChartView, CommandView, EntryView, ExecutionView, Trial } from '../../actors/services.ts';
import type { Frame } from '../../machines/execution/tape.ts';
import type { JsonMap } from '../../machines/json.ts';
import { described } from './described.ts';
import { eventToWire } from './event.ts';
import { integer, json, map, maybe } from './fields.ts';
import { id, idOut } from './ids.ts';

const nextEvents = v.array(v.object({ type: v.string(), guards: v.array(v.string()) }));

const chartFields = {
  machine: v.string(),
  machine_version: v.number(),
  value: json,
  states: v.array(v.string()),
  context: map,
  next_events: nextEvents,
};

export const machineListed = v.object({
  name: v.string(),
  version: v.number(),
  states: v.number(),
  description: v.string(),
});

export const machineDocument = v.object({
  name: v.string(),
  version: v.number(),
  description: v.string(),
  config: map,
  definition: map,
  layout: map,
  mermaid: v.string(),
  scxml: v.string(),
});

export const executionMachine = v.object({
  execution_id: idOut,
  ...chartFields,
  at: v.number(),
  status: v.string(),
  cursor: v.object({ last_event_id: v.number(), handled_through: v.number() }),
  why: v.string(),
});

export function executionMachineToWire(view: ExecutionView): v.InferOutput<typeof executionMachine> {
  return {
    execution_id: view.row.executionId,
    ...chartToWire(view),
    at: view.at,
    status: statusOf(view),
    cursor: { last_event_id: view.cursor.lastEventId, handled_through: view.cursor.handledThrough },
    why: view.sentence,
  };
}

export const commandMachine = v.object({
  execution_id: idOut,
  command_id: idOut,
  ...chartFields,
  at: v.number(),
  status: v.string(),
});

export function commandMachineToWire(view: CommandView): v.InferOutput<typeof commandMachine> {
  const { row } = view;
  return {
    execution_id: row.executionId,
    command_id: row.commandId,
    ...chartToWire(view),
    at: view.at,
    status: row.status,
  };
}

export const batchMachine = v.object({
  execution_id: idOut,
  request_id: v.string(),
  ...chartFields,
  status: v.string(),
});

export function batchMachineToWire(view: BatchView): v.InferOutput<typeof batchMachine> {
  const { requestId, executionId, state } = view.row;
  return { execution_id: executionId, request_id: String(requestId), ...chartToWire(view), status: state };
}

export const keychainMachine = v.object({
  catalog_id: idOut,
  name: v.string(),
  ...chartFields,
  at: v.number(),
  status: v.string(),
});

export function keychainMachineToWire(
  owner: { readonly catalogId: number; readonly name: string },
  view: EntryView,
): v.InferOutput<typeof keychainMachine> {
  const status = String(view.value);
  return { catalog_id: owner.catalogId, name: owner.name, ...chartToWire(view), at: view.at, status };
}

export const frame = v.object({
  n: v.number(),
  event_id: v.number(),
  cause_id: v.number(),
  type: v.string(),
  at: v.string(),
  changed: v.boolean(),
  states: v.array(v.string()),
  context_patch: map,
  keyframe: v.boolean(),
});

export function frameToWire({ n, event, changed, states, patch, isKeyframe }: Frame): v.InferOutput<typeof frame> {
  return {
    n,
    event_id: event.eventId,
    cause_id: event.causeId,
    type: event.type,
    at: event.at,
    changed,
    states: [...states],
    context_patch: patch,
    keyframe: isKeyframe,
  };
}

export const trace = v.object({
  execution_id: idOut,
  machine: v.string(),
  machine_version: v.number(),
  frames: v.array(frame),
  next_after: v.nullable(v.number()),
});

const eventInput = described(
  v.custom<JsonMap>(
    (value) => typeof value === 'object' && value !== null && 'type' in value && isEventType(value.type),
    'must be an object with a type of 1 to 128 characters',
  ),
  { type: 'object', required: ['type'], properties: { type: { type: 'string', minLength: 1, maxLength: 128 } } },
);

export const trialBody = v.pipe(
  v.object({
    snapshot: maybe(v.object({ value: json, context: maybe(map) })),
    execution_id: maybe(id),
    at: maybe(integer(1, Number.MAX_SAFE_INTEGER)),
    event: eventInput,
  }),
  v.check((body) => body.snapshot == null || body.execution_id == null, 'has both snapshot and execution_id'),
  v.check((body) => body.at == null || body.execution_id != null, 'has at, which needs execution_id'),
);

const recordedEvent = v.object({
  event_id: v.number(),
  event_type: v.string(),
  node_name: v.string(),
  node_id: v.string(),
  status: v.string(),
  command_id: v.nullable(v.number()),
  error: v.nullable(v.string()),
});

export const trialAnswer = v.object({
  snapshot: v.object({ value: json, context: map, status: v.string() }),
  changed: v.boolean(),
  states: v.array(v.string()),
  recorded: v.array(recordedEvent),
  decisions: v.array(v.string()),
  next_events: nextEvents,
});

export function trialToWire({ view, changed, recorded, decisions }: Trial): v.InferOutput<typeof trialAnswer> {
  return {
    snapshot: { value: view.value, context: view.context, status: view.isActive ? 'active' : 'done' },
    changed,
    states: [...view.states],
    // Metadata only: what a decision would carry is not shown.
    recorded: recorded.map((event) => {
      const shown = eventToWire(event, { executionId: 0, catalogId: 0 }, 'min');
      const { event_id, event_type, node_name, node_id, status, error } = shown;
      return { event_id, event_type, node_name, node_id, status, command_id: event.commandId, error };
    }),
    decisions: [...decisions],
    next_events: nextToWire(view),
  };
}

function chartToWire(view: ChartView) {
  return {
    machine: view.machine,
    machine_version: view.machineVersion,
    value: view.value,
    states: [...view.states],
    context: view.context,
    next_events: nextToWire(view),
  };
}

function nextToWire({ nextEvents: next }: ChartView) {
  return next.map(({ type, guards }) => ({ type, guards: [...guards] }));
}

/** The status at that place, not the present one. */
function statusOf({ value }: ChartView): string {
  return value === 'completed' || value === 'failed' || value === 'cancelled' ? value : 'running';
}

function isEventType(type: unknown): boolean {
  return typeof type === 'string' && type.length >= 1 && type.length <= 128;
}
