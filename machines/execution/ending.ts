/** How an execution ends: the pair `workflow.*`, `playbook.*`, and what happens to open commands (language 5.7, 5.8; api 4.1). */
import { instantOf } from '../command/instant.ts';
import { type LogEvent, nodeIdOf } from '../events.ts';
import type { Json, JsonMap } from '../json.ts';
import { known } from '../known.ts';
import type { Decision } from './decision.ts';
import { failurePayload, failureSentence } from './outcome.ts';
import { toolKindOf } from './plan.ts';
import type { OpenCommand, Run, StepFailure } from './run.ts';
import type { Stage } from './stage.ts';

/** After every decision: fail what has to fail, end what has ended. */
export function concludeDecision(decision: Decision, cause: LogEvent): void {
  const { stage, failures } = decision;
  const { run } = stage;
  if (failures.length > 0) stopDispatching(stage, failures);
  const failed = run.failing || failures.length > 0;
  if (failed) {
    if (workUnderWay(run) === 0) endFailed(stage, [...run.failures, ...failures], cause);
    else if (failures.length > 0) recordFailing(stage, failures);
    return;
  }
  if (run.active.length === 0 && run.joins.length === 0 && decision.arrivals.size === 0 && run.openCount === 0) {
    endCompleted(stage, cause);
  }
}

/**
 * `command.cancelled` for what an end from outside leaves open. Parked commands already have their `command.completed`, and
 * whether the children they wait for are to end too is for the one who ended the run to say (language 5.9).
 */
export function closeOpenCommands(stage: Stage, reason: string): void {
  for (const [id, command] of Object.entries(stage.run.open)) {
    if (command.parkedOn === null) cancelCommand(stage, Number(id), command, reason);
  }
}

function stopDispatching(stage: Stage, failures: readonly StepFailure[]): void {
  const { run } = stage;
  const reason = failureSentence(failures);
  for (const [id, command] of Object.entries(run.open)) {
    if (command.parkedOn !== null) stage.cancelChild(command.parkedOn);
    else if (stage.isPending(Number(id))) cancelCommand(stage, Number(id), command, reason);
  }
}

function cancelCommand(stage: Stage, commandId: number, command: OpenCommand, reason: string): void {
  const { step, activation, iteration, issued, isClaim } = command;
  const attempt = stage.attemptOf(commandId);
  stage.record({
    type: 'command.cancelled',
    status: 'cancelled',
    nodeName: step,
    nodeId: nodeIdOf(step, iteration),
    nodeType: toolKindOf(known(stage.plan.steps.get(step)), isClaim),
    parentEventId: issued,
    commandId,
    attempt,
    context: { command_id: commandId, reason },
    meta: {
      command_id: commandId,
      attempt,
      step,
      activation,
      ...(iteration === null ? {} : { iteration_index: iteration }),
    },
  });
}

/** Open commands that somebody works on; parked ones are given up with the failure. */
function workUnderWay(run: Run): number {
  let count = 0;
  for (const id in run.open) if (run.open[id]?.parkedOn === null) count += 1;
  return count;
}

function recordFailing(stage: Stage, failures: readonly StepFailure[]): void {
  const { step } = known(failures[0]);
  stage.record({
    type: 'ctx.updated',
    status: 'completed',
    nodeName: step,
    nodeType: 'step',
    context: { step, source: 'step', values: {} },
    meta: { failures: failures.map((failure) => ({ ...failure })) },
  });
}

function endFailed(stage: Stage, failures: readonly StepFailure[], cause: LogEvent): void {
  const sentence = failureSentence(failures);
  recordEnd(stage, 'failed', cause, {
    status: 'failed',
    final_step: null,
    result: null,
    error: sentence,
    error_detail: failurePayload(failures),
  });
}

function endCompleted(stage: Stage, cause: LogEvent): void {
  const { plan, run, materials } = stage;
  const declared = plan.playbook.finalStep;
  const final = declared !== null && run.steps[declared]?.status === 'completed' ? declared : run.lastCompleted;
  const body = final === null ? undefined : materials.body(known(run.steps[final]).value);
  const result: Json = body?.data ?? null;
  recordEnd(stage, 'completed', cause, {
    status: 'completed',
    final_step: final,
    result,
    error: null,
    ...(body?.reference ? { result_ref: body.reference.ref } : {}),
  });
}

function recordEnd(stage: Stage, status: 'completed' | 'failed', cause: LogEvent, context: JsonMap): void {
  const duration = Math.max(0, instantOf(cause.at) - instantOf(stage.run.startedAt));
  const error = typeof context['error'] === 'string' ? context['error'] : null;
  const end = { status, error, duration, context };
  stage.record({ ...end, type: `workflow.${status}`, nodeName: 'workflow', nodeType: 'workflow' });
  stage.record({ ...end, type: `playbook.${status}`, nodeName: stage.identity.path, nodeType: 'playbook' });
}
