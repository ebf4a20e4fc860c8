/**
 * The fold: what each event makes true (language 14.2). Nothing here decides anything, looks at a playbook or fails; an
 * event that does not fit the run is ignored, because the log may hold rows that another writer put there.
 */
import type { Failure, LogEvent } from '../events.ts';
import { isMap, type JsonMap } from '../json.ts';
import type { Arrival, LoopRun, OpenCommand, Run, StepFailure, StepRun } from './run.ts';

export function openRun(run: Run, event: LogEvent): void {
  run.startedAt = event.at;
}

export function openActivation(run: Run, event: LogEvent): void {
  const name = event.nodeName;
  const known = run.steps[name];
  const step: StepRun = known ?? { activation: 0, status: 'open', entered: 0, value: null, loop: null, stalls: 0 };
  if (known !== undefined) leaveStatus(run, known);
  step.activation += 1;
  step.status = 'open';
  step.entered = event.eventId;
  step.loop = loopOf(event.context);
  run.steps[name] = step;
  if (!run.active.includes(name)) run.active.push(name);
  run.lastEntered = name;
  leaveBarrier(run, name);
}

export function skipStep(run: Run, event: LogEvent): void {
  const known = run.steps[event.nodeName];
  if (known === undefined) {
    run.steps[event.nodeName] = { activation: 0, status: 'skipped', entered: 0, value: null, loop: null, stalls: 0 };
    run.counts.skipped += 1;
  } else if (known.status === 'open') {
    endActivation(run, event.nodeName, known, 'skipped');
  }
  // A step that is skipped when it waited at its barrier has left it.
  leaveBarrier(run, event.nodeName);
}

/** A step that an earlier run completed: it has its value and was never entered here. */
export function copyStep(run: Run, event: LogEvent): void {
  if (run.steps[event.nodeName] !== undefined) return;
  const value = event.eventId;
  run.steps[event.nodeName] = { activation: 1, status: 'completed', entered: 0, value, loop: null, stalls: 0 };
  run.counts.completed += 1;
  run.lastCompleted = event.nodeName;
}

export function openCommand(run: Run, event: LogEvent): void {
  const step = run.steps[event.nodeName];
  if (event.commandId === null || run.open[event.commandId] !== undefined) return;
  const iteration = integerIn(event.meta, 'iteration_index');
  const cursor = event.meta['cursor'];
  const isClaim = isMap(cursor) && cursor['phase'] === 'claim';
  run.open[event.commandId] = {
    step: event.nodeName,
    activation: integerIn(event.meta, 'activation') ?? step?.activation ?? 1,
    iteration,
    issued: event.eventId,
    outcome: null,
    failed: false,
    parkedOn: null,
    isClaim,
  };
  run.openCount += 1;
  if (step?.loop?.cursor && isMap(cursor)) {
    const frame = integerIn(cursor, 'frame') ?? 0;
    if (isClaim) Object.assign(step.loop.cursor, { frame, rows: null, row: 0 });
    else step.loop.cursor.row = (integerIn(cursor, 'row') ?? 0) + 1;
  }
  if (step?.loop && iteration !== null) {
    step.loop.open += 1;
    step.loop.next = Math.max(step.loop.next, iteration + 1);
  }
}

/** The first outcome of a command stays, whatever is reported later. */
export function attachOutcome(run: Run, event: LogEvent): void {
  const found = commandOf(run, event);
  if (found === null || found.command.outcome !== null) return;
  run.open[found.id] = { ...found.command, outcome: event.eventId, failed: event.type === 'call.error' };
}

export function parkCommand(run: Run, event: LogEvent): void {
  const found = commandOf(run, event);
  if (found === null) return;
  run.open[found.id] = { ...found.command, parkedOn: childNamedBy(event) };
}

/** The child that a parked command waits for; `0` where none was named. */
export function childNamedBy(event: LogEvent): number {
  // `Number(null)` is 0. Coverage counts a `??` of a function this small on some days only.
  return Number(integerIn(event.context, 'child_execution_id'));
}

/** Closes the command; its activation ends with it unless it is one iteration of a loop. */
export function settleCommand(run: Run, event: LogEvent): void {
  const found = commandOf(run, event);
  if (found === null) return;
  const { id, command } = found;
  const ok =
    command.outcome === null ? event.type !== 'command.failed' && event.type !== 'call.error' : !command.failed;
  const outcome = command.outcome ?? event.eventId;
  removeCommand(run, id);
  const step = run.steps[command.step];
  const current = step !== undefined && step.status === 'open' && step.activation === command.activation;
  run.settled = {
    commandId: id,
    step: command.step,
    activation: command.activation,
    iteration: command.iteration,
    outcome,
    ok,
    isClaim: command.isClaim,
    current,
  };
  if (!current) return;
  if (step.loop === null) {
    step.value = outcome;
    endActivation(run, command.step, step, ok ? 'completed' : 'failed');
  } else if (command.isClaim) {
    if (ok && step.loop.cursor !== null) step.loop.cursor.rows = outcome;
  } else {
    step.loop.open -= 1;
    if (ok) step.loop.succeeded += 1;
    else step.loop.failed += 1;
  }
}

export function closeCommand(run: Run, event: LogEvent): void {
  const found = commandOf(run, event);
  if (found === null) return;
  const { id, command } = found;
  removeCommand(run, id);
  const step = run.steps[command.step];
  if (step === undefined || step.status !== 'open' || step.activation !== command.activation) return;
  if (step.loop !== null && !command.isClaim) step.loop.open -= 1;
  if (step.loop === null || step.loop.open === 0) endActivation(run, command.step, step, 'skipped');
}

export function endLoop(run: Run, event: LogEvent): void {
  const step = run.steps[event.nodeName];
  if (step === undefined || step.status !== 'open') return;
  const loop = step.loop;
  const items = loop === null ? 0 : loop.cursor === null ? loop.total : loop.next;
  step.stalls = loop !== null && items > 0 && loop.succeeded === 0 ? step.stalls + 1 : 0;
  step.value = event.eventId;
  step.loop = null;
  endActivation(run, event.nodeName, step, event.status === 'failed' ? 'failed' : 'completed');
}

export function assignVariables(run: Run, event: LogEvent): void {
  const failed = event.meta['failed'];
  // Written by recordStepFailure a moment ago or read back from the log: the shape is ours either way.
  if (isMap(failed)) failStep(run, event.nodeName, failed as unknown as Failure);
  const values = event.context['values'];
  if (isMap(values)) for (const name of Object.keys(values)) run.written[name] = event.eventId;
  const arrived = event.meta['arrived'];
  if (!isMap(arrived)) return;
  for (const join of Object.keys(arrived)) {
    if (!run.joins.includes(join)) run.joins.push(join);
    // Written by recordArrivals a moment ago or read back from the log: the shape is ours either way.
    run.arrivals[join] = arrived[join] as unknown as Arrival;
  }
}

/** The step ended well, but what follows its end failed: its value stays, and it did not complete (language 6.2). */
function failStep(run: Run, name: string, failure: Failure): void {
  const step = run.steps[name];
  if (step === undefined || step.status !== 'completed') return;
  leaveStatus(run, step);
  step.status = 'failed';
  step.failure = failure;
  run.counts.failed += 1;
  if (run.lastCompleted === name) run.lastCompleted = lastCompletedOf(run);
}

/** Values of steps are numbers of the events they ended with. */
function lastCompletedOf(run: Run): string | null {
  const completed = Object.entries(run.steps).filter(([, step]) => step.status === 'completed');
  const [last] = completed.sort(([, a], [, b]) => Number(b.value) - Number(a.value));
  return last?.[0] ?? null;
}

/** The execution is failing: nothing new is dispatched, joins are dropped, parked waits are over (language 5.7). */
export function markFailing(run: Run, event: LogEvent): void {
  run.failing = true;
  clearBarriers(run);
  const failures = event.meta['failures'];
  // Written by this engine a moment ago or read back from the log: the shape is ours either way.
  if (Array.isArray(failures)) run.failures.push(...(failures as unknown as StepFailure[]));
  for (const [id, command] of Object.entries(run.open)) {
    if (command.parkedOn === null) continue;
    closeCommand(run, { ...event, commandId: Number(id), nodeName: command.step });
  }
}

export function closeRun(run: Run): void {
  clearBarriers(run);
}

function leaveBarrier(run: Run, name: string): void {
  if (run.arrivals[name] === undefined) return;
  run.joins = run.joins.filter((join) => join !== name);
  delete run.arrivals[name];
}

function clearBarriers(run: Run): void {
  for (const join of run.joins) delete run.arrivals[join];
  run.joins = [];
}

function commandOf(
  run: Run,
  { commandId: id, stale }: LogEvent,
): { readonly id: number; readonly command: OpenCommand } | null {
  const command = id === null || stale ? undefined : run.open[id];
  return id === null || command === undefined ? null : { id, command };
}

function removeCommand(run: Run, commandId: number): void {
  delete run.open[commandId];
  run.openCount -= 1;
}

function endActivation(run: Run, name: string, step: StepRun, status: 'completed' | 'failed' | 'skipped'): void {
  step.status = status;
  if (step.failure) step.failure = null;
  run.active = run.active.filter((active) => active !== name);
  run.counts[status] += 1;
  if (status === 'completed') run.lastCompleted = name;
}

function leaveStatus(run: Run, step: StepRun): void {
  if (step.status !== 'open') run.counts[step.status] -= 1;
}

function loopOf(context: JsonMap): LoopRun | null {
  const total = integerIn(context, 'iterations_expected');
  if (total === null) return null;
  const mode = context['mode'];
  return {
    mode: mode === 'parallel' || mode === 'cursor' ? mode : 'sequential',
    total,
    limit: integerIn(context, 'max_in_flight') ?? 1,
    next: 0,
    open: 0,
    succeeded: 0,
    failed: 0,
    cursor: mode === 'cursor' ? { frame: 0, rows: null, row: 0 } : null,
  };
}

function integerIn(map: JsonMap, key: string): number | null {
  const value = map[key];
  return typeof value === 'number' && Number.isInteger(value) ? value : null;
}
