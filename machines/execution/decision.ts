/**
 * One decision in the making: what it has recorded so far, what it has put off until all arcs are handled, and whether it
 * has already found that the execution fails. The planner's parts call each other through it.
 */
import type { Failure } from '../events.ts';
import { isMap, type Json, type JsonMap } from '../json.ts';
import { known, present } from '../known.ts';
import { TemplateError } from '../playbook/template/errors.ts';
import { Facade, type Scope } from '../playbook/template/facade.ts';
import { storable } from '../playbook/template/storable.ts';
import { renderTree } from '../playbook/template/tree.ts';
import { MissingPayload } from '../playbook/values.ts';
import type { IterationError } from './loop-end.ts';
import { type ArcPlan, type AssignmentPlan, assignInto } from './plan.ts';
import type { StepFailure } from './run.ts';
import { writtenValue } from './scope.ts';
import type { Situation, Stage } from './stage.ts';

export interface Decision {
  readonly stage: Stage;
  /** Joins reached by this decision that have not been dispatched by it, and the end that led there last. */
  readonly arrivals: Map<string, Situation>;
  /** Arcs being followed, the innermost last. */
  readonly routes: Route[];
  /** Direct targets of ended steps whose arcs were not taken. */
  readonly notTaken: Set<string>;
  /** Failures found by this decision; any stops further dispatch. */
  readonly failures: StepFailure[];
  /** Denials and empty loops so far: steps that ended within this very decision. */
  cascade: number;
  dispatch(step: string, situation: Situation | null): void;
  /** Handles the end of an activation: its `set`, its arcs, its failure. */
  end(situation: Situation): void;
}

/** The arcs taken at the end of one activation, and how far they were followed. */
export interface Route {
  readonly situation: Situation;
  readonly scope: Scope;
  readonly taken: readonly ArcPlan[];
  next: number;
  readonly reached: Set<string>;
}

/** Nothing new is dispatched any more. */
export function isHalted(decision: Decision): boolean {
  return decision.stage.run.failing || decision.failures.length > 0;
}

/** The engine itself fails the execution at this step. */
export function failExecution(decision: Decision, step: string, failure: Omit<Failure, 'details'>): void {
  decision.failures.push({
    step,
    event: null,
    iteration: null,
    task: null,
    kind: failure.kind,
    code: failure.code,
    message: failure.message,
  });
}

/** What a template error means for whoever asked; anything else (a payload to fetch, a bug) goes on up. */
export function transformFailure(error: unknown, where: string): Failure {
  if (error instanceof MissingPayload) {
    const message = `${where}: ${error.message}`;
    return { kind: 'missing_reference', code: 'MISSING_REFERENCE', message, retryable: false };
  }
  if (!(error instanceof TemplateError)) throw error;
  return { kind: 'transform', code: error.code, message: `${where}: ${error.message}`, retryable: false };
}

/**
 * Renders all values of one `set` against the state before it and records what they make of the variables.
 * Throws TemplateError; then nothing was recorded.
 */
export function recordSet(
  decision: Decision,
  step: string,
  source: 'step' | 'arc',
  assignments: readonly AssignmentPlan[],
  scope: Scope,
): void {
  if (assignments.length === 0) return;
  const { stage } = decision;
  const rendered = assignments.map(({ assignment, value }) => ({
    path: assignment.path,
    value: storable(renderTree(value, scope, stage.limits.template), assignment.value),
  }));
  recordVariables(decision, step, source, rendered);
}

/** A step whose `set` failed has failed, although its command completed: the log says so for whoever reads it back. */
export function recordStepFailure(decision: Decision, step: string, failure: Failure): void {
  decision.stage.record({
    type: 'ctx.updated',
    status: 'completed',
    nodeName: step,
    nodeType: 'step',
    context: { step, source: 'step', values: {} },
    meta: { failed: { ...failure } as JsonMap },
  });
}

/** The `ctx` writes of a command, by variable path, become variables of the execution. */
export function recordWrites(decision: Decision, step: string, writes: JsonMap | null): void {
  if (writes === null) return;
  const assignments = Object.entries(writes)
    .map(([key, value]) => ({ path: key.split('.'), value }))
    .filter(({ path }) => !path.includes('__proto__') && path[0] !== '');
  if (assignments.length > 0) recordVariables(decision, step, 'command', assignments);
}

function recordVariables(
  decision: Decision,
  step: string,
  source: 'command' | 'step' | 'arc',
  assignments: readonly { readonly path: readonly string[]; readonly value: Json }[],
): void {
  const { stage } = decision;
  const values: { [name: string]: Json } = {};
  for (const { path, value } of assignments) {
    const [first, ...rest] = path;
    const name = known(first);
    const current =
      rest.length === 0 ? undefined : Object.hasOwn(values, name) ? values[name] : currentValue(stage, name);
    values[name] = assignInto(current, rest, value);
  }
  const references: { [name: string]: Json } = {};
  for (const [name, value] of Object.entries(values)) {
    const stored = stage.store(value, name, stage.limits.inlineMaxBytes);
    if (stored === null) continue;
    values[name] = stored.summary;
    references[name] = stored.reference.ref;
  }
  stage.record({
    type: 'ctx.updated',
    status: 'completed',
    nodeName: step,
    nodeType: 'step',
    context: { step, source, values, ...(Object.keys(references).length > 0 ? { references } : {}) },
  });
}

function currentValue(stage: Stage, name: string): Json | undefined {
  const written = writtenValue(stage, name);
  // A facade of a stored value is plain JSON once unwrapped.
  if (written instanceof Facade) return written.plain() as Json;
  if (written !== undefined) return written as Json;
  const { workload } = stage.materials;
  return Object.hasOwn(workload, name) ? workload[name] : undefined;
}

/** Failures of one failed step: the iterations of a loop one by one (at most a hundred), else the step's own. */
export function failuresOf(situation: Situation): readonly StepFailure[] {
  const step = situation.step.step.name;
  const data = situation.body?.data;
  if (situation.failure === null && situation.isLoop && isMap(data)) {
    const errors = data['errors'];
    if (Array.isArray(errors) && errors.length > 0) {
      // The value of a loop is made by the engine: its errors are those of its aggregate.
      const told = errors.slice(0, 100) as unknown as readonly IterationError[];
      return told.map(({ index, kind, code, message }) => {
        return { step, event: null, iteration: index, task: null, kind, code, message };
      });
    }
  }
  const { kind, code, message } = present(situation.failure ?? situation.body?.error);
  return [
    {
      step,
      event: null,
      iteration: null,
      task: situation.body?.failedTask ?? null,
      kind,
      code,
      message,
    },
  ];
}
