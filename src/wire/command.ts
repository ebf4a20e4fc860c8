/**
 * A command on the wire (api 3.1): what a worker gets to run. `context.tool_config` is unrendered; `attempt` is the
 * fencing token of the claim and goes back with every report.
 */
import * as v from 'valibot';
import type { GrantedCommand } from '../../actors/services.ts';
import { instantOf } from '../../machines/command/instant.ts';
import { NO_CHILD, resumeOf } from '../../machines/command/retry-wait.ts';
import { nodeIdOf } from '../../machines/events.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { json, map } from './fields.ts';
import { idOut } from './ids.ts';

const count = v.number();

/** Reading is tolerant: fields that a newer server adds are dropped (api 1.1). */
export const command = v.object({
  command_id: idOut,
  execution_id: idOut,
  event_id: idOut,
  catalog_id: idOut,
  path: v.string(),
  version: count,
  node_id: v.string(),
  node_name: v.string(),
  step: v.string(),
  action: v.string(),
  tool_kind: v.string(),
  pool: v.string(),
  status: v.string(),
  attempt: count,
  worker_id: v.nullable(v.string()),
  lease_seconds: v.number(),
  timeout_seconds: v.number(),
  server_time: v.string(),
  context: v.object({
    tool_config: json,
    input: map,
    spec: map,
    render_context: v.nullable(map),
    context_ref: v.nullable(v.string()),
    /** Names and values of the loop iteration, or null outside a loop. */
    iteration: v.nullable(map),
    /** `{state, ctx}` of the wait this command goes on from; absent where it begins at its beginning. */
    resume: v.optional(v.nullable(map)),
  }),
  meta: v.object({
    command_id: idOut,
    execution_id: idOut,
    catalog_id: idOut,
    step: v.string(),
    activation: count,
    tool_kind: v.string(),
    attempt: count,
    max_attempts: count,
    iteration_index: v.nullable(count),
    iteration_total: v.nullable(count),
    cursor: v.nullable(json),
    parent_execution_id: v.nullable(idOut),
    trace: v.nullable(v.string()),
    tracestate: v.nullable(v.string()),
  }),
});

export type Command = v.InferOutput<typeof command>;

/** As those see it who do not run it: the inputs are the workers' (api 2.4.3). */
export const commandSeen = v.object({ ...command.entries, context: v.optional(command.entries.context) });

/** `serverTime` is ISO by the database's clock. */
export function commandToWire(granted: GrantedCommand, serverTime: string): Command {
  const row = granted.row;
  const resume = resumeOf(row);
  return {
    command_id: row.commandId,
    execution_id: row.executionId,
    event_id: row.eventId,
    catalog_id: row.catalogId,
    path: granted.path,
    version: granted.version,
    node_id: nodeIdOf(row.stepName, row.iterationIndex),
    node_name: row.stepName,
    step: row.stepName,
    action: row.toolKind,
    tool_kind: row.toolKind,
    pool: row.pool,
    status: row.status,
    attempt: row.attempt,
    worker_id: row.workerId,
    lease_seconds: granted.leaseSeconds,
    timeout_seconds: resume === null ? granted.timeoutSeconds : secondsUntil(resume.deadline, serverTime),
    server_time: serverTime,
    context: {
      tool_config: granted.toolConfig,
      input: mapAt(row.context, 'input') ?? {},
      spec: mapAt(row.context, 'spec') ?? {},
      render_context: mapAt(row.context, 'render_context'),
      context_ref: row.contextRef,
      iteration: mapAt(row.context, 'iteration'),
      ...(resume === null ? {} : { resume: { state: resume.state, ctx: resume.ctx } }),
    },
    meta: {
      command_id: row.commandId,
      execution_id: row.executionId,
      catalog_id: row.catalogId,
      step: row.stepName,
      activation: row.activation,
      tool_kind: row.toolKind,
      attempt: row.attempt,
      max_attempts: row.maxAttempts,
      iteration_index: row.iterationIndex,
      iteration_total: granted.iterationTotal,
      cursor: cursorOf(row.meta),
      parent_execution_id: granted.parentExecutionId,
      trace: granted.trace,
      tracestate: granted.tracestate,
    },
  };
}

/** A command in the list of one execution: without its inputs, and with how it went. */
export const listedCommand = v.object({
  ...v.omit(command, ['context']).entries,
  max_attempts: count,
  activation: count,
  iteration_index: v.nullable(count),
  priority: count,
  parked_on: v.nullable(idOut),
  error: v.nullable(v.string()),
  created_at: v.string(),
  claimed_at: v.nullable(v.string()),
  started_at: v.nullable(v.string()),
  completed_at: v.nullable(v.string()),
  next_wake_at: v.nullable(v.string()),
});

export function listedCommandToWire(granted: GrantedCommand, serverTime: string): v.InferOutput<typeof listedCommand> {
  const { row } = granted;
  const { context: _, ...seen } = commandToWire(granted, serverTime);
  return {
    ...seen,
    max_attempts: row.maxAttempts,
    activation: row.activation,
    iteration_index: row.iterationIndex,
    priority: row.priority,
    parked_on: row.parkedOn === NO_CHILD ? null : row.parkedOn,
    error: row.error,
    created_at: row.createdAt,
    claimed_at: row.claimedAt,
    started_at: row.startedAt,
    completed_at: row.completedAt,
    next_wake_at: row.nextWakeAt,
  };
}

/** What is left of the step's time. A step whose time is over ends with the worker's first look at its clock. */
function secondsUntil(deadline: string, serverTime: string): number {
  return Math.max(0.001, (instantOf(deadline) - instantOf(serverTime)) / 1000);
}

function mapAt(from: JsonMap, key: string): JsonMap | null {
  const value = from[key];
  return isMap(value) ? value : null;
}

function cursorOf(meta: JsonMap): Json {
  return meta['cursor'] ?? null;
}
