/** Takes the snapshot a command carries: of inputs, variables and steps only what its tasks can reference (language 8.3). */
import type { Json, JsonMap } from '../json.ts';
import { known } from '../known.ts';
import { NOTHING } from './materials.ts';
import type { StepPlan } from './plan.ts';
import type { Iteration, RenderContext, StepSnapshot } from './render-context.ts';
import { written } from './scope.ts';
import type { Stage } from './stage.ts';

export function renderContextOf(stage: Stage, step: StepPlan, iteration: Iteration | null): RenderContext {
  const { identity, materials, run, plan } = stage;
  const { references } = step;
  const roots = references.everything ? null : new Set(references.roots);
  const wants = (name: string): boolean => roots === null || roots.has(name);
  const wantsVariables = wants('ctx');

  const ctx: { [name: string]: Json } = {};
  const refs: { [name: string]: string } = {};
  for (const name in run.written) {
    if (!wantsVariables && !wants(name)) continue;
    const { value, ref } = known(written(stage, name));
    ctx[name] = value;
    if (ref !== null) refs[name] = ref;
  }

  const steps: { [name: string]: StepSnapshot } = {};
  if (roots === null || roots.has('steps')) for (const name in run.steps) addStep(stage, steps, name);
  else for (const name of roots) if (plan.steps.has(name)) addStep(stage, steps, name);

  const context: RenderContext = {
    execution_id: String(identity.executionId),
    catalog_id: String(identity.catalogId),
    path: identity.path,
    version: identity.version,
    workload:
      roots === null || wantsVariables || roots.has('workload') ? materials.workload : pick(materials.workload, roots),
    args: wants('args') ? materials.args : {},
    ctx,
    steps,
  };
  return {
    ...context,
    ...(Object.keys(refs).length > 0 ? { ctx_refs: refs } : {}),
    ...(step.keychain === null ? {} : { keychain: step.keychain }),
    ...(iteration === null ? {} : { iteration }),
  };
}

function addStep(stage: Stage, steps: { [name: string]: StepSnapshot }, name: string): void {
  const step = stage.run.steps[name];
  // A step that was passed over has a status, and no value.
  if (step === undefined || (step.value === null && step.status !== 'skipped')) return;
  const body = stage.materials.body(step.value) ?? NOTHING;
  const error = step.failure ?? body.error;
  const failed = error !== null;
  steps[name] = {
    status: step.status === 'open' ? (failed ? 'failed' : 'completed') : step.status,
    value: body.data ?? null,
    ref: body.reference?.ref ?? null,
    error,
    activation: step.activation,
    ...(body.tasks === null ? {} : { tasks: body.tasks }),
    ...(body.failedTask === null ? {} : { failed_task: body.failedTask }),
  };
}

function pick(inputs: JsonMap, roots: ReadonlySet<string>): JsonMap {
  const picked: { [name: string]: Json } = {};
  for (const name of roots) if (Object.hasOwn(inputs, name)) picked[name] = known(inputs[name]);
  return picked;
}
