/**
 * A claimed command as the worker runs it: the wire form with its tasks read and its context typed. The context was
 * written by our own server from `RenderContext`, so here its shape is only filled up where a member is missing.
 */

import type { Iteration, RenderContext, StepSnapshot } from '../../machines/execution/render-context.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { readScope } from '../../machines/keychain/scope.ts';
import type { Task } from '../../machines/playbook/document.ts';
import { readTask } from '../../machines/playbook/tool-config.ts';
import type { Command } from '../wire/command.ts';

export interface WorkerCommand {
  readonly commandId: number;
  readonly executionId: number;
  readonly catalogId: number;
  readonly attempt: number;
  readonly step: string;
  readonly toolKind: string;
  readonly tasks: readonly Task[];
  /** The author wrote a list: the value is that of language 7.8. */
  readonly pipeline: boolean;
  readonly context: RenderContext;
  readonly iteration: Iteration | null;
  /** For the whole command, retries and waits included. */
  readonly timeoutSeconds: number;
  /** W3C `traceparent` of the command; null where it belongs to no trace. */
  readonly trace: string | null;
  /** Passed on with the former. */
  readonly tracestate: string | null;
  /** What an earlier worker left for this one; its shape is the worker's own (pipeline.ts). */
  readonly resume: { readonly state: Json; readonly ctx: JsonMap } | null;
}

/** `stored` is the payload of `context_ref` where the context travels apart. Throws on a configuration it cannot read. */
export function readCommand(wire: Command, stored: Json): WorkerCommand {
  const apart = isMap(stored) ? stored : {};
  const given = wire.context.render_context ?? mapAt(apart, 'render_context') ?? apart;
  const iteration = mapAt(given, 'iteration') ?? wire.context.iteration ?? mapAt(apart, 'iteration');
  return {
    commandId: wire.command_id,
    executionId: wire.execution_id,
    catalogId: wire.catalog_id,
    attempt: wire.attempt,
    step: wire.step,
    toolKind: wire.tool_kind,
    ...tasksOf(wire.context.tool_config, wire.step),
    context: contextOf(given, wire),
    iteration: iteration === null ? null : iterationOf(iteration),
    timeoutSeconds: wire.timeout_seconds,
    trace: wire.meta.trace,
    tracestate: wire.meta.tracestate,
    resume: resumeOf(wire.context.resume ?? null),
  };
}

function resumeOf(given: JsonMap | null): WorkerCommand['resume'] {
  return given === null ? null : { state: given['state'] ?? null, ctx: mapAt(given, 'ctx') ?? {} };
}

function tasksOf(config: Json, step: string): Pick<WorkerCommand, 'tasks' | 'pipeline'> {
  const pipeline = Array.isArray(config);
  const configs: readonly Json[] = Array.isArray(config) ? config : [config];
  const tasks = configs.map((each, index) => {
    if (!isMap(each)) throw new TypeError('the tool configuration is not a map');
    return readTask(each, pipeline ? `task_${index}` : `${step}_task`);
  });
  if (tasks.length === 0) throw new TypeError('the tool configuration has no task');
  return { tasks, pipeline };
}

function contextOf(given: JsonMap, wire: Command): RenderContext {
  const refs = Object.entries(mapAt(given, 'ctx_refs') ?? {}).filter((entry): entry is [string, string] => {
    return typeof entry[1] === 'string';
  });
  const steps = Object.entries(mapAt(given, 'steps') ?? {}).flatMap(([name, step]) =>
    isMap(step) ? [[name, stepOf(step)] as const] : [],
  );
  const keychain = mapAt(given, 'keychain');
  return {
    execution_id: String(wire.execution_id),
    catalog_id: String(wire.catalog_id),
    path: wire.path,
    version: wire.version,
    workload: mapAt(given, 'workload') ?? {},
    args: mapAt(given, 'args') ?? {},
    ctx: mapAt(given, 'ctx') ?? {},
    ctx_refs: Object.fromEntries(refs),
    steps: Object.fromEntries(steps),
    ...(keychain === null ? {} : { keychain: scopesOf(keychain) }),
  };
}

function scopesOf(given: JsonMap): NonNullable<RenderContext['keychain']> {
  return Object.fromEntries(
    Object.entries(given).map(([name, scope]) => [name, typeof scope === 'string' ? readScope(scope) : null]),
  );
}

function stepOf(given: JsonMap): StepSnapshot {
  const status = given['status'];
  const tasks = mapAt(given, 'tasks');
  const failedTask = given['failed_task'];
  return {
    status: status === 'failed' || status === 'skipped' ? status : 'completed',
    value: given['value'] ?? null,
    ref: typeof given['ref'] === 'string' ? given['ref'] : null,
    // Written by the server as the failure it recorded; templates only read it.
    error: (mapAt(given, 'error') ?? null) as StepSnapshot['error'],
    activation: typeof given['activation'] === 'number' ? given['activation'] : 1,
    ...(tasks === null ? {} : { tasks }),
    ...(typeof failedTask === 'string' ? { failed_task: failedTask } : {}),
  };
}

function iterationOf(given: JsonMap): Iteration {
  const number = (key: string): number => (typeof given[key] === 'number' ? given[key] : 0);
  if (given['kind'] === 'claim') return { kind: 'claim', frame: number('frame'), max_rows: number('max_rows') };
  return {
    kind: 'item',
    iterator: typeof given['iterator'] === 'string' ? given['iterator'] : 'item',
    item: given['item'] ?? null,
    ...(typeof given['ref'] === 'string' ? { ref: given['ref'] } : {}),
    index: number('index'),
    total: typeof given['total'] === 'number' ? given['total'] : null,
  };
}

function mapAt(from: JsonMap, key: string): JsonMap | null {
  const value = from[key];
  return isMap(value) ? value : null;
}
