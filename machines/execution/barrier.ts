/**
 * The fan-in barrier: a join runs once per round, when nothing under way can still reach it (language 5.5). Re-evaluated
 * after every decision, also when a branch ended without reaching the join.
 */
import { type Decision, isHalted } from './decision.ts';
import { isOpen } from './run.ts';
import type { Situation } from './stage.ts';

export function releaseJoins(decision: Decision, situation: Situation | null): void {
  const { stage, arrivals } = decision;
  const { graph } = stage.plan;
  for (;;) {
    if (isHalted(decision)) return;
    const joins = [...new Set([...stage.run.joins, ...arrivals])].sort(
      (a, b) => (graph.order.get(a) ?? 0) - (graph.order.get(b) ?? 0),
    );
    const first = joins[0];
    if (first === undefined) return;
    const ready = joins.find((join) => !isOpen(stage.run, join) && !isLive(decision, join, joins));
    // Joins that only wait for each other would wait for ever: the first in the workflow goes ahead.
    const next = ready ?? (stage.run.active.length === 0 ? first : undefined);
    if (next === undefined) return;
    decision.arrivals.delete(next);
    // `step.enter` or `step.skipped` takes it out of the waiting ones; otherwise the decision is halted.
    decision.dispatch(next, situation);
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
  const arrived = [...decision.arrivals].filter((join) => !stage.run.joins.includes(join));
  if (arrived.length === 0) return;
  stage.record({
    type: 'ctx.updated',
    status: 'completed',
    nodeName: step,
    nodeType: 'step',
    context: { step, source: 'arc', values: {} },
    meta: { arrived },
  });
}
