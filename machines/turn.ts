/**
 * A turn: one event from outside, folded, together with everything the machine decides because of it. This file is the
 * only caller of an XState transition. The scope it passes is inert: no actor is started, no effect runs; actions
 * that are not folds come back by name, and the planner answers them with further events, which are folded in turn.
 */
import type { AnyMachineSnapshot, AnyStateMachine } from 'xstate';

/** What the turn hands to the actions of a chart that are names only. */
export type Decider = (name: string) => void;

interface InertScope {
  self: unknown;
  logger: () => void;
  id: string;
  sessionId: string;
  defer: () => void;
  system: unknown;
  stopChild: () => void;
  emit: () => void;
  actionExecutor: (action: { readonly type: string }) => void;
}

/** Built once: XState's own pure helper makes an actor for every call, which costs ten times the transition. */
const named: string[] = [];
const scope: InertScope = {
  self: { id: 'inert', sessionId: 'inert', send: () => {} },
  logger: () => {},
  id: 'inert',
  sessionId: 'inert',
  defer: () => {},
  system: { _relay: () => {}, _sendInspectionEvent: () => {}, _clock: null },
  stopChild: () => {},
  emit: () => {},
  actionExecutor: (action) => {
    named.push(action.type);
  },
};

/** The snapshot of a chart before its first event. */
export function initialSnapshot<M extends AnyStateMachine>(machine: M): ReturnType<M['getInitialSnapshot']> {
  named.length = 0;
  // The machine's own type, which AnyStateMachine cannot say.
  return machine.getInitialSnapshot(scope as never, undefined) as ReturnType<M['getInitialSnapshot']>;
}

/**
 * Folds one event. Returns the next snapshot and the names of the actions that only name a decision; ignore them and
 * the fold is muted.
 */
export function fold<S extends AnyMachineSnapshot>(
  machine: AnyStateMachine,
  snapshot: S,
  event: { readonly type: string },
): { readonly snapshot: S; readonly decisions: readonly string[] } {
  named.length = 0;
  // The machine returns the snapshot type it was given; AnyStateMachine cannot say so.
  const next = machine.transition(snapshot, event, scope as never) as S;
  const decisions = named.length === 0 ? NO_DECISIONS : named.slice();
  return { snapshot: next, decisions };
}

/** Changes the context by an event. */
export type FoldInPlace<Context, Event> = (context: Context, event: Event) => void;

/**
 * As `fold`, for a chart whose context changes in place by these actions. XState says which transition is taken; where
 * it has no target, as for nearly every event of a log, nothing else of the snapshot changes, and the actions are done
 * here in a third of the time.
 */
export function foldInPlace<S extends AnyMachineSnapshot, Event extends { readonly type: string }>(
  machine: AnyStateMachine,
  actions: Readonly<Record<string, FoldInPlace<S['context'], Event> | undefined>>,
  snapshot: S,
  event: Event,
): { readonly snapshot: S; readonly decisions: readonly string[] } {
  const taken = machine.getTransitionData(snapshot, event);
  if (taken.some((transition) => transition.target !== undefined)) return fold(machine, snapshot, event);
  let decisions: string[] | null = null;
  for (const transition of taken) {
    // Charts of this kind name their actions.
    for (const name of transition.actions as readonly string[]) {
      const change = actions[name];
      if (change === undefined) {
        decisions ??= [];
        decisions.push(name);
      } else change(snapshot.context, event);
    }
  }
  return { snapshot, decisions: decisions ?? NO_DECISIONS };
}

const NO_DECISIONS: readonly string[] = [];
