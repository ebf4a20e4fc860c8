/**
 * One turn of an execution: an inbox event is folded, the chart names what has to be decided, the planner records it, and
 * every recorded event is folded before the next decision. Pure but for ownership: the snapshot and materials given are
 * consumed (see run.ts); a turn that throws leaves them unusable.
 */
import type { SnapshotFrom } from 'xstate';
import type { EventDraft, LogEvent } from '../events.ts';
import type { Json } from '../json.ts';
import { foldInPlace, initialSnapshot } from '../turn.ts';
import { EXECUTION_FOLDS, executionMachine } from './machine.ts';
import { Materials } from './materials.ts';
import type { Plan } from './plan.ts';
import { decide } from './planner.ts';
import type { Run } from './run.ts';
import type { EngineLimits, Identity, IssuedCommand, Stage, StoredValue } from './stage.ts';

/** Raise it when a decision may come out differently for the same log; it is written on every decided row. */
export const ENGINE_VERSION = 1;

export type ExecutionSnapshot = SnapshotFrom<typeof executionMachine>;

export interface ExecutionState {
  snapshot: ExecutionSnapshot;
  readonly materials: Materials;
}

/** The world's part in a turn, as arguments. */
export interface TurnHost {
  readonly plan: Plan;
  readonly identity: Identity;
  readonly limits: EngineLimits;
  /** Instant of everything this turn records. */
  readonly at: string;
  /** Recorded before the entry step: steps and variables of an earlier run (api 2.3.10). */
  readonly copied?: readonly EventDraft[];
  nextEventId(): number;
  newId(): number;
  isPending(commandId: number): boolean;
  attemptOf(commandId: number): number;
  payload(ref: string): Json | undefined;
  store(value: Json, name: string, inlineMaxBytes: number): StoredValue | null;
}

export interface Turn {
  readonly decided: readonly LogEvent[];
  readonly issued: readonly IssuedCommand[];
  /** Children nobody waits for any more. */
  readonly abandoned: readonly number[];
}

const NOTHING: Turn = { decided: [], issued: [], abandoned: [] };

export function newExecution(): ExecutionState {
  return { snapshot: initialSnapshot(executionMachine), materials: new Materials() };
}

/** The state a stored snapshot stands for; its values still have to be read. */
export function restoreExecution(value: Json, run: Run): ExecutionState {
  // Stored by this machine version, so the value names states of this chart.
  const snapshot = executionMachine.resolveState({ value: value as never, context: { run } });
  return { snapshot, materials: new Materials() };
}

export function runOf(state: ExecutionState): Run {
  return state.snapshot.context.run;
}

/** Folds an event without deciding anything: how a log is read back. */
export function absorbEvent(state: ExecutionState, event: LogEvent): readonly string[] {
  state.materials.absorb(event);
  // Terminal states absorb nothing: late events leave the state alone.
  if (state.snapshot.status === 'done') return [];
  const { run } = state.snapshot.context;
  const before = run.settled;
  const { snapshot, decisions } = foldInPlace(executionMachine, EXECUTION_FOLDS, state.snapshot, {
    type: event.type,
    log: event,
  });
  state.snapshot = snapshot;
  if (run.settled !== null && run.settled !== before) state.materials.keepIteration(run.settled);
  return decisions;
}

/** `event` has its number and is its own cause, or, where it ends the run, may be what a report of the end came to. */
export function takeTurn(state: ExecutionState, event: LogEvent, host: TurnHost): Turn {
  const names = absorbEvent(state, event);
  if (names.length === 0) return NOTHING;
  /** Issued by this very turn: nobody can have claimed them. */
  const fresh = new Set<number>();
  const decided: LogEvent[] = [];
  const issued: IssuedCommand[] = [];
  const abandoned: number[] = [];
  const stage: Stage = {
    plan: host.plan,
    run: runOf(state),
    materials: state.materials,
    identity: host.identity,
    limits: host.limits,
    copied: host.copied ?? [],
    newId: host.newId,
    isPending: (commandId) => fresh.has(commandId) || host.isPending(commandId),
    attemptOf: (commandId) => (fresh.has(commandId) ? 0 : host.attemptOf(commandId)),
    payload: host.payload,
    store: host.store,
    record(draft) {
      const row = completeDraft(draft, host.nextEventId(), event.causeId, host.at);
      decided.push(row);
      absorbEvent(state, row);
      return row;
    },
    issue(command) {
      fresh.add(command.commandId);
      issued.push(command);
    },
    cancelChild: (executionId) => abandoned.push(executionId),
  };
  for (const name of names) decide(stage, name, event);
  state.materials.sweep(stage.run);
  return { decided, issued, abandoned };
}

/** A draft with its number, cause and instant. A decision belongs to its cause unless it says otherwise. */
export function completeDraft(draft: EventDraft, eventId: number, causeId: number, at: string): LogEvent {
  const isDecision = eventId !== causeId;
  return {
    eventId,
    causeId,
    type: draft.type,
    status: draft.status,
    nodeName: draft.nodeName,
    nodeId: draft.nodeId ?? draft.nodeName,
    nodeType: draft.nodeType ?? null,
    parentEventId: draft.parentEventId ?? (isDecision ? causeId : null),
    parentExecutionId: draft.parentExecutionId ?? null,
    commandId: draft.commandId ?? null,
    attempt: draft.attempt ?? null,
    workerId: draft.workerId ?? null,
    reportId: draft.reportId ?? null,
    reportSeq: draft.reportSeq ?? null,
    closes: draft.closes ?? false,
    stale: draft.stale ?? false,
    duration: draft.duration ?? null,
    context: draft.context ?? {},
    result: draft.result ?? null,
    error: draft.error ?? null,
    meta: draft.meta ?? {},
    engineVersion: draft.engineVersion ?? (isDecision ? ENGINE_VERSION : null),
    at,
  };
}
