/**
 * Which steps can run and which guards can be true, whatever the data: a walk over the arcs in which every outcome is
 * possible and only guards that can be decided without data close a way. What it rules out can never happen.
 */
import type { ArcPlan, Plan, StepPlan } from '../../machines/execution/plan.ts';
import { ServerScope } from '../../machines/execution/scope.ts';
import type { EngineLimits, Situation, Stage } from '../../machines/execution/stage.ts';
import { newExecution, runOf } from '../../machines/execution/take-turn.ts';
import { verdictOn } from './known-scope.ts';

export interface Reachability {
  readonly steps: ReadonlySet<string>;
  /** Arcs of reachable steps whose guard is asked for and false whenever it is, by step and place. */
  readonly neverTrue: readonly ArcPlace[];
  /** Arcs of reachable steps behind one that is always taken first. */
  readonly neverAsked: readonly ArcPlace[];
}

export interface ArcPlace {
  readonly step: string;
  readonly arc: ArcPlan;
}

export function reachabilityOf(plan: Plan, limits: EngineLimits): Reachability {
  const reached = new Set<string>();
  const asked = new Set<ArcPlan>();
  const possible = new Set<ArcPlan>();
  const stack = [plan.playbook.entryStep];
  for (let name = stack.pop(); name !== undefined; name = stack.pop()) {
    const step = plan.steps.get(name);
    if (step === undefined || reached.has(name)) continue;
    reached.add(name);
    for (const situation of situationsOf(step)) {
      const scope = new ServerScope(stageOf(plan, limits), situation);
      for (const arc of arcsAsked(step, situation)) {
        asked.add(arc);
        const verdict = arc.arc.when === false ? false : arc.when === null ? true : verdictOn(arc.when, scope, limits);
        if (verdict === false) continue;
        possible.add(arc);
        stack.push(arc.arc.to);
        if (verdict === true && step.step.mode === 'exclusive') break;
      }
    }
  }
  const places = [...reached].flatMap((step) => (plan.steps.get(step)?.arcs ?? []).map((arc) => ({ step, arc })));
  return {
    steps: reached,
    neverTrue: places.filter(({ arc }) => asked.has(arc) && !possible.has(arc)),
    neverAsked: places.filter(({ arc }) => !asked.has(arc)),
  };
}

function arcsAsked(step: StepPlan, { outcome }: Situation): readonly ArcPlan[] {
  return outcome === 'failed' ? step.arcs.filter((arc) => arc.handlesErrors) : step.arcs;
}

function situationsOf(step: StepPlan): readonly Situation[] {
  const base = { step, isLoop: step.step.loop !== null, activation: 1, body: null, total: null, at: EPOCH } as const;
  const failure = { kind: 'unknown', code: null, message: '' };
  return [
    { ...base, outcome: 'ok', failure: null },
    { ...base, outcome: 'failed', failure },
    ...(step.step.admit === null ? [] : [{ ...base, outcome: 'skipped', failure: null } as const]),
  ];
}

const EPOCH = '1970-01-01T00:00:00.000Z';

/** A stage on which nothing has happened; only scopes look at it. */
function stageOf(plan: Plan, limits: EngineLimits): Stage {
  const state = newExecution();
  const refuse = (): never => {
    throw new Error('nothing is recorded while guards are looked at');
  };
  return {
    plan,
    run: runOf(state),
    materials: state.materials,
    identity: { executionId: 1, catalogId: 1, path: plan.playbook.path, version: 1 },
    limits,
    copied: [],
    record: refuse,
    issue: refuse,
    newId: refuse,
    isPending: () => false,
    attemptOf: () => 0,
    cancelChild: refuse,
    payload: () => undefined,
    store: () => null,
  };
}
