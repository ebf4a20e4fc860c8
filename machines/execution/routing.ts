/**
 * What follows the end of an activation: the step's `set`, its guards in document order, the arcs taken, and the rows for
 * targets that will not be reached (language 5.1 to 5.7).
 */
import { holds } from '../playbook/template/render.ts';
import {
  type Decision,
  failExecution,
  failuresOf,
  isHalted,
  recordSet,
  recordStepFailure,
  transformFailure,
} from './decision.ts';
import type { ArcPlan } from './plan.ts';
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
      recordStepFailure(decision, step.name, failure);
      route(decision, { ...situation, outcome: 'failed', failure });
      return;
    }
  }
  route(decision, situation);
}

function route(decision: Decision, situation: Situation): void {
  const scope = new ServerScope(decision.stage, situation);
  const taken = chooseArcs(decision, situation, scope);
  if (taken === null) return;
  if (situation.outcome === 'failed' && taken.length === 0) decision.failures.push(...failuresOf(situation));
  else decision.routes.push({ situation, scope, taken, next: 0, reached: new Set() });
}

/**
 * Follows the arcs that were taken. A target that ends at once (denied, or a loop without items) puts its own arcs on top, so
 * that they come first; a chain of a thousand such steps must not use the stack of the process.
 */
export function followRoutes(decision: Decision): void {
  const { routes, stage } = decision;
  for (let route = routes.at(-1); route !== undefined; route = routes.at(-1)) {
    if (isHalted(decision)) {
      routes.length = 0;
      return;
    }
    const { situation, scope, reached } = route;
    const { name } = situation.step.step;
    const arc = route.taken[route.next];
    route.next += 1;
    if (arc === undefined) {
      routes.pop();
      for (const target of stage.plan.graph.targets(name)) if (!reached.has(target)) decision.notTaken.add(target);
      continue;
    }
    const target = arc.arc.to;
    try {
      recordSet(decision, name, 'arc', arc.set, scope);
    } catch (error) {
      failExecution(decision, name, transformFailure(error, `set of the arc from '${name}' to '${target}'`));
      continue;
    }
    // Two arcs of one step to the same target are one edge.
    if (reached.has(target)) continue;
    reached.add(target);
    arrive(decision, situation, target);
  }
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
  else decision.arrivals.set(target, situation);
}

/**
 * One `step.skipped` for each direct target that was not taken and that nothing under way can still reach. Told when the
 * whole decision is made: a step that was passed over by one arc may be entered by another.
 */
export function recordSkips(decision: Decision): void {
  const { stage, arrivals, notTaken } = decision;
  const { run, plan } = stage;
  if (notTaken.size === 0 || isHalted(decision)) return;
  const waiting = new Set([...run.active, ...run.joins, ...arrivals.keys()]);
  for (const target of notTaken) {
    if (run.steps[target] !== undefined || waiting.has(target)) continue;
    if ([...waiting].some((step) => plan.graph.after(step).has(target))) continue;
    stage.record({
      type: 'step.skipped',
      status: 'skipped',
      nodeName: target,
      nodeType: 'step',
      context: { reason: 'not_taken' },
    });
  }
}
