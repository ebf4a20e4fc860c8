/**
 * The life of a command as a chart (api 4.2). It moves on recorded facts only; who may claim is decided in claim.ts and
 * what is written follows from the facts. A parked command is RUNNING in its row; here it has a state of its own,
 * because nobody works on it and no worker can lose it.
 */
import { assertEvent, assign, setup } from 'xstate';
import { NO_CHILD } from './retry-wait.ts';

export interface CommandContext {
  /** Grants so far; the fencing token of the present claim. */
  readonly attempt: number;
  readonly workerId: string | null;
  /** Child execution a parked command waits for; 0: it waits for its next try. */
  readonly parkedOn: number | null;
  readonly republishCount: number;
}

export type CommandEvent =
  | { readonly type: 'command.claimed'; readonly attempt: number; readonly workerId: string }
  | { readonly type: 'command.republished' }
  | { readonly type: 'command.started' }
  | { readonly type: 'command.parked'; readonly childExecutionId: number }
  | { readonly type: 'command.completed' }
  | { readonly type: 'command.failed' }
  | { readonly type: 'command.cancelled' };

const chart = setup({
  // setup() reads these two only for their types.
  types: { context: {} as CommandContext, events: {} as CommandEvent },
  guards: {
    waitsForTime: ({ context }) => context.parkedOn === NO_CHILD,
  },
  actions: {
    takeClaim: assign(({ event }) => {
      assertEvent(event, 'command.claimed');
      return { attempt: event.attempt, workerId: event.workerId };
    }),
    waitForChild: assign(({ event }) => {
      assertEvent(event, 'command.parked');
      return { parkedOn: event.childExecutionId };
    }),
    endWait: assign({ parkedOn: null }),
    countRepublish: assign({ republishCount: ({ context }) => context.republishCount + 1 }),
  },
});

const ENDS = {
  'command.completed': { target: 'COMPLETED', description: 'the current attempt reported success' },
  'command.failed': { target: 'FAILED', description: 'the current attempt failed, or the attempts are used up' },
  'command.cancelled': { target: 'CANCELLED', description: 'the execution ended or is failing' },
} as const;

const REPUBLISHED = {
  'command.republished': { actions: 'countRepublish', description: 'announced again; nothing else changes' },
} as const;

export const commandMachine = chart.createMachine({
  id: 'command',
  description: 'One unit of work, from its issue by a decision to the one outcome that counts.',
  context: { attempt: 0, workerId: null, parkedOn: null, republishCount: 0 },
  initial: 'PENDING',
  states: {
    PENDING: {
      description: 'Issued, waiting for a worker of its pool.',
      tags: ['open', 'claimable'],
      on: {
        'command.claimed': { target: 'CLAIMED', actions: 'takeClaim', description: 'first grant' },
        ...REPUBLISHED,
        ...ENDS,
      },
    },
    CLAIMED: {
      description: 'Granted to a worker that has not shown yet that it works on it.',
      tags: ['open', 'held'],
      on: {
        'command.claimed': { target: 'CLAIMED', actions: 'takeClaim', description: 'granted anew to another worker' },
        'command.started': { target: 'RUNNING', description: 'the first report of the current attempt' },
        'command.parked': {
          target: 'PARKED',
          actions: 'waitForChild',
          description: 'waits for a child execution or its next try',
        },
        ...REPUBLISHED,
        ...ENDS,
      },
    },
    RUNNING: {
      description: 'A worker works on it and renews its hold with every heartbeat that names it.',
      tags: ['open', 'held'],
      on: {
        'command.claimed': { target: 'CLAIMED', actions: 'takeClaim', description: 'its worker was lost' },
        'command.parked': {
          target: 'PARKED',
          actions: 'waitForChild',
          description: 'waits for a child execution or its next try',
        },
        ...REPUBLISHED,
        ...ENDS,
      },
    },
    PARKED: {
      description: 'Waits for a child execution or for its next try; no worker is charged. Its row says RUNNING.',
      tags: ['open', 'parked'],
      exit: 'endWait',
      on: {
        'command.claimed': {
          guard: 'waitsForTime',
          target: 'CLAIMED',
          actions: 'takeClaim',
          description: 'its next try is due',
        },
        ...ENDS,
      },
    },
    COMPLETED: { type: 'final', description: 'Succeeded.', tags: ['terminal'] },
    FAILED: { type: 'final', description: 'Failed after its policy rules.', tags: ['terminal'] },
    CANCELLED: { type: 'final', description: 'Closed without an outcome.', tags: ['terminal'] },
  },
});
