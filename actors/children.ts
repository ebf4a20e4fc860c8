/**
 * Parents that wait for a child (language 11.7, 14.4). The link is the parked command's row, so it survives a restart: the end
 * of a child is delivered right after its commit, when the parent parks too late, and again by recovery.
 */
import { instantOf } from '../machines/command/instant.ts';
import { type EventDraft, type Failure, nodeIdOf } from '../machines/events.ts';
import { childData, childFailure, childTimeout, stepTimeout } from '../machines/execution/child-data.ts';
import { errorMap } from '../machines/execution/outcome.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import { present } from '../machines/known.ts';
import type { ExecutionActor } from './execution-actor.ts';
import type { Flusher } from './flush.ts';
import { endsStep, metaOf } from './grant.ts';
import type { CommandRow, ExecutionRow, Log, Store } from './ports.ts';
import { parkTimeoutSeconds, stepTimeoutSeconds } from './report.ts';
import type { Supervisor } from './supervisor.ts';

export interface ChildrenParts {
  readonly store: Store;
  readonly flusher: Flusher;
  readonly supervisor: Supervisor;
  readonly log: Log;
}

interface Waiting {
  readonly executionId: number;
  readonly commandId: number;
  readonly childExecutionId: number;
}

export class Children {
  readonly #parts: ChildrenParts;

  constructor(parts: ChildrenParts) {
    this.#parts = parts;
  }

  onEnded(child: ExecutionRow): void {
    if (child.parentExecutionId === null || child.parentCommandId === null) return;
    this.#soon({
      executionId: child.parentExecutionId,
      commandId: child.parentCommandId,
      childExecutionId: child.executionId,
    });
  }

  /** The child may have ended before the parent was parked on it. */
  onParked(executionId: number, commandId: number, childExecutionId: number): void {
    this.#soon({ executionId, commandId, childExecutionId });
  }

  /** Parked commands whose child has ended. Returns how many were settled. */
  async recover(): Promise<number> {
    const { store } = this.#parts;
    let settled = 0;
    for (const waiting of await store.parked()) settled += (await this.deliver(waiting)) ? 1 : 0;
    return settled;
  }

  /** True when the parent's command was settled by this call. */
  async deliver(waiting: Waiting, isOverdue = false): Promise<boolean> {
    const { store, flusher } = this.#parts;
    const child = await store.execution(waiting.childExecutionId);
    if (child === null || (child.status === 'running' && !isOverdue)) return false;
    const command = await store.command(waiting.commandId);
    if (command === null || command.parkedOn !== waiting.childExecutionId) return false;
    // Another process may have parked it: a parent that has not heard of it would refuse the delivery for ever.
    this.#parts.supervisor.refresh(waiting.executionId, command.latestEventId);
    const parent = await this.#parts.supervisor.actor(waiting.executionId);
    const returnStep = parent === null ? null : returnStepOf(parent, command);
    const returned = child.status === 'completed' ? await this.#returned(child, returnStep) : null;
    return flusher.submit({
      executionId: waiting.executionId,
      apply: (actor) => {
        const row = actor.commands.get(waiting.commandId);
        if (row === undefined || row.parkedOn !== waiting.childExecutionId) return false;
        settle(actor, row, child, returned);
        return true;
      },
    });
  }

  #soon(waiting: Waiting): void {
    // A delivery that fails is repeated by recovery; the link is in the row.
    this.deliver(waiting).catch((error: unknown) => {
      this.#parts.log.warn('the end of a child could not be delivered', {
        execution_id: waiting.executionId,
        command_id: waiting.commandId,
        error: error instanceof Error ? error.message : String(error),
      });
    });
  }

  /** The value of `return_step` if that step completed in the child, else the child's result; payloads in full. */
  async #returned(child: ExecutionRow, returnStep: string | null): Promise<Json> {
    const { supervisor } = this.#parts;
    const actor = await supervisor.actorOf(child);
    if (actor !== null && returnStep !== null) {
      const step = runOf(actor.state).steps[returnStep];
      const body = step?.status === 'completed' ? actor.state.materials.body(step.value) : undefined;
      if (body !== undefined) return this.#full(body.data ?? null, body.reference?.ref ?? null);
    }
    if (child.resultRef !== null || !isContainer(child.result)) return this.#full(child.result, child.resultRef);
    // The row has the value, but not the order of its keys.
    const ending = await this.#parts.store.ending(child.executionId);
    return ending?.context['result'] ?? child.result;
  }

  async #full(value: Json, ref: string | null): Promise<Json> {
    if (ref === null) return value;
    return (await this.#parts.store.payload(ref)) ?? value;
  }
}

function isContainer(value: Json): boolean {
  return typeof value === 'object' && value !== null;
}

function returnStepOf(actor: ExecutionActor, row: CommandRow): string | null {
  const fields = actor.plan.steps.get(row.stepName)?.step.tasks[0]?.fields ?? {};
  const step = fields['return_step'];
  return typeof step === 'string' ? step : null;
}

function settle(actor: ExecutionActor, row: CommandRow, child: ExecutionRow, returned: Json): void {
  const ended =
    child.status === 'running'
      ? null
      : { executionId: child.executionId, path: child.path, status: child.status, returned, error: child.error };
  const failure = ended === null ? waitIsOver(actor, row, child) : childFailure(ended);
  const duration = Math.max(0, instantOf(actor.at) - instantOf(row.startedAt ?? actor.at));
  const node = {
    nodeName: row.stepName,
    nodeId: nodeIdOf(row.stepName, row.iterationIndex),
    parentEventId: row.eventId,
    commandId: row.commandId,
    attempt: row.attempt,
    duration,
    meta: { ...metaOf(row), child_execution_id: child.executionId },
  };
  // The one task of the step, as a worker would tell of it.
  const task = actor.plan.steps.get(row.stepName)?.step.tasks[0]?.name ?? row.stepName;
  const tried: JsonMap = { status: failure === null ? 'ok' : 'error', attempts: 1, duration_ms: duration };
  const failedTask: JsonMap = failure === null ? {} : { failed_task: task };
  const call: EventDraft = {
    ...node,
    type: failure === null ? 'call.done' : 'call.error',
    status: failure === null ? 'completed' : 'failed',
    nodeType: row.toolKind,
    closes: true,
    error: failure?.message ?? null,
    context: { command_id: row.commandId, attempt: row.attempt },
    result:
      failure === null
        ? resultOf(actor, row, childData(present(ended)))
        : { status: 'failed', context: { error: errorMap(failure), ...failedTask } },
    meta: { ...node.meta, tasks: { [task]: tried }, ...failedTask },
  };
  const event = actor.append(call);
  if (endsStep(row)) {
    const { status } = call;
    actor.append({
      ...node,
      type: 'step.exit',
      status,
      nodeType: 'step',
      context: { status, activation: row.activation },
    });
  }
  actor.take(event);
  actor.change(actor.closed(row, failure === null ? 'COMPLETED' : 'FAILED', event, failure?.message ?? null));
}

/** The child took longer than the task waits, or than the step may take; it goes on either way. */
function waitIsOver(actor: ExecutionActor, row: CommandRow, child: ExecutionRow): Failure {
  const [task, step] = [parkTimeoutSeconds(actor, row), stepTimeoutSeconds(actor, row)];
  return task <= step ? childTimeout(child, task) : stepTimeout(row.stepName, step, row.toolKind);
}

function resultOf(actor: ExecutionActor, row: CommandRow, data: JsonMap): NonNullable<EventDraft['result']> {
  const stored = actor.store(data, row.stepName, row.commandId, actor.engine.limits.inlineMaxBytes);
  return stored === null
    ? { status: 'completed', context: { data } }
    : { status: 'completed', context: stored.summary, reference: stored.reference };
}
