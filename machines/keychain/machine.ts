/**
 * The life of a keychain entry as a chart (api 4.4). Time is data: an entry expires when a read says so, at the instant
 * the read carries. Its context holds instants and counts, never token data.
 */
import { assertEvent, assign, setup } from 'xstate';
import { instantOf } from '../command/instant.ts';
import type { KeychainEvent } from './events.ts';

export interface KeychainContext {
  /** ISO 8601 UTC; null while absent. */
  readonly expiresAt: string | null;
  readonly autoRenew: boolean;
  /** Reads that were answered with data since the entry was stored. */
  readonly accessCount: number;
  readonly accessedAt: string | null;
  /** Until then one reader is renewing. */
  readonly renewalUntil: string | null;
}

const ABSENT: KeychainContext = {
  expiresAt: null,
  autoRenew: false,
  accessCount: 0,
  accessedAt: null,
  renewalUntil: null,
};

const chart = setup({
  // setup() reads these two only for their types.
  types: { context: {} as KeychainContext, events: {} as KeychainEvent },
  actions: {
    replaceEntry: assign(({ event }) => {
      assertEvent(event, ['entry.stored', 'entry.renewed']);
      return { ...ABSENT, expiresAt: event.entry.expiresAt, autoRenew: event.entry.autoRenew };
    }),
    countRead: assign(({ context, event }) => {
      assertEvent(event, 'entry.read');
      return { accessCount: context.accessCount + 1, accessedAt: event.at };
    }),
    grantRenewal: assign(({ event }) => {
      assertEvent(event, 'entry.renewalGranted');
      return { renewalUntil: event.until };
    }),
    forgetEntry: assign(ABSENT),
  },
  guards: {
    isStoredLive: ({ event }) => {
      assertEvent(event, ['entry.stored', 'entry.renewed']);
      return isAhead(event.entry.expiresAt, event.at);
    },
    isStillLive: ({ context, event }) => context.expiresAt !== null && isAhead(context.expiresAt, event.at),
    mayRenew: ({ context, event }) =>
      context.autoRenew && (context.renewalUntil === null || !isAhead(context.renewalUntil, event.at)),
  },
});

const STORED = [
  { guard: 'isStoredLive', target: 'live', actions: 'replaceEntry', description: 'stored with its own expiry' },
  { target: 'expired', actions: 'replaceEntry', description: 'stored with a lifetime that is over already' },
] as const;

const RENEWAL = {
  'entry.renewalGranted': { guard: 'mayRenew', actions: 'grantRenewal', description: 'one reader at a time may renew' },
} as const;

const REMOVED = {
  target: 'absent',
  actions: 'forgetEntry',
  description: 'deleted, owner ended, root ended, or long expired',
} as const;

export const keychainMachine = chart.createMachine({
  id: 'keychain',
  description: 'One cached token or secret, from the store that made it to its removal.',
  context: ABSENT,
  initial: 'absent',
  states: {
    absent: {
      description: 'There is no such entry; a read answers not_found.',
      tags: ['readable'],
      on: { 'entry.stored': [...STORED], 'entry.renewed': [...STORED] },
    },
    live: {
      description: 'A read is answered with data and counted.',
      tags: ['readable', 'stored'],
      on: {
        'entry.stored': [...STORED],
        'entry.renewed': [...STORED],
        'entry.read': [
          { guard: 'isStillLive', actions: 'countRead', description: 'answered with data' },
          { target: 'expired', description: 'its time is over; nothing is counted' },
        ],
        ...RENEWAL,
        'entry.removed': REMOVED,
      },
    },
    expired: {
      description: 'A read answers expired, with the renewal request of an entry that renews itself.',
      tags: ['readable', 'stored'],
      on: { 'entry.stored': [...STORED], 'entry.renewed': [...STORED], ...RENEWAL, 'entry.removed': REMOVED },
    },
  },
});

export type KeychainMachine = typeof keychainMachine;

function isAhead(instant: string, of: string): boolean {
  return instantOf(instant) > instantOf(of);
}
