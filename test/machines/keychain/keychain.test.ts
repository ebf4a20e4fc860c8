import { describe, expect, it, test } from 'vitest';
import { isoOf } from '../../../machines/command/instant.ts';
import { DEFAULT_TTL_SECONDS, lifetimeOf, readLifetime, TTL_MAX_SECONDS } from '../../../machines/keychain/expiry.ts';
import { isDue, type SeenEntry, secondsLeft } from '../../../machines/keychain/reply.ts';
import { KeychainRoot, unavailable } from '../../../machines/keychain/root.ts';
import { cacheKeyOf, readScope } from '../../../machines/keychain/scope.ts';

const NOW = Date.UTC(2026, 10, 20, 10, 15);

describe('a cache key', () => {
  const who = { name: 'billing', catalogId: 2003, executionId: 41007, rootExecutionId: 41000 };

  it.each([
    ['global', 'billing:2003:global'],
    ['local', 'billing:2003:41007'],
    ['shared', 'billing:2003:shared:41000'],
  ] as const)('of scope %s is %s', (scope, key) => {
    expect(cacheKeyOf({ ...who, scope })).toBe(key);
  });

  it.each(['local', 'shared'] as const)('of scope %s does not exist without an execution', (scope) => {
    const nobody = { ...who, executionId: null, rootExecutionId: null };
    expect(() => cacheKeyOf({ ...nobody, scope })).toThrow(RangeError);
  });

  test('has a scope of three; catalog is another word for global', () => {
    expect(['local', 'global', 'shared', 'catalog', 'Local', ''].map(readScope)).toEqual([
      'local',
      'global',
      'shared',
      'global',
      null,
      null,
    ]);
  });
});

describe('a lifetime', () => {
  const given = (scope: 'local' | 'global' | 'shared', ttlSeconds: number | null, expiresAt: string | null = null) =>
    lifetimeOf({ scope, ttlSeconds, expiresAt }, NOW);

  it.each([
    ['local', 3600],
    ['global', 86_400],
    ['shared', 86_400],
  ] as const)('of scope %s is %d s when nothing is said', (scope, seconds) => {
    expect(given(scope, null)).toEqual({ expiresAt: isoOf(NOW + seconds * 1000), ttlSeconds: seconds });
    expect(DEFAULT_TTL_SECONDS[scope]).toBe(seconds);
  });

  it.each([0, -1, -TTL_MAX_SECONDS, TTL_MAX_SECONDS])('of %d s ends where it says', (seconds) => {
    expect(given('global', seconds)).toEqual({ expiresAt: isoOf(NOW + seconds * 1000), ttlSeconds: seconds });
  });

  test('gives way to an instant, which may be over', () => {
    const past = isoOf(NOW - 1500);
    expect(given('local', 60, past)).toEqual({ expiresAt: past, ttlSeconds: -1 });
    expect(given('local', 60, isoOf(NOW + 90_999))).toMatchObject({ ttlSeconds: 90 });
  });

  it.each([
    [3600, 3600],
    ['3599', 3599],
    [0.5, 1],
    [1e300, TTL_MAX_SECONDS],
    ['', null],
    ['soon', null],
    [0, null],
    [-5, null],
    [Number.POSITIVE_INFINITY, null],
    [true, null],
    [null, null],
  ])('said as %j is %j', (said, seconds) => {
    expect(readLifetime(said)).toBe(seconds);
  });
});

describe('an entry that was seen', () => {
  const seen = (left: number, autoRenew = true): SeenEntry => ({
    credentialType: 'http',
    cacheType: 'token',
    scope: 'global',
    expiresAt: isoOf(NOW + left * 1000),
    autoRenew,
    at: isoOf(NOW),
    isLive: left > 0,
    renewalUntil: null,
  });

  test('has fractions of seconds left', () => {
    expect(secondsLeft(seen(1.25))).toBe(1.25);
  });

  it.each([
    [301, true, false],
    [300, true, false],
    [299, true, true],
    [-5, true, true],
    [-5, false, false],
  ])('with %d s left and auto_renew %s is due: %s', (left, autoRenew, due) => {
    expect(isDue(seen(left, autoRenew), 300)).toBe(due);
  });
});

describe('keychain in a template', () => {
  class Refused extends Error {}
  const root = new KeychainRoot(
    new Map([
      ['here', { available: true, data: { token: 't' } }],
      ['gone', { available: false, reason: 'expired' }],
    ]),
    (sentence) => new Refused(sentence),
  );

  test('shows the entries that are here', () => {
    expect(root.member('here')).toEqual({ token: 't' });
    expect(root.plain()).toEqual({ here: { token: 't' }, gone: {} });
  });

  it.each([
    ['gone', 'expired'],
    ['never', 'not_found'],
  ])('fails whoever needs something of %s', (name, reason) => {
    const entry = root.member(name);
    expect(unavailable(name, reason)).toBe(`keychain entry '${name}' is not available (${reason})`);
    // Only a Facade has these two.
    const facade = entry as KeychainRoot;
    expect(() => facade.member('token')).toThrow(new Refused(unavailable(name, reason)));
    expect(() => facade.plain()).toThrow(Refused);
  });
});
