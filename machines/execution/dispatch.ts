/** Opening activations: admission, the activation limit and `step.enter` (language 5.3, 5.4). */

import { known } from '../known.ts';
import { holds } from '../playbook/template/render.ts';
import { type Decision, failExecution, isHalted, transformFailure } from './decision.ts';
import { countCascade, issueCommand } from './issue.ts';
import { enterLoop } from './loop.ts';
import type { StepPlan } from './plan.ts';
import { isOpen } from './run.ts';
import { ServerScope } from './scope.ts';
import type { Situation } from './stage.ts';

/** `situation` is the end that led here; null for the entry step. */
export function dispatch(decision: Decision, name: string, situation: Situation | null): void {
  const { stage } = decision;
  const plan = stage.plan.steps.get(name);
  if (plan === undefined || isHalted(decision) || isOpen(stage.run, name)) return;
  decision.arrivals.delete(name);

  const activation = (stage.run.steps[name]?.activation ?? 0) + 1;
  if (activation > stage.limits.maxStepActivations) {
    failExecution(decision, name, {
      kind: 'logic',
      code: 'ACTIVATION_LIMIT',
      message: `step '${name}' was entered more than ${stage.limits.maxStepActivations} times`,
    });
    return;
  }
  const admitted = isAdmitted(decision, plan, situation);
  if (admitted === null) return;
  if (!admitted) {
    deny(decision, plan);
    return;
  }
  if (plan.step.loop !== null) {
    enterLoop(decision, plan, activation, situation);
    return;
  }
  stage.record({ type: 'step.enter', status: 'started', nodeName: name, nodeType: 'step', context: { activation } });
  issueCommand(decision, plan, activation, null);
}

/** Null when a rule raised: the execution is failing then. */
function isAdmitted(decision: Decision, plan: StepPlan, situation: Situation | null): boolean | null {
  if (plan.admit === null) return true;
  const scope = new ServerScope(decision.stage, situation);
  for (const rule of plan.admit) {
    try {
      if (rule.when === null || holds(rule.when, scope, decision.stage.limits.template)) return rule.allow;
    } catch (error) {
      failExecution(decision, plan.step.name, transformFailure(error, `admission of step '${plan.step.name}'`));
      return null;
    }
  }
  return true;
}

function deny(decision: Decision, plan: StepPlan): void {
  const { stage } = decision;
  const { name } = plan.step;
  if (!countCascade(decision, name)) return;
  const event = stage.record({
    type: 'step.skipped',
    status: 'skipped',
    nodeName: name,
    nodeType: 'step',
    context: { reason: 'admission' },
  });
  decision.end({
    step: plan,
    outcome: 'skipped',
    isLoop: false,
    activation: known(stage.run.steps[name]).activation,
    body: null,
    failure: null,
    total: null,
    at: event.at,
  });
}
