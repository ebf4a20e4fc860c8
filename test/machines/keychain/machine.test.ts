import { expect, it, test } from 'vitest';
import { isoOf } from '../../../machines/command/instant.ts';
import type { KeychainEvent } from '../../../machines/keychain/events.ts';
import { type KeychainContext, keychainMachine } from '../../../machines/keychain/machine.ts';
import { fold, initialSnapshot } from '../../../machines/turn.ts';

const NOW = Date.UTC(2026, 10, 20, 10, 15);
const at = (seconds: number) => isoOf(NOW + seconds * 1000);

function after(...events: readonly KeychainEvent[]): { state: unknown; context: KeychainContext } {
  let snapshot = initialSnapshot(keychainMachine);
  for (const event of events) snapshot = fold(keychainMachine, snapshot, event).snapshot;
  return { state: snapshot.value, context: snapshot.context };
}

const stored = (ttl: number, autoRenew = false, type: 'entry.stored' | 'entry.renewed' = 'entry.stored') =>
  ({
    type,
    at: at(0),
    entry: { scope: 'global', credentialType: 'http', cacheType: 'token', expiresAt: at(ttl), autoRenew },
  }) satisfies KeychainEvent;
const read = (seconds: number): KeychainEvent => ({ type: 'entry.read', at: at(seconds) });
const granted = (seconds: number): KeychainEvent => ({
  type: 'entry.renewalGranted',
  at: at(seconds),
  until: at(seconds + 30),
});
const removed: KeychainEvent = { type: 'entry.removed', at: at(9), reason: 'deleted' };

test('the chart is JSON, and every state says what it is', () => {
  const config = JSON.parse(JSON.stringify(keychainMachine.config));
  expect(config.id).toBe('keychain');
  for (const state of Object.values(keychainMachine.states)) expect(state.description).toMatch(/\.$/);
});

it.each([
  ['nothing', [], 'absent'],
  ['a read of nothing', [read(0)], 'absent'],
  ['a store', [stored(60)], 'live'],
  ['a store with no lifetime', [stored(0)], 'expired'],
  ['a store in the past', [stored(-1)], 'expired'],
  ['a read in time', [stored(60), read(59.999)], 'live'],
  ['a read at the instant of expiry', [stored(60), read(60)], 'expired'],
  ['a store over an expired entry', [stored(0), stored(60, false, 'entry.renewed')], 'live'],
  ['a store over a live entry', [stored(60), stored(-60)], 'expired'],
  ['a removal of a live entry', [stored(60), removed], 'absent'],
  ['a removal of an expired entry', [stored(0), removed], 'absent'],
  ['a removal of nothing', [removed], 'absent'],
] as const)('after %s it is %s', (_what, events, state) => {
  expect(after(...events).state).toBe(state);
});

test('a read that is answered counts, one that is not changes nothing', () => {
  expect(after(stored(60), read(1), read(2)).context).toMatchObject({ accessCount: 2, accessedAt: at(2) });
  const expired = after(stored(60), read(1), read(61), read(62));
  expect(expired.context).toMatchObject({ accessCount: 1, accessedAt: at(1) });
});

test('a store begins to count anew and forgets a grant', () => {
  const { context } = after(stored(60, true), read(1), granted(2), stored(90, true, 'entry.renewed'));
  expect(context).toEqual({
    expiresAt: at(90),
    autoRenew: true,
    accessCount: 0,
    accessedAt: null,
    renewalUntil: null,
  });
});

test('one reader at a time may renew', () => {
  expect(after(stored(0, true), granted(1)).context.renewalUntil).toBe(at(31));
  expect(after(stored(0, true), granted(1), granted(30)).context.renewalUntil).toBe(at(31));
  expect(after(stored(0, true), granted(1), granted(31)).context.renewalUntil).toBe(at(61));
  expect(after(stored(60, false), granted(1)).context.renewalUntil).toBeNull();
});

test('its context never holds a secret', () => {
  expect(Object.keys(after(stored(60)).context)).toEqual([
    'expiresAt',
    'autoRenew',
    'accessCount',
    'accessedAt',
    'renewalUntil',
  ]);
});
