/**
 * What would happen if: an event is tried on a copy of an execution, at any place of its log, by the chart and the planner of
 * production over memory. Nothing is stored, no command reaches anybody, and ids of what would be issued are provisional.
 */
import type { EventDraft, LogEvent } from '../machines/events.ts';
import type { Plan } from '../machines/execution/plan.ts';
import type { EngineLimits } from '../machines/execution/stage.ts';
import { completeDraft, type ExecutionState, restoreExecution, takeTurn } from '../machines/execution/take-turn.ts';
import { copyRun, type Mark } from '../machines/execution/tape.ts';
import type { Json } from '../machines/json.ts';
import { NeedPayload } from '../machines/playbook/values.ts';
import { readMaterials } from './hydrate.ts';
import type { ExecutionRow, Store } from './ports.ts';

export interface RehearsalParts {
  readonly store: Pick<Store, 'events' | 'iterations' | 'payload'>;
  readonly limits: EngineLimits;
}

export interface Rehearsal {
  readonly state: ExecutionState;
  /** The event itself and everything that would be decided because of it. */
  readonly recorded: readonly LogEvent[];
}

const FETCHES_MAX = 32;
/** Provisional ids count down from here, far above any that are given out. */
const IDS_FROM = Number.MAX_SAFE_INTEGER;

export async function rehearse(
  parts: RehearsalParts,
  row: ExecutionRow,
  plan: Plan,
  mark: Mark,
  /** How often each open command had been claimed at that place. */
  attempts: ReadonlyMap<number, number>,
  draft: EventDraft,
  /** ISO instant of everything that would be recorded. */
  at: string,
): Promise<Rehearsal> {
  const payloads = new Map<string, Json>();
  for (let fetches = 0; ; fetches += 1) {
    const state = restoreExecution(mark.value, copyRun(mark.run));
    await readMaterials(state, row.executionId, parts.store);
    try {
      return play(parts, row, plan, state, payloads, attempts, draft, at);
    } catch (error) {
      // A turn that throws leaves its state unusable; the next one finds the payload.
      if (!(error instanceof NeedPayload) || fetches >= FETCHES_MAX) throw error;
      const refs: readonly string[] = 'refs' in error && Array.isArray(error.refs) ? error.refs : [error.ref];
      for (const ref of refs) payloads.set(ref, (await parts.store.payload(ref)) ?? null);
    }
  }
}

function play(
  { limits }: RehearsalParts,
  row: ExecutionRow,
  plan: Plan,
  state: ExecutionState,
  payloads: ReadonlyMap<string, Json>,
  attempts: ReadonlyMap<number, number>,
  draft: EventDraft,
  at: string,
): Rehearsal {
  let eventId = row.lastEventId;
  let id = IDS_FROM;
  const nextEventId = () => {
    eventId += 1;
    return eventId;
  };
  const number = nextEventId();
  const event = completeDraft(draft, number, number, at);
  const turn = takeTurn(state, event, {
    plan,
    identity: row,
    limits,
    at,
    nextEventId,
    newId: () => {
      id -= 1;
      return id;
    },
    isPending: (commandId) => attempts.get(commandId) === 0,
    attemptOf: (commandId) => attempts.get(commandId) ?? 0,
    payload: (ref) => payloads.get(ref),
    store: () => null,
  });
  return { state, recorded: [event, ...turn.decided] };
}
