/**
 * What follows the end of an activation: the step's `set`, its guards in document order, the arcs taken, and the rows for
 * targets that will not be reached (language 5.1 to 5.7).
 */
import { holds } from '../playbook/template/render.ts';
import { type Decision, failExecution, failuresOf, isHalted, recordSet, transformFailure } from './decision.ts';
import type { ArcPlan } from './plan.ts';
import { isOpen } from './run.ts';
import { ServerScope } from './scope.ts';
import type { Situation } from './stage.ts';

export function endActivation(decision: Decision, situation: Situation): void {
  if (isHalted(decision)) return;
  if (situation.outcome === 'ok') {
    const { step } = situation.step;
    try {
      recordSet(decision, step.name, 'step', situation.step.set, new ServerScope(decision.stage, situation));
    } catch (error) {
      const failure = transformFailure(error, `set of step '${step.name}'`);
      route(decision, { ...situation, outcome: 'failed', failure });
      return;
    }
  }
  route(decision, situation);
}

function route(decision: Decision, situation: Situation): void {
  const { stage } = decision;
  const { name } = situation.step.step;
  const scope = new ServerScope(stage, situation);
  const taken = chooseArcs(decision, situation, scope);
  if (taken === null) return;

  if (situation.outcome === 'failed' && taken.length === 0) {
    decision.failures.push(...failuresOf(situation));
    return;
  }
  for (const { arc, set } of taken) {
    try {
      recordSet(decision, name, 'arc', set, scope);
    } catch (error) {
      failExecution(decision, name, transformFailure(error, `set of the arc from '${name}' to '${arc.to}'`));
      return;
    }
    arrive(decision, situation, arc.to);
    if (isHalted(decision)) return;
  }
  skipTargets(decision, situation, taken);
}

/** Null when a guard raised: the execution is failing then. */
function chooseArcs(decision: Decision, situation: Situation, scope: ServerScope): readonly ArcPlan[] | null {
  const { step, arcs } = situation.step;
  const taken: ArcPlan[] = [];
  for (const arc of arcs) {
    if (situation.outcome === 'failed' && !arc.handlesErrors) continue;
    if (arc.arc.when === false) continue;
    try {
      if (arc.when !== null && !holds(arc.when, scope, decision.stage.limits.template)) continue;
    } catch (error) {
      const where = `guard of the arc from '${step.name}' to '${arc.arc.to}'`;
      failExecution(decision, step.name, transformFailure(error, where));
      return null;
    }
    taken.push(arc);
    if (step.mode === 'exclusive') break;
  }
  return taken;
}

/** A plain edge or a back edge leads on at once; an arc into a join waits at its barrier (language 5.5). */
function arrive(decision: Decision, situation: Situation, target: string): void {
  const { graph, steps } = decision.stage.plan;
  if (!steps.has(target)) return;
  const up = graph.up(target);
  if (up.size <= 1 || !up.has(situation.step.step.name)) decision.dispatch(target, situation);
  else decision.arrivals.add(target);
}

/** One `step.skipped` for each direct target that was not taken and that nothing under way can still reach. */
function skipTargets(decision: Decision, situation: Situation, taken: readonly ArcPlan[]): void {
  const { stage, arrivals } = decision;
  const { graph } = stage.plan;
  const followed = new Set(taken.map(({ arc }) => arc.to));
  for (const target of graph.targets(situation.step.step.name)) {
    if (followed.has(target) || stage.run.steps[target] !== undefined) continue;
    const waiting = [...stage.run.active, ...stage.run.joins, ...arrivals];
    if (isOpen(stage.run, target) || waiting.some((step) => step === target || graph.after(step).has(target))) continue;
    stage.record({
      type: 'step.skipped',
      status: 'skipped',
      nodeName: target,
      nodeType: 'step',
      context: { reason: 'not_taken' },
    });
  }
}
