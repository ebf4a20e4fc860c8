/**
 * The spans of executions and commands (api 7.3): whose child each is, and what a flush has finished. All of it follows
 * from rows, so the process that writes an end tells the whole span, whoever began it.
 */
import { TERMINAL_TYPES } from '../machines/events.ts';
import type { JsonMap } from '../machines/json.ts';
import {
  commandSpanId,
  executionSpanId,
  joined,
  type KeptTrace,
  readKeptTrace,
  type TraceContext,
  traceIdOf,
  writeTraceparent,
} from '../machines/trace-context.ts';
import type { ExecutionActor, Writing } from './execution-actor.ts';
import type { CommandRow, ExecutionRow, Span, Tracer } from './ports.ts';

type Traced = Pick<ExecutionRow, 'executionId' | 'rootExecutionId' | 'trace'>;

/** The span of the execution; what belongs to the run is below it. */
export function executionContext(tracer: Tracer, row: Traced): TraceContext {
  const { context: outer } = readKeptTrace(row.trace);
  const traceId = outer?.traceId ?? traceIdOf(row.rootExecutionId, tracer.digest);
  return {
    traceId,
    spanId: executionSpanId(row.executionId, tracer.digest),
    isSampled: outer === null ? tracer.isSampled(traceId) : outer.isSampled,
  };
}

/** `meta.trace` and `meta.tracestate`: W3C headers as texts. */
export interface TraceHeaders {
  readonly trace: string | null;
  readonly tracestate: string | null;
}

/** Of a command: its own span where spans are made, else what the execution was started with. */
export function commandTrace(tracer: Tracer, row: Traced, commandId: number): TraceHeaders {
  const { context, state } = readKeptTrace(row.trace);
  if (!tracer.isOn) return { trace: context === null ? null : writeTraceparent(context), tracestate: state };
  const own = { ...executionContext(tracer, row), spanId: commandSpanId(commandId, tracer.digest) };
  return { trace: writeTraceparent(own), tracestate: state };
}

/** What its first event tells of the trace an execution belongs to. */
export function traceMeta(kept: string | null): JsonMap {
  const { context, state } = readKeptTrace(kept);
  if (context === null) return {};
  return { trace: writeTraceparent(context), ...(state === null ? {} : { tracestate: state }) };
}

/** What a started execution keeps: what its caller said, else that it belongs below its parent. */
export function startedTrace(
  tracer: Tracer,
  said: string | null,
  parent: { readonly row: Traced; readonly commandId: number | null } | null,
): string | null {
  const own = readKeptTrace(said);
  const above = parent === null ? null : readKeptTrace(parent.row.trace);
  // Our own worker brings the span of its try; the state of the tree is known here.
  if (own.context !== null) return joined(writeTraceparent(own.context), own.state ?? stateOfSame(own, above));
  if (parent === null || above === null) return null;
  if (parent.commandId !== null) {
    const { trace, tracestate } = commandTrace(tracer, parent.row, parent.commandId);
    return trace === null ? null : joined(trace, tracestate);
  }
  return tracer.isOn ? joined(writeTraceparent(executionContext(tracer, parent.row)), above.state) : parent.row.trace;
}

function stateOfSame(own: KeptTrace, above: KeptTrace | null): string | null {
  return own.context !== null && above?.context?.traceId === own.context.traceId ? above.state : null;
}

/** Records every command and execution that ended with this flush. */
export function recordEnds(tracer: Tracer, actor: ExecutionActor, writing: Writing): void {
  const { row } = actor;
  const context = executionContext(tracer, row);
  if (!context.isSampled) return;
  for (const command of [...writing.issued.values(), ...writing.changed.values()]) {
    if (command.completedAt !== null) tracer.record(commandSpan(tracer, context, row, command));
  }
  if (endsWith(actor, writing)) tracer.record(executionSpan(context, row));
}

/** Whether this flush carries the end of the execution. */
export function endsWith(actor: ExecutionActor, writing: Writing): boolean {
  const { endTime } = actor.row;
  if (endTime === null) return false;
  const terminal = writing.terminal ?? writing.events.find(({ type }) => TERMINAL_TYPES.has(type)) ?? null;
  return terminal !== null && terminal.at === endTime && terminal.meta['late'] !== true;
}

function commandSpan(tracer: Tracer, context: TraceContext, row: ExecutionRow, command: CommandRow): Span {
  const { commandId, attempt, claimedAt, startedAt, createdAt, completedAt } = command;
  const end = Date.parse(completedAt ?? createdAt);
  return {
    name: `command ${command.stepName}`,
    traceId: context.traceId,
    spanId: commandSpanId(commandId, tracer.digest),
    parentSpanId: context.spanId,
    startMs: Date.parse(createdAt),
    endMs: end,
    attributes: {
      'callboard.execution_id': row.executionId,
      'callboard.command_id': commandId,
      'callboard.step': command.stepName,
      'callboard.tool_kind': command.toolKind,
      'callboard.attempt': attempt,
      'callboard.status': command.status,
    },
    events: [
      // The row knows the last claim only; earlier ones are in the log.
      ...(claimedAt === null ? [] : [happened(attempt > 1 ? 'reclaimed' : 'claimed', claimedAt, attempt)]),
      ...(startedAt === null ? [] : [happened('started', startedAt, attempt)]),
    ],
    failed: command.status === 'FAILED',
  };
}

function happened(name: string, at: string, attempt: number): NonNullable<Span['events']>[number] {
  return { name, atMs: Date.parse(at), attributes: { 'callboard.attempt': attempt } };
}

function executionSpan(context: TraceContext, row: ExecutionRow): Span {
  const { context: outer } = readKeptTrace(row.trace);
  return {
    name: `execution ${row.path}`,
    traceId: context.traceId,
    spanId: context.spanId,
    parentSpanId: outer?.spanId ?? null,
    startMs: Date.parse(row.startTime),
    endMs: Date.parse(row.endTime ?? row.startTime),
    attributes: {
      'callboard.execution_id': row.executionId,
      'callboard.catalog_id': row.catalogId,
      'callboard.path': row.path,
      'callboard.version': row.version,
      'callboard.status': row.status,
      ...(row.parentExecutionId === null ? {} : { 'callboard.parent_execution_id': row.parentExecutionId }),
    },
    failed: row.status === 'failed',
  };
}
