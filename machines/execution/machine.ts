/**
 * The execution chart: the small static machine that every run is an instance of. Its config is JSON; what the names do
 * is in evolve.ts (facts) and decide.ts (decisions). A decision is an action without an effect of its own: the turn
 * sees its name and asks the planner, and on replay nobody asks.
 */
import { assign, setup } from 'xstate';
import type { LogEvent } from '../events.ts';
import type { FoldInPlace } from '../turn.ts';
import * as evolve from './evolve.ts';
import { newRun, type Run } from './run.ts';

/** Raise it when the meaning of a state or of a folded event changes; snapshots of another version are not used. */
export const EXECUTION_MACHINE_VERSION = 1;

export interface ExecutionMachineContext {
  readonly run: Run;
}

/** A log row on its way through the chart; the XState type is the event type. */
export interface ExecutionMachineEvent {
  readonly type: string;
  readonly log: LogEvent;
}

type Fold = (run: Run, event: LogEvent) => void;

/** What the actions do that change the run, in place (see run.ts). The others only name a decision. */
const FOLDS = {
  openRun: evolve.openRun,
  openActivation: evolve.openActivation,
  skipStep: evolve.skipStep,
  copyStep: evolve.copyStep,
  openCommand: evolve.openCommand,
  attachOutcome: evolve.attachOutcome,
  parkCommand: evolve.parkCommand,
  settleCommand: evolve.settleCommand,
  closeCommand: evolve.closeCommand,
  endLoop: evolve.endLoop,
  assignVariables: evolve.assignVariables,
  markFailing: evolve.markFailing,
  closeRun: evolve.closeRun,
} as const satisfies Readonly<Record<string, Fold>>;

/** The context stays the same object. */
const folding = (fold: Fold) =>
  assign<ExecutionMachineContext, ExecutionMachineEvent, undefined, ExecutionMachineEvent, never>(
    ({ context, event }) => {
      fold(context.run, event.log);
      return context;
    },
  );

const foldings = Object.fromEntries(
  Object.entries(FOLDS).map(([name, fold]) => [name, folding(fold)]),
  // The names are those of the record.
) as Record<keyof typeof FOLDS, ReturnType<typeof folding>>;

const isParking = ({ log }: ExecutionMachineEvent) => log.context['pending_callback'] === true;

const isOpen = ({ run }: ExecutionMachineContext, { log }: ExecutionMachineEvent) =>
  !log.stale && log.commandId !== null && run.open[log.commandId] !== undefined;

const chart = setup({
  // The types of XState's setup are given by example; the objects are never read.
  types: { context: {} as ExecutionMachineContext, events: {} as ExecutionMachineEvent },
  actions: {
    ...foldings,
    decideEntry: () => {},
    decideAfterCommand: () => {},
    decideAfterPark: () => {},
    decideAfterEnd: () => {},
  },
  guards: {
    isParking: ({ event }) => isParking(event),
    isParkingOpen: ({ context, event }) => isParking(event) && isOpen(context, event),
    isOpen: ({ context, event }) => isOpen(context, event),
    isParked: ({ context, event }) =>
      !event.log.stale &&
      event.log.commandId !== null &&
      (context.run.open[event.log.commandId]?.parkedOn ?? null) !== null,
    // Only a decision can be a copy: what a worker says of a step is not folded.
    isCopied: ({ event }) => event.log.eventId !== event.log.causeId && event.log.meta['copied_from'] !== undefined,
    isFailure: ({ event }) => event.log.meta['failures'] !== undefined,
  },
});

export const executionMachine = chart.createMachine({
  id: 'execution',
  description: 'One run of one playbook version, folded from its event log.',
  context: () => ({ run: newRun() }),
  initial: 'created',
  states: {
    created: {
      description: 'The log is empty.',
      tags: ['open'],
      on: { 'execution.started': { target: 'running', actions: ['openRun', 'decideEntry'] } },
    },
    running: {
      description: 'Steps are entered, commands are issued and settled until no work is left.',
      tags: ['open', 'running'],
      initial: 'working',
      on: {
        'step.enter': { actions: ['openActivation'] },
        'step.skipped': { actions: ['skipStep'] },
        'step.exit': { guard: 'isCopied', actions: ['copyStep'] },
        'command.issued': { actions: ['openCommand'] },
        'call.done': [
          { guard: 'isParked', actions: ['attachOutcome', 'settleCommand', 'decideAfterCommand'] },
          { actions: ['attachOutcome'] },
        ],
        'call.error': [
          { guard: 'isParked', actions: ['attachOutcome', 'settleCommand', 'decideAfterCommand'] },
          { actions: ['attachOutcome'] },
        ],
        'command.completed': [
          { guard: 'isParking', actions: ['parkCommand'] },
          { guard: 'isOpen', actions: ['settleCommand', 'decideAfterCommand'] },
        ],
        'command.failed': { guard: 'isOpen', actions: ['settleCommand', 'decideAfterCommand'] },
        'command.cancelled': { guard: 'isOpen', actions: ['closeCommand'] },
        'loop.done': { actions: ['endLoop'] },
        'playbook.completed': { target: 'completed', actions: ['closeRun', 'decideAfterEnd'] },
        'playbook.failed': { target: 'failed', actions: ['closeRun', 'decideAfterEnd'] },
        'execution.cancelled': { target: 'cancelled', actions: ['closeRun', 'decideAfterEnd'] },
      },
      states: {
        working: {
          description: 'Routing goes on: ended steps lead to the next ones.',
          tags: ['working'],
          on: {
            'ctx.updated': [
              { guard: 'isFailure', target: 'failing', actions: ['assignVariables', 'markFailing'] },
              { actions: ['assignVariables'] },
            ],
          },
        },
        failing: {
          description:
            'A step failed and no arc handled it: nothing new starts, claimed work may finish, but waits for nobody.',
          tags: ['failing'],
          on: {
            'ctx.updated': [
              { guard: 'isFailure', actions: ['assignVariables', 'markFailing'] },
              { actions: ['assignVariables'] },
            ],
            'command.completed': { guard: 'isParkingOpen', actions: ['closeCommand', 'decideAfterPark'] },
          },
        },
      },
    },
    completed: { type: 'final', description: 'All work ended; the result is fixed.', tags: ['ended'] },
    failed: { type: 'final', description: 'A step failed, or the engine could not go on.', tags: ['ended'] },
    cancelled: { type: 'final', description: 'An operator, a clean-up or a parent ended it.', tags: ['ended'] },
  },
});

/** The same folds, for `foldInPlace`. */
export const EXECUTION_FOLDS: Readonly<
  Record<string, FoldInPlace<ExecutionMachineContext, ExecutionMachineEvent> | undefined>
> = Object.fromEntries(
  Object.entries(FOLDS).map(([name, fold]) => [name, ({ run }, { log }) => fold(run, log)] as const),
);

export type ExecutionMachine = typeof executionMachine;
