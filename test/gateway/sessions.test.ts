import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { createStoredSessions } from '../../src/gateway/session.ts';

const TOKEN = 's'.repeat(43);

function world() {
  let now = 1_000_000;
  let isAlive = true;
  let isHeard = false;
  let asked = 0;
  let answering = Promise.resolve();
  const listeners: (() => void)[] = [];
  const sessions = createStoredSessions({
    cookieName: 'callboard_session',
    now: () => now,
    changes: { isHeard: () => isHeard, onChange: (listener) => listeners.push(listener) },
    store: {
      create: () => Promise.reject(new Error('not part of this test')),
      checkAccess: () => Promise.reject(new Error('not part of this test')),
      close: async () => {},
      revoke: async () => {
        isAlive = false;
      },
      validate: async () => {
        asked++;
        const user = { userId: 'user-7', email: null, displayName: null, roles: ['viewer'] };
        const found = isAlive ? { user, expiresAt: new Date(now + 3_600_000).toISOString() } : null;
        await answering;
        return found;
      },
    },
  });
  const request = { headers: { authorization: `Bearer ${TOKEN}` } } as IncomingMessage;
  return {
    use: () =>
      sessions.of(request).then(
        () => true,
        () => false,
      ),
    asked: () => asked,
    pass: (ms: number) => {
      now += ms;
    },
    hear: (yes: boolean) => {
      isHeard = yes;
    },
    end: () => {
      isAlive = false;
    },
    change: () => {
      for (const listener of listeners) listener();
    },
    holdAnswers: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      answering = promise;
      return resolve;
    },
  };
}

test('GW-05: a session that ended elsewhere is over within a second where the server cannot tell', async () => {
  const { use, asked, pass, end } = world();
  expect([await use(), await use(), asked()]).toEqual([true, true, 1]);
  end();
  pass(999);
  expect(await use()).toBe(false);
});

test('an answer counts for 30 seconds where the server would tell, and no longer', async () => {
  const { use, asked, pass, hear } = world();
  hear(true);
  await use();
  pass(29_000);
  expect([await use(), asked()]).toEqual([true, 1]);
  pass(1_001);
  expect([await use(), asked()]).toEqual([true, 2]);
});

test('GW-05: what the server tells counts at once, also for an answer that was under way', async () => {
  const { use, hear, end, change, holdAnswers } = world();
  hear(true);
  const release = holdAnswers();
  const first = use();
  end();
  change();
  release();
  await first;
  expect(await use()).toBe(false);
});
