/**
 * Brings an execution back from the store: snapshot and tail, or the whole log. Values the chart only points at are read by
 * event number, in one further statement, and iterations of open loops in one each.
 */
import type { LogEvent } from '../machines/events.ts';
import { EXECUTION_MACHINE_VERSION } from '../machines/execution/machine.ts';
import { outcomeBody } from '../machines/execution/materials.ts';
import type { Plan } from '../machines/execution/plan.ts';
import { newRun, type Run } from '../machines/execution/run.ts';
import {
  absorbEvent,
  type ExecutionState,
  newExecution,
  restoreExecution,
  runOf,
} from '../machines/execution/take-turn.ts';
import { isMap } from '../machines/json.ts';
import { foldOrder } from '../machines/replay.ts';
import { type Engine, ExecutionActor } from './execution-actor.ts';
import type { Store, StoredExecution } from './ports.ts';

/** Events in the log that no turn has handled wait in the actor's inbox. */
export async function hydrate(
  stored: StoredExecution,
  plan: Plan,
  store: Store,
  engine: Engine,
): Promise<ExecutionActor> {
  const { row } = stored;
  const snapshot = stored.snapshot?.machineVersion === EXECUTION_MACHINE_VERSION ? stored.snapshot : null;
  const state = snapshot === null ? newExecution() : restoreExecution(snapshot.value, runFrom(snapshot.context['run']));
  const through = snapshot?.throughEventId ?? 0;
  const tail =
    stored.snapshot !== null && snapshot === null
      ? await store.events(row.executionId, numbers(1, Math.max(row.lastEventId, stored.tail.at(-1)?.eventId ?? 0)))
      : stored.tail.filter((event) => event.eventId > through);
  const handled = tail.filter((event) => event.causeId <= row.handledThrough);
  for (const event of foldOrder(handled)) absorbEvent(state, event);
  await readMaterials(state, row.executionId, store);
  const isInbox = (event: LogEvent) => event.causeId > row.handledThrough && event.causeId === event.eventId;
  return new ExecutionActor(
    {
      row,
      state,
      plan,
      commands: new Map(stored.openCommands.map((command) => [command.commandId, command])),
      snapshotThrough: through,
      isStored: true,
      inbox: tail.filter(isInbox),
    },
    engine,
  );
}

/** Reads what the run points at and the folded tail did not bring. */
export async function readMaterials(
  state: ExecutionState,
  executionId: number,
  store: Pick<Store, 'events' | 'iterations'>,
): Promise<void> {
  const run = runOf(state);
  const loops = run.active.filter((step) => run.steps[step]?.loop !== null && run.steps[step]?.loop !== undefined);
  const wanted = new Set(state.materials.missing(run));
  if (!state.materials.isOpened) wanted.add(1);
  for (const step of loops) if (!state.materials.loops.has(step)) wanted.add(run.steps[step]?.entered ?? 1);
  if (wanted.size > 0) {
    const events = await store.events(
      executionId,
      [...wanted].sort((a, b) => a - b),
    );
    // The end of an earlier round of a loop may be among them; it must not take what the present round works on.
    const present = new Map(state.materials.loops);
    for (const event of events) state.materials.absorb(event);
    for (const [step, material] of present) state.materials.loops.set(step, material);
  }
  for (const step of loops) {
    const material = state.materials.loops.get(step);
    if (material === undefined) continue;
    const ended = await store.iterations(executionId, step, run.steps[step]?.activation ?? 1);
    for (const event of ended) {
      const index = event.meta['iteration_index'];
      if (typeof index === 'number' && material.results[index] === undefined)
        material.results[index] = outcomeBody(event);
    }
  }
}

/** A Run as it was stored; its maps get no prototype, so that a step named `constructor` is only a step. */
function runFrom(stored: unknown): Run {
  if (!isMap(stored)) return newRun();
  // Written by snapshotOf with the same machine version, so the shape is a Run's.
  const run = stored as unknown as Run;
  return {
    ...run,
    steps: bare(run.steps),
    open: bare(run.open),
    written: bare(run.written),
    arrivals: bare(run.arrivals),
  };
}

function bare<T>(map: { [name: string]: T }): { [name: string]: T } {
  return Object.assign(Object.create(null), map);
}

function numbers(from: number, to: number): readonly number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index);
}
