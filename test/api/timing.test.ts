/** SE-13: how long a wrong token takes to be refused tells nothing of the right one (dudect's test: Welch's t over two kinds of guesses). */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { expect, test } from 'vitest';
import { createTokenService } from '../../actors/token-service.ts';
import { isSameText } from '../../src/gateway/session.ts';
import { internalTokenCheck } from '../../src/host/internal-guard.ts';

const SAMPLES = 20_000;
const CALLS = 4;
const LIMIT = 10;
/** Of a long secret, so that a comparison that stops early would show. */
const SECRET = randomBytes(3_000).toString('base64url');

/** A guess that shares nothing with the secret, and one that differs in its last sign only; equally long. */
const NOTHING_RIGHT = `${SECRET.startsWith('A') ? 'B' : 'A'}${SECRET.slice(1)}`;
const ALMOST_RIGHT = `${SECRET.slice(0, -1)}${SECRET.endsWith('A') ? 'B' : 'A'}`;

/** The t of two kinds of arguments, measured in a random order; what the machine was busy with is cut off above. */
function welch(refuse: (guess: string) => boolean): number {
  const kinds = [NOTHING_RIGHT, ALMOST_RIGHT] as const;
  const times: [number[], number[]] = [[], []];
  const order = randomBytes(SAMPLES);
  for (const byte of order) {
    const kind = byte & 1 ? 1 : 0;
    const guess = kinds[kind];
    const began = process.hrtime.bigint();
    for (let call = 0; call < CALLS; call++) refuse(guess);
    times[kind].push(Number(process.hrtime.bigint() - began));
  }
  const all = [...times[0], ...times[1]].sort((a, b) => a - b);
  const most = all[Math.floor(all.length * 0.9)] ?? 0;
  const [left, right] = times.map((each) => momentsOf(each.filter((time) => time <= most)));
  if (left === undefined || right === undefined) throw new Error('there are two kinds');
  return Math.abs(left.mean - right.mean) / Math.sqrt(left.variance / left.count + right.variance / right.count);
}

function momentsOf(values: readonly number[]) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  return { mean, variance, count: values.length };
}

/** A leak shows each time; a busy neighbour does not. */
function leastOf(refuse: (guess: string) => boolean): number {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 4 && least >= LIMIT; look++) least = Math.min(least, welch(refuse));
  return least;
}

test('SE-13: the test sees a comparison that stops at the first difference', { timeout: 60_000 }, () => {
  const leaks = (guess: string): boolean => {
    for (let at = 0; at < SECRET.length; at++) if (SECRET.charCodeAt(at) !== guess.charCodeAt(at)) return false;
    return true;
  };
  expect(leastOf(leaks)).toBeGreaterThan(LIMIT);
});

test('SE-13: the internal token is compared in constant time', { timeout: 60_000 }, () => {
  const check = internalTokenCheck(SECRET);
  if (check === null) throw new Error('a token is set');
  expect([check(SECRET), check(NOTHING_RIGHT), check(ALMOST_RIGHT), check(SECRET.slice(1)), check('')]).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
  expect(leastOf(check)).toBeLessThan(LIMIT);
});

test('SE-13: so are the tokens of the gateway', { timeout: 60_000 }, () => {
  expect(isSameText(SECRET, SECRET)).toBe(true);
  expect(leastOf((guess) => isSameText(guess, SECRET))).toBeLessThan(LIMIT);
});

test('SE-13: a service token is found by its digest, and the digests are compared in constant time', async () => {
  const compared: number[] = [];
  const digest = (text: string) => createHash('sha256').update(text).digest();
  const unused = () => Promise.reject(new Error('not part of this test'));
  const tokens = createTokenService({
    store: {
      list: unused,
      insert: unused,
      revoke: unused,
      // A store that answers with a row of another digest, as a broken index could.
      find: async () => ({ name: 'ci', role: 'admin', expiresAt: null, tokenHash: digest('another') }),
    },
    ids: { next: () => 1, reserve: async () => {} },
    bus: { publish: () => {} },
    caller: () => ({ actor: 'open', role: 'admin', requestId: null, ip: null }),
    newSecret: () => '',
    digest,
    isSame(left, right) {
      compared.push(left.length, right.length);
      return timingSafeEqual(left, right);
    },
  });
  expect(await tokens.find(digest('one'))).toBeNull();
  expect(await tokens.find(digest('another'))).toMatchObject({ name: 'ci' });
  expect(compared).toEqual([32, 32, 32, 32]);
});
