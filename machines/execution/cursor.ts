/**
 * Cursor loops: a claim command asks a store for rows, body commands work on them, and the next frame is claimed when all
 * bodies have ended; no rows end the loop (language 9.6). Row values are not kept: the value of the step is counts.
 */
import type { Failure } from '../events.ts';
import { isMap, type Json } from '../json.ts';
import { known, present } from '../known.ts';
import { literalNumber } from '../playbook/literal.ts';
import { renderTree } from '../playbook/template/tree.ts';
import { NeedPayload } from '../playbook/values.ts';
import { type Decision, transformFailure } from './decision.ts';
import { issueCommand } from './issue.ts';
import { closeLoop, type IterationError, type LoopAggregate } from './loop-end.ts';
import type { Body } from './materials.ts';
import type { StepPlan } from './plan.ts';
import type { CursorRun, LoopRun, Settled } from './run.ts';
import { ServerScope } from './scope.ts';
import type { Situation } from './stage.ts';

/** Failures told one by one; the counts are complete. */
const ERRORS_MAX = 1_000;

export function enterCursor(decision: Decision, plan: StepPlan, activation: number, situation: Situation | null): void {
  const { stage } = decision;
  const { step } = plan;
  const limit = limitOf(decision, plan, situation);
  const isLimit = typeof limit === 'number';
  stage.record({
    type: 'step.enter',
    status: 'started',
    nodeName: step.name,
    nodeType: 'loop',
    context: {
      activation,
      iterator: present(step.loop).iterator,
      mode: 'cursor',
      iterations_expected: 0,
      max_in_flight: isLimit ? limit : 1,
    },
  });
  if (isLimit) issueClaim(decision, plan, activation, 0);
  else finish(decision, plan, activation, limit);
}

/** A claim or a body was settled. */
export function continueCursor(
  decision: Decision,
  plan: StepPlan,
  settled: Settled,
  loop: LoopRun,
  cursor: CursorRun,
): void {
  const { stage } = decision;
  if (settled.isClaim && !settled.ok) {
    finish(decision, plan, settled.activation, present(stage.materials.settledBody(settled)?.error));
    return;
  }
  const rows = rowsOf(decision, cursor);
  const isStopping = plan.step.failureMode === 'fail_fast' && loop.failed > 0;
  if (settled.isClaim && rows.length === 0) {
    finish(decision, plan, settled.activation, null);
    return;
  }
  if (!isStopping) issueBodies(decision, plan, settled.activation, loop, cursor, rows);
  if (loop.open > 0) return;
  if (isStopping) finish(decision, plan, settled.activation, null);
  else issueClaim(decision, plan, settled.activation, cursor.frame + 1);
}

function issueClaim(decision: Decision, plan: StepPlan, activation: number, frame: number): void {
  const iteration = { kind: 'claim', frame, max_rows: frameNumber(plan, 'max_rows') } as const;
  issueCommand(decision, plan, activation, iteration, { phase: 'claim', frame, row: 0 });
}

function issueBodies(
  decision: Decision,
  plan: StepPlan,
  activation: number,
  loop: LoopRun,
  cursor: CursorRun,
  rows: readonly Json[],
): void {
  const { iterator, frame } = present(plan.step.loop);
  const inFrames = frame['process'] === 'frame';
  const items: readonly Json[] = inFrames && rows.length > 0 ? [rows] : rows;
  // `command.issued` moves row and count as it is folded.
  while (loop.open < loop.limit && cursor.row < items.length) {
    const { row } = cursor;
    const iteration = { kind: 'item', iterator, item: known(items[row]), index: loop.next, total: null } as const;
    issueCommand(decision, plan, activation, iteration, { phase: 'body', frame: cursor.frame, row });
  }
}

function rowsOf(decision: Decision, cursor: CursorRun): readonly Json[] {
  const body = decision.stage.materials.body(cursor.rows);
  if (body === undefined) return [];
  const data = dataOf(decision, body);
  const rows = isMap(data) ? data['rows'] : data;
  return Array.isArray(rows) ? rows : [];
}

function dataOf(decision: Decision, body: Body): Json {
  if (body.reference === null) return body.data ?? null;
  const payload = decision.stage.payload(body.reference.ref);
  if (payload === undefined) throw new NeedPayload(body.reference.ref);
  return payload;
}

/** Bodies in flight: the larger of `max_in_flight` and `frame.row_concurrency`. */
function limitOf(decision: Decision, plan: StepPlan, situation: Situation | null): number | Failure {
  const { stage } = decision;
  const concurrency = frameNumber(plan, 'row_concurrency');
  if (plan.maxInFlight === null) return Math.min(concurrency, stage.limits.loopMaxInFlight);
  let wanted: Json;
  try {
    wanted = renderTree(plan.maxInFlight, new ServerScope(stage, situation), stage.limits.template);
  } catch (error) {
    return transformFailure(error, `loop of step '${plan.step.name}'`);
  }
  const number = literalNumber(wanted);
  if (number === null || !Number.isInteger(number) || number < 1) {
    const message = `loop step '${plan.step.name}': max_in_flight must be an integer of at least 1`;
    return { kind: 'config', code: 'LOOP_MAX_IN_FLIGHT', message };
  }
  return Math.min(Math.max(number, concurrency), stage.limits.loopMaxInFlight);
}

function frameNumber(plan: StepPlan, key: 'max_rows' | 'row_concurrency'): number {
  // Registration refuses anything that is not a number of at least 1.
  return present(literalNumber(present(plan.step.loop).frame[key] ?? 1));
}

function finish(decision: Decision, plan: StepPlan, activation: number, failure: Failure | null): void {
  const { stage } = decision;
  const loop = present(stage.run.steps[plan.step.name]?.loop);
  const ok = failure === null && (loop.failed === 0 || plan.step.failureMode === 'best_effort');
  const count = loop.next;
  const errors = errorsOf(known(stage.materials.loops.get(plan.step.name)).results);
  const aggregate: LoopAggregate = {
    cursor: 'drained',
    frames: framesOf(present(loop.cursor)),
    count,
    stats: { total: count, success: loop.succeeded, failed: loop.failed },
    errors,
    status: ok ? 'completed' : 'failed',
  };
  const { errors: _errors, ...inline } = aggregate;
  closeLoop(decision, plan, { activation, aggregate, inline, ok, failure, total: count });
}

function errorsOf(results: readonly (Body | undefined)[]): readonly IterationError[] {
  const errors: IterationError[] = [];
  for (const [index, body] of results.entries()) {
    if (body?.error) errors.push({ index, kind: body.error.kind, code: body.error.code, message: body.error.message });
  }
  return errors.slice(0, ERRORS_MAX);
}

/** Frames that had rows; the one that was claimed in vain does not count. */
function framesOf(cursor: CursorRun): number {
  return cursor.row > 0 ? cursor.frame + 1 : cursor.frame;
}
