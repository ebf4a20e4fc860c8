/**
 * Loops over a collection: entry, the next iterations, the aggregate (language 9). The chart holds a cursor and counts;
 * items and results are materials, so ten thousand iterations cost the same each.
 */
import type { Failure } from '../events.ts';
import { isMap, type Json } from '../json.ts';
import { known, present } from '../known.ts';
import type { Loop } from '../playbook/document.ts';
import { evaluateNative } from '../playbook/template/render.ts';
import type { Limits } from '../playbook/template/run.ts';
import { storable } from '../playbook/template/storable.ts';
import { renderTree } from '../playbook/template/tree.ts';
import { NeedPayload } from '../playbook/values.ts';
import { continueCursor, enterCursor } from './cursor.ts';
import { type Decision, isHalted, transformFailure } from './decision.ts';
import { countCascade, issueCommand } from './issue.ts';
import { closeLoop, type IterationError, type LoopAggregate } from './loop-end.ts';
import type { LoopMaterial } from './materials.ts';
import type { StepPlan } from './plan.ts';
import type { LoopRun, Settled } from './run.ts';
import { ServerScope } from './scope.ts';
import type { Situation } from './stage.ts';

const PARALLEL_DEFAULT = 100;
const NO_ITEMS: LoopMaterial = { items: [], ref: null, results: [] };

export function enterLoop(decision: Decision, plan: StepPlan, activation: number, situation: Situation | null): void {
  const { stage } = decision;
  const { step } = plan;
  const spec = present(step.loop);
  if (spec.mode === 'cursor') {
    enterCursor(decision, plan, activation, situation);
    return;
  }
  const opening = openLoop(decision, plan, spec, situation);
  const common = { activation, iterator: spec.iterator, mode: spec.mode };

  if (opening.failure !== null) {
    stage.record({
      type: 'step.enter',
      status: 'started',
      nodeName: step.name,
      nodeType: 'loop',
      context: { ...common, iterations_expected: 0 },
    });
    if (countCascade(decision, step.name)) finish(decision, plan, activation, NO_ITEMS, opening.failure);
    return;
  }
  const { items, limit } = opening;
  const stored = items.length === 0 ? null : stage.store(items, step.name, stage.limits.inlineMaxBytes);
  stage.record({
    type: 'step.enter',
    status: 'started',
    nodeName: step.name,
    nodeType: 'loop',
    context: {
      ...common,
      iterations_expected: items.length,
      max_in_flight: limit,
      ...(stored === null ? { collection: items } : { collection_ref: stored.reference.ref }),
    },
  });
  if (items.length > 0) {
    issueIterations(decision, plan, activation);
  } else if (countCascade(decision, step.name)) {
    finish(decision, plan, activation, NO_ITEMS, null);
  }
}

/** An iteration's command was settled: issue what may follow, end the loop when nothing is left. */
export function continueLoop(decision: Decision, plan: StepPlan, settled: Settled): void {
  const { stage } = decision;
  const { name } = plan.step;
  const loop = present(stage.run.steps[name]?.loop);
  if (isHalted(decision)) return;
  if (loop.cursor !== null) {
    continueCursor(decision, plan, settled, loop, loop.cursor);
    return;
  }
  const isStopping = plan.step.failureMode === 'fail_fast' && loop.failed > 0;
  if (!isStopping) issueIterations(decision, plan, settled.activation);
  if (loop.open === 0) finish(decision, plan, settled.activation, known(stage.materials.loops.get(name)), null);
}

function issueIterations(decision: Decision, plan: StepPlan, activation: number): void {
  const { stage } = decision;
  const loop = present(stage.run.steps[plan.step.name]?.loop);
  const { iterator } = present(plan.step.loop);
  // `command.issued` moves the cursor and counts the open ones as it is folded.
  while (loop.open < loop.limit && loop.next < loop.total) {
    const index = loop.next;
    issueCommand(decision, plan, activation, {
      kind: 'item',
      iterator,
      item: known(itemsOf(decision, plan)[index]),
      index,
      total: loop.total,
    });
  }
}

function itemsOf(decision: Decision, plan: StepPlan): readonly Json[] {
  const material = known(decision.stage.materials.loops.get(plan.step.name));
  if (material.items !== null) return material.items;
  const ref = present(material.ref);
  const payload = decision.stage.payload(ref);
  if (!Array.isArray(payload)) throw new NeedPayload(ref);
  return payload;
}

type Opening =
  | { readonly items: readonly Json[]; readonly limit: number; readonly failure: null }
  | { readonly failure: Failure };

function openLoop(decision: Decision, plan: StepPlan, spec: Loop, situation: Situation | null): Opening {
  const { stage } = decision;
  const { step } = plan;
  const scope = new ServerScope(stage, situation);
  let value: unknown;
  let items: readonly Json[] | null;
  let limit: unknown = PARALLEL_DEFAULT;
  try {
    value = collectionIn(plan, scope, stage.limits.template);
    items = storable(collectionOf(value), spec.in);
    if (plan.maxInFlight !== null) limit = renderTree(plan.maxInFlight, scope, stage.limits.template);
  } catch (error) {
    return { failure: transformFailure(error, `loop of step '${step.name}'`) };
  }
  if (items === null) {
    const expression = typeof spec.in === 'string' ? spec.in : JSON.stringify(spec.in);
    return {
      failure: {
        kind: 'config',
        code: 'LOOP_NOT_ITERABLE',
        message: `loop step '${step.name}': '${expression}' is not iterable (got ${nameOf(value)})`,
      },
    };
  }
  if (items.length > stage.limits.loopMaxItems) {
    const message = `loop step '${step.name}': ${items.length} items are more than the limit of ${stage.limits.loopMaxItems}`;
    return { failure: { kind: 'logic', code: 'LOOP_MAX_ITEMS', message } };
  }
  if (spec.mode !== 'parallel') return { items, limit: 1, failure: null };
  const wanted = typeof limit === 'string' && limit.trim() !== '' ? Number(limit) : limit;
  if (typeof wanted !== 'number' || !Number.isInteger(wanted) || wanted < 1) {
    const message = `loop step '${step.name}': max_in_flight must be an integer of at least 1`;
    return { failure: { kind: 'config', code: 'LOOP_MAX_IN_FLIGHT', message } };
  }
  return { items, limit: Math.min(wanted, stage.limits.loopMaxInFlight), failure: null };
}

function collectionIn(plan: StepPlan, scope: ServerScope, limits: Limits): unknown {
  const loopIn = present(plan.loopIn);
  return 'text' in loopIn ? evaluateNative(loopIn.text, scope, limits) : renderTree(loopIn.tree, scope, limits);
}

/** Language 9.1; null when the value is not a collection. */
export function collectionOf(value: unknown): readonly Json[] | null {
  if (Array.isArray(value)) return value as readonly Json[];
  if (typeof value === 'number' && Number.isInteger(value)) {
    return Array.from({ length: Math.max(0, Math.min(value, 1_000_001)) }, (_, index) => index);
  }
  if (typeof value === 'string') return arrayIn(value) ?? [value];
  if (isMap(value)) return Object.entries(value).map(([key, each]) => ({ key, value: each }));
  return null;
}

function arrayIn(text: string): readonly Json[] | null {
  if (!text.trimStart().startsWith('[')) return null;
  try {
    // JSON that begins with a bracket is a list.
    return JSON.parse(text) as readonly Json[];
  } catch {
    return null;
  }
}

function nameOf(value: unknown): string {
  return value === undefined ? 'undefined' : JSON.stringify(value);
}

function finish(
  decision: Decision,
  plan: StepPlan,
  activation: number,
  material: LoopMaterial,
  failure: Failure | null,
): void {
  const loop = present(decision.stage.run.steps[plan.step.name]?.loop);
  const ok = failure === null && (loop.failed === 0 || plan.step.failureMode === 'best_effort');
  const aggregate = aggregateOf(decision, material, loop, ok);
  const { results: _results, data: _data, ...inline } = aggregate;
  closeLoop(decision, plan, { activation, aggregate, inline, ok, failure, total: loop.total });
}

/** Language 9.5. Results that are stored apart are part of the aggregate in full, so all of them are asked for at once. */
function aggregateOf(decision: Decision, material: LoopMaterial, loop: LoopRun, ok: boolean): LoopAggregate {
  const { total } = loop;
  const results: Json[] = [];
  const errors: IterationError[] = [];
  const missing: string[] = [];
  for (let index = 0; index < total; index += 1) {
    const body = material.results[index];
    if (body === undefined || body.error !== null) {
      results.push(null);
      if (body?.error)
        errors.push({ index, kind: body.error.kind, code: body.error.code, message: body.error.message });
    } else if (body.reference === null) {
      results.push(body.data ?? null);
    } else {
      const payload = decision.stage.payload(body.reference.ref);
      if (payload === undefined) missing.push(body.reference.ref);
      results.push(payload ?? null);
    }
  }
  if (missing.length > 0) throw new NeedPayloads(missing);
  return {
    results,
    data: results,
    errors,
    stats: { total, success: loop.succeeded, failed: loop.failed },
    count: total,
    status: ok ? 'completed' : 'failed',
  };
}

/** Many payloads at once. */
export class NeedPayloads extends NeedPayload {
  readonly refs: readonly string[];
  constructor(refs: readonly string[]) {
    super(known(refs[0]));
    this.refs = refs;
  }
}
