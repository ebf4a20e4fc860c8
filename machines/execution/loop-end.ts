/** How a loop ends, whatever it went over: `loop.done` with the aggregate, `step.exit`, the check for loops that stall. */
import type { Failure } from '../events.ts';
import type { JsonMap } from '../json.ts';
import { known } from '../known.ts';
import { type Decision, failExecution } from './decision.ts';
import { bodyOf } from './materials.ts';
import type { StepPlan } from './plan.ts';

const STALLED_AFTER = 5;

/** Types, not interfaces: they are members of JSON. */
export type IterationError = {
  readonly index: number;
  readonly kind: string;
  readonly code: string | null;
  readonly message: string;
};

export type LoopAggregate = JsonMap & { readonly stats: JsonMap; readonly errors: readonly IterationError[] };

export interface LoopEnd {
  readonly activation: number;
  readonly aggregate: LoopAggregate;
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
  // An iteration that failed has said why: a silent one is given a reason when its outcome is kept.
  const error = failure ?? (ok ? null : firstOf(aggregate.errors));
  const event = stage.record({
    type: 'loop.done',
    status,
    nodeName: step.name,
    nodeType: 'loop',
    error: error?.message ?? null,
    context: {
      iterations: end.total,
      stats: aggregate.stats,
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
  if (known(stage.run.steps[step.name]).stalls >= STALLED_AFTER) {
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

function firstOf(errors: readonly IterationError[]): Failure {
  const { kind, code, message } = known(errors[0]);
  return { kind, code, message };
}
