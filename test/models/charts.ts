/**
 * Every chart as a model: an alphabet of events, a table written by hand from api 4.1 to 4.4 of what each state does with
 * each of them, and the chart itself as logic that xstate/graph can walk. Walking folds with the code of production; a
 * snapshot of the walk is its word, so contexts that are folded in place stay apart.
 */
import { type AnyMachineSnapshot, type AnyStateMachine, fromTransition } from 'xstate';
import { getShortestPaths, getSimplePaths } from 'xstate/graph';
import { batchMachine } from '../../machines/batch/machine.ts';
import { commandMachine } from '../../machines/command/machine.ts';
import type { EventDraft } from '../../machines/events.ts';
import { executionMachine } from '../../machines/execution/machine.ts';
import { completeDraft } from '../../machines/execution/take-turn.ts';
import { keychainMachine } from '../../machines/keychain/machine.ts';
import { activeStates } from '../../machines/outline.ts';
import { fold, initialSnapshot } from '../../machines/turn.ts';

/** An event by the name the table has for it. */
export interface Letter {
  readonly name: string;
  readonly event: { readonly type: string };
  /** The server alone writes it, and only where the table has it; from outside its type is refused. */
  readonly isOwn: boolean;
}

export interface Model {
  readonly machine: AnyStateMachine;
  readonly letters: readonly Letter[];
  /** Letters enough to walk every simple path; null: all of them. */
  readonly walked: readonly string[] | null;
  /** By state: where the letters lead that it takes. What is not named changes nothing, not even the context. */
  readonly table: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** What tells situations apart that no table does: guards read it. */
  situation(snapshot: AnyMachineSnapshot): string;
}

export const COMMAND_ID = 9_001;
const AT = '2026-11-20T10:15:00.000Z';

export const MODELS: Readonly<Record<string, Model>> = {
  execution: executionModel(),
  command: {
    machine: commandMachine,
    walked: null,
    letters: [
      named('claimed', { type: 'command.claimed', attempt: 1, workerId: 'ada' }),
      named('republished', { type: 'command.republished' }),
      named('started', { type: 'command.started' }),
      named('parked for a child', { type: 'command.parked', childExecutionId: 7 }),
      named('parked for a time', { type: 'command.parked', childExecutionId: 0 }),
      named('completed', { type: 'command.completed' }),
      named('failed', { type: 'command.failed' }),
      named('cancelled', { type: 'command.cancelled' }),
      named('something newer', { type: 'command.praised' }),
    ],
    table: {
      PENDING: { claimed: 'CLAIMED', republished: 'PENDING', ...ends() },
      CLAIMED: {
        ...{ claimed: 'CLAIMED', republished: 'CLAIMED', started: 'RUNNING' },
        ...{ 'parked for a child': 'PARKED for a child', 'parked for a time': 'PARKED for a time', ...ends() },
      },
      RUNNING: {
        ...{ claimed: 'CLAIMED', republished: 'RUNNING' },
        ...{ 'parked for a child': 'PARKED for a child', 'parked for a time': 'PARKED for a time', ...ends() },
      },
      'PARKED for a child': { ...ends() },
      'PARKED for a time': { claimed: 'CLAIMED', ...ends() },
      ...{ COMPLETED: {}, FAILED: {}, CANCELLED: {} },
    },
    situation({ value, context }) {
      if (value !== 'PARKED') return String(value);
      return context.parkedOn === 0 ? 'PARKED for a time' : 'PARKED for a child';
    },
  },
  batch: {
    machine: batchMachine,
    walked: null,
    letters: ['accepted', 'processing', 'completed', 'failed', 'forgotten'].map((each) =>
      named(each, { type: `batch.${each}` }),
    ),
    table: {
      accepted: { processing: 'processing' },
      processing: { processing: 'processing', completed: 'completed', failed: 'failed' },
      completed: {},
      failed: { accepted: 'accepted' },
    },
    situation: ({ value }) => String(value),
  },
  keychain: keychainModel(),
};

function named(name: string, event: { readonly type: string; readonly [key: string]: unknown }): Letter {
  return { name, event, isOwn: false };
}

function ends() {
  return { completed: 'COMPLETED', failed: 'FAILED', cancelled: 'CANCELLED' };
}

function keychainModel(): Model {
  const stored = (type: string, second: number, expiry: number, autoRenew: boolean) => ({
    ...{ type, at: instant(second) },
    entry: { scope: 'global', credentialType: 'http', cacheType: 'token', expiresAt: instant(expiry), autoRenew },
  });
  return {
    machine: keychainMachine,
    walked: null,
    letters: [
      named('stored', stored('entry.stored', 0, 60, false)),
      named('stored, renews itself', stored('entry.stored', 0, 60, true)),
      named('stored too late', stored('entry.stored', 60, 60, false)),
      named('renewed', stored('entry.renewed', 1, 61, true)),
      named('read in time', { type: 'entry.read', at: instant(30) }),
      named('read too late', { type: 'entry.read', at: instant(61) }),
      named('renewal granted', { type: 'entry.renewalGranted', at: instant(50), until: instant(80) }),
      named('removed', { type: 'entry.removed', at: instant(70), reason: 'deleted' }),
      named('something newer', { type: 'entry.praised', at: instant(0) }),
    ],
    table: {
      absent: keeps(),
      live: { ...keeps(), 'read in time': 'live', 'read too late': 'expired', removed: 'absent' },
      'live, renews itself': {
        ...{ ...keeps(), 'read in time': 'live, renews itself', 'read too late': 'expired, renews itself' },
        ...{ 'renewal granted': 'live, under renewal', removed: 'absent' },
      },
      'live, under renewal': {
        ...{ ...keeps(), 'read in time': 'live, under renewal', 'read too late': 'expired, under renewal' },
        removed: 'absent',
      },
      expired: { ...keeps(), removed: 'absent' },
      'expired, renews itself': { ...keeps(), 'renewal granted': 'expired, under renewal', removed: 'absent' },
      'expired, under renewal': { ...keeps(), removed: 'absent' },
    },
    situation({ value, context }) {
      if (value === 'absent' || !context.autoRenew) return String(value);
      return `${value}, ${context.renewalUntil === null ? 'renews itself' : 'under renewal'}`;
    },
  };

  function keeps() {
    return {
      ...{ stored: 'live', 'stored, renews itself': 'live, renews itself', 'stored too late': 'expired' },
      renewed: 'live, renews itself',
    };
  }

  function instant(second: number): string {
    return new Date(Date.parse(AT) + second * 1000).toISOString();
  }
}

/** One step `a` with one command, and the rows a log may hold of them. */
function executionModel(): Model {
  let row = 0;
  const letter = (name: string, type: string, more: Partial<EventDraft> = {}, isDecision = false): Letter => {
    row += 1;
    const draft: EventDraft = { type, status: 'completed', nodeName: 'a', ...more };
    // A decision has another row as its cause.
    return {
      name,
      event: { type, log: completeDraft(draft, 1_000 + row, isDecision ? row : 1_000 + row, AT) } as never,
      isOwn: isDecision,
    };
  };
  const own = { commandId: COMMAND_ID };
  const failures = [{ step: 'a', event: 1, iteration: null, task: null, kind: 'k', code: null, message: 'broke' }];
  const stays = (state: string, ...names: readonly string[]) => Object.fromEntries(names.map((name) => [name, state]));
  const atEnd = { 'run completed': 'completed', 'run failed': 'failed', 'run cancelled': 'cancelled' };
  return {
    machine: executionMachine,
    walked: [
      ...['started', 'entered', 'issued', 'call done', 'command completed', 'command parked', 'step failed'],
      ...['run completed', 'run cancelled'],
    ],
    letters: [
      letter('started', 'execution.started', { status: 'running' }),
      letter('entered', 'step.enter', {}, true),
      letter('skipped', 'step.skipped', {}, true),
      letter('copied', 'step.exit', { meta: { copied_from: 7 } }, true),
      letter('issued', 'command.issued', own, true),
      letter('claimed', 'command.claimed', own),
      letter('begun', 'command.started', own),
      letter('call done', 'call.done', own),
      letter('call failed', 'call.error', { ...own, status: 'failed' }),
      letter('exit reported', 'step.exit', own),
      letter('command completed', 'command.completed', own),
      letter('command failed', 'command.failed', { ...own, status: 'failed' }),
      letter('command cancelled', 'command.cancelled', { ...own, status: 'cancelled' }),
      letter('command parked', 'command.completed', {
        ...own,
        context: { pending_callback: true, child_execution_id: 7 },
      }),
      letter('stale call', 'call.done', { ...own, stale: true }),
      letter('stale end', 'command.completed', { ...own, stale: true }),
      letter('call of a stranger', 'call.done', { commandId: 5 }),
      letter('end of a stranger', 'command.failed', { commandId: 5 }),
      letter('loop done', 'loop.done', {}, true),
      letter('variable set', 'ctx.updated', { context: { values: { n: 1 } } }, true),
      letter('step failed', 'ctx.updated', { meta: { failures } }, true),
      letter('batch accepted', 'batch.accepted', { nodeName: 'batch' }),
      letter('workflow completed', 'workflow.completed', { nodeName: 'workflow' }, true),
      letter('something newer', 'step.praised'),
      letter('run completed', 'playbook.completed'),
      letter('run failed', 'playbook.failed', { status: 'failed' }),
      letter('run cancelled', 'execution.cancelled', { status: 'cancelled' }),
    ],
    table: {
      created: { started: 'working' },
      ...life('working'),
      ...life('failing'),
      ...{ completed: {}, failed: {}, cancelled: {} },
    },
    situation({ value, context }) {
      const state = activeStates(executionMachine, value)[0]?.split('.').at(-1) ?? '';
      if (state !== 'working' && state !== 'failing') return state;
      const command = context.run.open[COMMAND_ID];
      const step = context.run.steps.a?.status;
      if (command?.parkedOn != null) return `${state}, parked`;
      if (command !== undefined) return `${state}, ${command.outcome === null ? 'issued' : 'told'}`;
      if (step === undefined) return state;
      return `${state}, ${step === 'open' ? 'entered' : 'passed'}`;
    },
  };

  /** The situations of a run that goes on, or fails. */
  function life(state: string): Model['table'] {
    const [here, entered, passed] = [state, `${state}, entered`, `${state}, passed`];
    const [issued, told] = [`${state}, issued`, `${state}, told`];
    // A run that fails waits for nothing.
    const parked = state === 'failing' ? passed : `${state}, parked`;
    const settled = stays(passed, 'command completed', 'command failed', 'command cancelled');
    return {
      [here]: { entered, skipped: passed, copied: passed, 'variable set': here, 'step failed': 'failing', ...atEnd },
      [entered]: {
        ...{ issued, skipped: passed, 'loop done': passed, 'variable set': entered },
        ...{ 'step failed': 'failing, entered', ...atEnd },
      },
      [passed]: { entered, 'variable set': passed, 'step failed': 'failing, passed', ...atEnd },
      [issued]: {
        ...{ 'call done': told, 'call failed': told, 'command parked': parked, ...settled },
        ...{ 'variable set': issued, 'step failed': 'failing, issued', ...atEnd },
      },
      [told]: {
        ...{ 'command parked': parked, ...settled },
        ...{ 'variable set': told, 'step failed': 'failing, told', ...atEnd },
      },
      ...(parked !== passed && {
        [parked]: {
          // What it waited for closes it by its call.
          ...{ ...stays(passed, 'call done', 'call failed'), 'step failed': 'failing, passed' },
          // A second word that it waits changes what it waits for.
          ...{ 'command parked': parked, ...settled },
          ...{ 'variable set': parked, ...atEnd },
        },
      }),
    };
  }
}

export interface Walked {
  readonly word: readonly Letter[];
  readonly snapshot: AnyMachineSnapshot;
  readonly decisions: readonly string[];
}

/** The chart after this word. Throws what the fold throws. */
export function walk(model: Model, word: readonly Letter[]): Walked {
  let snapshot: AnyMachineSnapshot = initialSnapshot(model.machine);
  let decisions: readonly string[] = [];
  for (const { event } of word) {
    // As production does: an end absorbs nothing.
    const next =
      snapshot.status === 'done' && isExecution(model)
        ? { snapshot, decisions: [] }
        : fold(model.machine, snapshot, event);
    ({ snapshot, decisions } = next);
  }
  return { word, snapshot, decisions };
}

/** Whether this can happen there: what only the server writes is written only where the table has it. */
export function canHappen(model: Model, situation: string, letter: Letter): boolean {
  return !letter.isOwn || RESTING.has(situation) || model.table[situation]?.[letter.name] !== undefined;
}

/** Nothing at all may move these, whoever wrote it. */
const RESTING: ReadonlySet<string> = new Set(['created', 'completed', 'failed', 'cancelled']);

function isExecution(model: Model): boolean {
  return model.machine === executionMachine;
}

/** Ways to each situation by xstate/graph: the shortest one, or every one that meets no situation twice. */
export function pathsOf(model: Model, kind: 'shortest' | 'simple', letters: readonly Letter[] = model.letters) {
  const byName = new Map(letters.map((letter) => [letter.name, letter]));
  const logic = fromTransition(
    (word: readonly Letter[], event: { readonly type: string }) => [...word, byName.get(event.type) as Letter],
    [] as readonly Letter[],
  );
  const options = {
    events: ({ context }: { readonly context: readonly Letter[] }) => {
      const situation = model.situation(walk(model, context).snapshot);
      return letters.filter((letter) => canHappen(model, situation, letter)).map(({ name }) => ({ type: name }));
    },
    serializeState: (snapshot: { readonly context: readonly Letter[] }) =>
      model.situation(walk(model, snapshot.context).snapshot) as never,
  };
  const paths = kind === 'shortest' ? getShortestPaths(logic, options) : getSimplePaths(logic, options);
  return paths.map((path) => walk(model, path.state.context));
}
