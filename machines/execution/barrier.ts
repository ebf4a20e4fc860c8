/**
 * The fan-in barrier: a join runs once per round, when nothing under way can still reach it (language 5.5). Re-evaluated
 * after every decision, also when a branch ended without reaching the join.
 */
import type { Json, JsonMap } from '../json.ts';
import { known, present } from '../known.ts';
import { type Decision, isHalted } from './decision.ts';
import { followRoutes } from './routing.ts';
import type { Arrival } from './run.ts';
import { isOpen } from './run.ts';
import type { Situation, Stage } from './stage.ts';

export function releaseJoins(decision: Decision): void {
  const { stage, arrivals } = decision;
  const { graph } = stage.plan;
  for (;;) {
    if (isHalted(decision)) return;
    const joins = [...new Set([...stage.run.joins, ...arrivals.keys()])].sort(
      (a, b) => known(graph.order.get(a)) - known(graph.order.get(b)),
    );
    const first = joins[0];
    if (first === undefined) return;
    const ready = joins.find((join) => !isOpen(stage.run, join) && !isLive(decision, join, joins));
    // Joins that only wait for each other would wait for ever: the first in the workflow goes ahead.
    const next = ready ?? (stage.run.active.length === 0 ? first : undefined);
    if (next === undefined) return;
    const situation = arrivals.get(next) ?? situationOf(stage, known(stage.run.arrivals[next]));
    arrivals.delete(next);
    // `step.enter` or `step.skipped` takes it out of the waiting ones; otherwise the decision is halted.
    decision.dispatch(next, situation);
    followRoutes(decision);
  }
}

/** Something under way, or another join, can still reach the barrier of this one. */
function isLive(decision: Decision, join: string, joins: readonly string[]): boolean {
  const { run, plan } = decision.stage;
  const up = plan.graph.up(join);
  const canReach = (step: string): boolean => step !== join && (up.has(step) || plan.graph.reaches(step, up, join));
  return run.active.some(canReach) || joins.some(canReach);
}

/** Joins that wait on: the log says so, because which arcs were taken is otherwise not in it. */
export function recordArrivals(decision: Decision, step: string): void {
  const { stage } = decision;
  if (isHalted(decision)) return;
  const arrived: { [join: string]: Json } = {};
  for (const [join, situation] of decision.arrivals) {
    const plan = stage.plan.steps.get(join)?.step;
    // The newest arrival matters only to a join that looks at it.
    const looks = plan !== undefined && (plan.admit !== null || plan.loop !== null);
    if (looks || !stage.run.joins.includes(join)) arrived[join] = { ...arrivalOf(stage, situation) } as JsonMap;
  }
  if (Object.keys(arrived).length === 0) return;
  stage.record({
    type: 'ctx.updated',
    status: 'completed',
    nodeName: step,
    nodeType: 'step',
    context: { step, source: 'arc', values: {} },
    meta: { arrived },
  });
}

function arrivalOf(stage: Stage, situation: Situation): Arrival {
  const { name } = situation.step.step;
  return {
    from: name,
    outcome: situation.outcome,
    activation: situation.activation,
    value: situation.body === null ? null : known(stage.run.steps[name]).value,
    failure: situation.failure,
    at: situation.at,
  };
}

/** The end that led to a join, put together again from where its values lie. */
function situationOf(stage: Stage, arrival: Arrival): Situation {
  const step = known(stage.plan.steps.get(arrival.from));
  const body = stage.materials.body(arrival.value) ?? null;
  const isLoop = step.step.loop !== null && arrival.outcome !== 'skipped';
  return {
    step,
    outcome: arrival.outcome,
    isLoop,
    activation: arrival.activation,
    body,
    failure: arrival.failure,
    // The value of a loop is a map with its count, also where it is stored apart.
    total: isLoop ? (present(body?.data) as { readonly count: number }).count : null,
    at: arrival.at,
  };
}
