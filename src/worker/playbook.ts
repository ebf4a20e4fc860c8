/**
 * Kind `playbook` (language 11.7): starts a child execution and, if asked, waits for it. Starting is idempotent per
 * command, task and try, so a command that runs again finds the child it started; waiting is the same call made again
 * with a wait, which the server answers when the child has ended.
 */
import type { Failure } from '../../machines/events.ts';
import {
  childData,
  childFailure,
  childTimeout,
  type EndedChild,
  startedChildData,
} from '../../machines/execution/child-data.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { Task } from '../../machines/playbook/document.ts';
import { literalNumber } from '../../machines/playbook/literal.ts';
import { hasTemplate } from '../../machines/playbook/names.ts';
import { readReference } from '../../machines/playbook/reference.ts';
import type { EventsAnswer, StartAnswer } from '../client/answers.ts';
import type { EventQuery, StartRequest } from '../client/client.ts';
import { ApiError, isPassing } from '../client/errors.ts';
import { FieldProblem, fieldOf, flagOf, mapOf, textOf } from '../tools/fields.ts';
import type { ToolFailure, ToolOutcome } from '../tools/tool.ts';
import { engineFailure, thrownFailure } from './outcome.ts';
import type { WorkerTime } from './time.ts';

export interface ChildClient {
  execute(request: StartRequest, options: { signal: AbortSignal }): Promise<StartAnswer>;
  events(executionId: number, query: EventQuery, options: { signal: AbortSignal }): Promise<EventsAnswer>;
  resolveResult(ref: string, options: { signal: AbortSignal }): Promise<Json>;
}

export interface ChildCall {
  readonly executionId: number;
  readonly commandId: number;
  readonly task: string;
  /** Of this label in this command, from 1. */
  readonly tryNumber: number;
  readonly fields: JsonMap;
  readonly input: JsonMap;
  /** Seconds to wait; null for the default. */
  readonly timeoutSeconds: number | null;
  readonly signal: AbortSignal;
  /** Runs a wait without occupying a slot of the worker. */
  readonly outsideSlot: <T>(wait: () => Promise<T>) => Promise<T>;
  readonly time: WorkerTime;
}

interface Child {
  readonly executionId: number;
  readonly path: string;
}

const TIMEOUT_SECONDS = 3600;
const WAIT_MS = 20_000;
/** How much longer than its time-out a wait may take to hear of a child that it does not know yet. */
const GRACE_MS = 5_000;
const PAUSE_MS = 500;
/** What may be the last word on a step. */
const OUTCOMES = ['call.done', 'call.error', 'loop.done'];

/** A waiting single tool whose outcome the server can compute alone: nothing of it is a template of the worker's. */
export function isParkable(tasks: readonly Task[], pipeline: boolean): boolean {
  const [task] = tasks;
  if (pipeline || task === undefined || task.kind !== 'playbook') return false;
  if (task.rules.length > 0 || task.onUnmatched !== null || task.set.length > 0 || task.output !== null) return false;
  const { return_step: step, wait, return_result: result } = task.fields;
  const fixed = [step ?? null, wait ?? null, result ?? null, task.timeout].every(
    (value) => typeof value !== 'string' || !hasTemplate(value),
  );
  return fixed && isWaiting(task.fields) && (task.timeout === null || literalNumber(task.timeout) !== null);
}

/** Starts the child without waiting: its id, or why it was not started. */
export async function startChild(client: ChildClient, call: ChildCall): Promise<Child | ToolFailure> {
  try {
    const answer = await client.execute(startRequestOf(call, null), { signal: call.signal });
    return { executionId: answer.execution_id, path: answer.path };
  } catch (error) {
    call.signal.throwIfAborted();
    return startFailure(error, call.fields);
  }
}

/** One try of the kind, waiting included. */
export async function runChild(client: ChildClient, call: ChildCall): Promise<ToolOutcome> {
  if (isWaiting(call.fields)) return call.outsideSlot(() => awaitChild(client, call));
  const child = await startChild(client, call);
  return 'ok' in child ? child : { ok: true, data: startedChildData(child) };
}

function isWaiting(fields: JsonMap): boolean {
  return (
    (textOf(fields, 'return_step') ?? '') !== '' ||
    flagOf(fields, false, 'wait') ||
    flagOf(fields, false, 'return_result')
  );
}

/**
 * Start and wait are one call, repeated: the server knows it by its key, so the wait is the same each time and a local
 * deadline cuts the last one short. The first answer is waited for a little longer, because it says which child it is.
 */
async function awaitChild(client: ChildClient, call: ChildCall): Promise<ToolOutcome> {
  const timeoutSeconds = call.timeoutSeconds ?? TIMEOUT_SECONDS;
  const wait = new ChildWait(call, timeoutSeconds * 1000);
  try {
    return await awaitUntil(client, call, timeoutSeconds, wait);
  } finally {
    wait.clear();
  }
}

/** The child being waited for, and for how long. */
class ChildWait {
  readonly signal: AbortSignal;
  readonly waitMs: number;
  child: Child | null = null;
  isOver = false;
  clear: () => void;
  readonly #late = new AbortController();

  constructor(call: ChildCall, timeoutMs: number) {
    this.signal = AbortSignal.any([call.signal, this.#late.signal]);
    this.waitMs = Math.min(WAIT_MS, Math.ceil(timeoutMs));
    this.clear = call.time.after(timeoutMs, () => {
      this.isOver = true;
      if (this.child !== null) this.#late.abort();
      else this.clear = call.time.after(GRACE_MS, () => this.#late.abort());
    });
  }
}

async function awaitUntil(
  client: ChildClient,
  call: ChildCall,
  timeoutSeconds: number,
  wait: ChildWait,
): Promise<ToolOutcome> {
  const { signal } = wait;
  while (!signal.aborted) {
    try {
      const answer = await client.execute(startRequestOf(call, wait.waitMs), { signal });
      const child = { executionId: answer.execution_id, path: answer.path };
      wait.child = child;
      const status = answer.execution_status ?? 'running';
      if (status === 'running' && wait.isOver) break;
      if (status === 'running') continue;
      const ended = await endedChild(client, call, child, { ...answer, execution_status: status });
      const failure = childFailure(ended);
      return failure === null ? { ok: true, data: childData(ended) } : failed(failure, null);
    } catch (error) {
      if (signal.aborted) break;
      if (wait.child === null || !isPassing(error)) return startFailure(error, call.fields);
      await call.time.pause(PAUSE_MS, signal).catch(() => {});
    }
  }
  call.signal.throwIfAborted();
  if (wait.child === null) return startFailure(signal.reason, call.fields);
  return failed(childTimeout(wait.child, timeoutSeconds), null);
}

async function endedChild(
  client: ChildClient,
  call: ChildCall,
  child: Child,
  answer: StartAnswer & { execution_status: EndedChild['status'] },
): Promise<EndedChild> {
  const step = textOf(call.fields, 'return_step') ?? '';
  const found =
    step === '' || answer.execution_status !== 'completed' ? null : await stepValueOf(client, call, child, step);
  const result = found === null ? await resolved(client, call, answer.result ?? null) : found.value;
  return { ...child, status: answer.execution_status, returned: result, error: answer.error ?? null };
}

/** The value of a step that completed in the child, or null where it did not, or where it failed when it was entered again. */
async function stepValueOf(
  client: ChildClient,
  call: ChildCall,
  child: Child,
  step: string,
): Promise<{ value: Json } | null> {
  const query = { step, event_type: [...OUTCOMES, 'ctx.updated'], order: 'desc', page_size: 100 } as const;
  const { events } = await client.events(child.executionId, query, { signal: call.signal });
  // A loop's value is its aggregate; the rows of its iterations are older than it. A `set` may fail after the outcome.
  const row = events.find(
    ({ event_type: type, meta }) =>
      meta?.['stale'] !== true && meta?.['late'] !== true && (type !== 'ctx.updated' || isMap(meta?.['failed'])),
  );
  if (row === undefined || row.event_type === 'ctx.updated' || row.status !== 'completed') return null;
  const reference = row.result?.['reference'];
  const context = row.result?.['context'];
  if (isMap(reference) && typeof reference['ref'] === 'string') {
    return { value: await client.resolveResult(reference['ref'], { signal: call.signal }) };
  }
  return { value: isMap(context) ? (context['data'] ?? null) : null };
}

/** An execution result stored apart is its summary. A value may have a member `_ref` of its own, which refers to nothing. */
async function resolved(client: ChildClient, call: ChildCall, result: Json): Promise<Json> {
  const { _ref: ref, _size_bytes: bytes } = isMap(result) ? result : {};
  const isSummary = typeof ref === 'string' && typeof bytes === 'number' && readReference(ref) !== null;
  return isSummary ? client.resolveResult(ref, { signal: call.signal }) : result;
}

function startRequestOf(call: ChildCall, waitMs: number | null): StartRequest {
  const { fields } = call;
  const path = textOf(fields, 'path');
  const catalogId = Number(textOf(fields, 'catalog_id') ?? Number.NaN);
  const version = fieldOf(fields, 'version');
  const kind = textOf(fields, 'resource_kind');
  const args = mapOf(fields, 'args');
  return {
    ...(path === undefined || path === '' ? {} : { path }),
    ...(Number.isSafeInteger(catalogId) ? { catalog_id: catalogId } : {}),
    ...(version === undefined ? {} : { version: version === 'latest' ? version : Number(version) }),
    ...(kind === undefined ? {} : { resource_kind: kind }),
    workload: { ...args, ...call.input },
    parent_execution_id: call.executionId,
    parent_command_id: call.commandId,
    idempotency_key: `${call.commandId}:${call.task}:${call.tryNumber}`,
    ...(waitMs === null ? {} : { wait_ms: waitMs }),
  };
}

function startFailure(error: unknown, fields: JsonMap): ToolFailure {
  if (error instanceof FieldProblem) return thrownFailure(error);
  const target = textOf(fields, 'path') ?? `catalog_id=${textOf(fields, 'catalog_id') ?? ''}`;
  if (!(error instanceof ApiError)) {
    return engineFailure('connection', 'CONN_ERROR', `child playbook ${target} cannot be started: no answer`);
  }
  const message = `child playbook ${target} cannot be started: ${error.message}`;
  if (error.status === 404) return engineFailure('missing_reference', 'CHILD_NOT_FOUND', message);
  if (isPassing(error)) return engineFailure('connection', 'CONN_ERROR', message);
  const isLogic = error.status === 409 || error.code === 'nesting_too_deep';
  return engineFailure(isLogic ? 'logic' : 'config', error.code.toUpperCase(), message);
}

function failed({ kind, code, message, retryable = false }: Failure, data: Json): ToolFailure {
  return { ok: false, error: { kind, code: code ?? '', message, retryable }, data };
}
