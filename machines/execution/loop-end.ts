/** How a loop ends, whatever it went over: `loop.done` with the aggregate, `step.exit`, the check for loops that stall. */
import type { Failure } from '../events.ts';
import { isMap, type JsonMap } from '../json.ts';
import { type Decision, failExecution } from './decision.ts';
import { bodyOf } from './materials.ts';
import type { StepPlan } from './plan.ts';

const STALLED_AFTER = 5;

export interface LoopEnd {
  readonly activation: number;
  readonly aggregate: JsonMap;
  /** What of the aggregate stays in the event when the whole is stored apart. */
  readonly inline: JsonMap;
  readonly ok: boolean;
  /** Set when the loop itself failed, not an iteration. */
  readonly failure: Failure | null;
  readonly total: number;
}

export function closeLoop(decision: Decision, plan: StepPlan, end: LoopEnd): void {
  const { stage } = decision;
  const { step } = plan;
  const { activation, aggregate, ok, failure } = end;
  const limit = step.tasks.at(-1)?.output?.inlineMaxBytes ?? stage.limits.inlineMaxBytes;
  const stored = stage.store(aggregate, step.name, limit);
  const status = ok ? 'completed' : 'failed';
  const error = failure ?? (ok ? null : firstError(aggregate));
  const event = stage.record({
    type: 'loop.done',
    status,
    nodeName: step.name,
    nodeType: 'loop',
    error: error?.message ?? null,
    context: {
      iterations: end.total,
      stats: aggregate['stats'] ?? null,
      activation,
      ...(error === null ? {} : { error: { ...error } as JsonMap }),
    },
    result:
      stored === null
        ? { status, context: { data: aggregate } }
        : { status, context: { ...stored.summary, ...end.inline }, reference: stored.reference },
  });
  stage.record({
    type: 'step.exit',
    status,
    nodeName: step.name,
    nodeType: 'loop',
    context: { status, activation },
  });
  if ((stage.run.steps[step.name]?.stalls ?? 0) >= STALLED_AFTER) {
    const message = `loop step '${step.name}' had ${STALLED_AFTER} activations in a row without a successful iteration`;
    stage.record({
      type: 'loop.stalled',
      status: 'failed',
      nodeName: step.name,
      nodeType: 'loop',
      context: { message },
    });
    failExecution(decision, step.name, { kind: 'logic', code: 'LOOP_STALLED', message });
    return;
  }
  decision.end({
    step: plan,
    outcome: ok ? 'ok' : 'failed',
    isLoop: true,
    activation,
    body: bodyOf(event),
    failure,
    total: end.total,
    at: event.at,
  });
}

function firstError(aggregate: JsonMap): Failure {
  const errors = aggregate['errors'];
  const first = Array.isArray(errors) ? errors[0] : undefined;
  if (!isMap(first)) return { kind: 'unknown', code: null, message: 'an iteration failed' };
  return {
    kind: String(first['kind']),
    code: first['code'] === null ? null : String(first['code']),
    message: String(first['message']),
  };
}
