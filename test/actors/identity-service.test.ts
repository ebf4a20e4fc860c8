import { createHash, timingSafeEqual } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { ACCESS_CHANGED, createIdentityService } from '../../actors/access-service.ts';
import type { BusTopic } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';

const digest = (text: string) => createHash('sha256').update(text).digest();
const SESSION = 's'.repeat(43);
const TOKEN = `cb_worker_${'t'.repeat(43)}`;

function world() {
  let now = 1_000_000;
  let sessionIsAlive = true;
  let tokenIsAlive = true;
  const asked: string[] = [];
  const listeners: ((topic: BusTopic, hints: readonly JsonMap[]) => void)[] = [];
  const identities = createIdentityService({
    sessions: {
      validate: async (token) => {
        asked.push('session');
        const found = { subject: 'user-7', email: null, name: 'U', roles: ['viewer', 'operator'], expiresAt: 'then' };
        return sessionIsAlive && token === SESSION ? found : null;
      },
    },
    serviceToken: async () => {
      asked.push('token');
      return tokenIsAlive ? { name: 'w', role: 'worker', expiresAt: null } : null;
    },
    staticTokens: [{ name: 'fixed', role: 'viewer', digest: digest('anything at all') }],
    internalToken: 'inside',
    bus: {
      subscribe: (listener) => {
        listeners.push(listener);
        return () => {};
      },
    },
    clock: { now: () => now },
    digest,
    isSame: timingSafeEqual,
  });
  return {
    identities,
    asked,
    pass: (ms: number) => {
      now += ms;
    },
    end: () => {
      sessionIsAlive = false;
      tokenIsAlive = false;
    },
    hear: () => {
      for (const listener of listeners) listener('control', [{ action: ACCESS_CHANGED }]);
    },
  };
}

describe('whose a token is', () => {
  test('the internal one, a configured one, a service token and a session', async () => {
    const { identities } = world();
    expect(await identities.identify('inside')).toMatchObject({ actor: 'internal', role: 'admin' });
    expect(await identities.identify('anything at all')).toMatchObject({ actor: 'fixed', role: 'viewer' });
    expect(await identities.identify(TOKEN)).toMatchObject({ actor: 'w', role: 'worker' });
    expect(await identities.identify(SESSION)).toMatchObject({ actor: 'user-7', role: 'operator', displayName: 'U' });
  });

  test('what has no form of a token is nobody’s, and costs no look-up', async () => {
    const { identities, asked } = world();
    for (const text of [
      '',
      'x',
      'cb_root_'.padEnd(51, 'a'),
      `${SESSION}=`,
      'y'.repeat(600),
      `cb_worker_${'t'.repeat(42)}`,
    ]) {
      expect(await identities.identify(text)).toBeNull();
    }
    expect(asked).toEqual([]);
  });

  test('is looked up once for a burst, and again within a second', async () => {
    const { identities, asked, pass, end } = world();
    await Promise.all(Array.from({ length: 50 }, () => identities.identify(TOKEN)));
    pass(800);
    await identities.identify(TOKEN);
    expect(asked).toEqual(['token']);
    end();
    pass(200);
    expect(await identities.identify(TOKEN)).toBeNull();
  });

  test('a revocation told by the bus counts at once', async () => {
    const { identities, end, hear } = world();
    let told = 0;
    identities.onRevoked(() => told++);
    expect(await identities.identify(SESSION)).not.toBeNull();
    end();
    hear();
    expect(told).toBe(1);
    expect(await identities.identify(SESSION)).toBeNull();
  });

  test('a look-up under way while access ended does not bring it back', async () => {
    const { identities, end, hear } = world();
    const before = identities.identify(SESSION);
    end();
    hear();
    await before;
    expect(await identities.identify(SESSION)).toBeNull();
  });

  test('no is never believed: a token made a moment ago works', async () => {
    const { identities, asked } = world();
    await identities.identify('z'.repeat(43));
    await identities.identify('z'.repeat(43));
    expect(asked).toHaveLength(2);
  });
});
