import { expect, test } from 'vitest';
import { type EntryRecord, foldEntry } from '../../../machines/keychain/history.ts';

const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`;
const STORED: EntryRecord = {
  type: 'entry.stored',
  at: at(0),
  context: { scope: 'global', credential_type: 'http', cache_type: 'token', expires_at: at(30), auto_renew: true },
};
const GRANTED: EntryRecord = { type: 'entry.renewalGranted', at: at(10), context: { until: at(20) } };

function seen(second: number, ...records: readonly EntryRecord[]): unknown[] {
  const { value, context } = foldEntry(records, at(second));
  return [value, context.expiresAt, context.autoRenew, context.renewalUntil];
}

test('an entry is folded from its log, and shows as expired once its time is over', () => {
  expect(seen(1)).toEqual(['absent', null, false, null]);
  expect(seen(1, STORED)).toEqual(['live', at(30), true, null]);
  expect(seen(40, STORED)).toEqual(['expired', at(30), true, null]);
});

test('looking at an entry is no read of it', () => {
  expect(foldEntry([STORED], at(1)).context.accessCount).toBe(0);
});

test('a grant to renew shows until the entry is renewed', () => {
  expect(seen(12, STORED, GRANTED)).toEqual(['live', at(30), true, at(20)]);
  const renewed = { ...STORED, type: 'entry.renewed', context: { ...STORED.context, expires_at: at(50) } };
  expect(seen(40, STORED, GRANTED, renewed)).toEqual(['live', at(50), true, null]);
});

test('a removal without a reason removes as well', () => {
  expect(seen(5, STORED, { type: 'entry.removed', at: at(4), context: {} })[0]).toBe('absent');
});

test('a removed entry is absent, and rows of a type nobody knows say nothing', () => {
  expect(seen(5, STORED, { type: 'entry.removed', at: at(4), context: { reason: 'deleted' } })[0]).toBe('absent');
  expect(seen(5, STORED, { type: 'entry.praised', at: at(4), context: {} })[0]).toBe('live');
});
