import { describe, expect, it, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { createKeychainService } from '../../actors/keychain-service.ts';
import type { KeychainStore } from '../../actors/keychain-store.ts';
import { createMemoryKeychain } from '../../actors/memory/memory-keychain.ts';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import { createStepClock } from '../../actors/memory/step-clock.ts';
import type { Log } from '../../actors/ports.ts';
import type { KeychainDraft } from '../../actors/services.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { quiet } from '../support/postgres.ts';
import { plainVault } from './plain-vault.ts';

const RENEW = {
  endpoint: 'https://id.test/token',
  method: 'POST',
  headers: { authorization: 'Basic canary-header' },
  data: { client_secret: 'canary-client' },
  tokenField: 'access_token',
  ttlField: 'expires_in',
};

function world(log: Log = quiet) {
  const clock = createStepClock();
  const counted: [string, JsonMap][] = [];
  const store = createMemoryKeychain({ clock, hasCatalogEntry: (id) => id === 2003, execution: async () => null });
  const touches: number[] = [];
  const counting: KeychainStore = {
    ...store,
    touch: async (touch) => {
      touches.push(touch.reads);
      return store.touch(touch);
    },
  };
  const keychain = createKeychainService({
    store: counting,
    vault: plainVault,
    ids: createSeededIds(),
    clock,
    caller: () => OPEN_CALLER,
    log,
    meter: { count: (name, labels = {}) => counted.push([name, labels]), observe() {}, gauge() {} },
    refreshSeconds: 300,
  });
  const put = (more: Partial<KeychainDraft> = {}) => keychain.store({ ...DRAFT, ...more });
  const read = (claimRenewal = false) => keychain.read({ ...WHO, claimRenewal, workerId: 'worker-7' });
  return { clock, store, keychain, touches, counted, put, read };
}

const WHO = { catalogId: 2003, name: 'billing', scope: 'global', executionId: null } as const;
const DRAFT: KeychainDraft = {
  ...WHO,
  tokenData: { access_token: 'canary-token' },
  credentialType: 'bearer',
  cacheType: 'token',
  expiresAt: null,
  ttlSeconds: 600,
  autoRenew: false,
  renewConfig: null,
  schema: null,
};

describe('a read', () => {
  test('of a live entry is answered with its data and counted in its own answer', async () => {
    const { put, read, counted } = world();
    await put();
    expect(await read()).toMatchObject({ status: 'success', data: { access_token: 'canary-token' }, accessCount: 1 });
    expect(await read()).toMatchObject({ accessCount: 2, renewConfig: null, renewal: null });
    expect(counted).toEqual([
      ['svc_keychain_reads_total', { result: 'success' }],
      ['svc_keychain_reads_total', { result: 'success' }],
    ]);
  });

  test('of nothing, and of an expired entry, changes nothing and shows no data', async () => {
    const { put, read, clock, keychain, store } = world();
    expect(await read()).toEqual({ status: 'not_found', cacheKey: 'billing:2003:global' });
    await put({ ttlSeconds: 1 });
    clock.advance(1000);
    const audits = store.audits.length;
    const reading = await read();
    expect(reading).toMatchObject({ status: 'expired', renewConfig: null });
    expect(JSON.stringify(reading)).not.toContain('canary');
    expect((await keychain.list(2003))[0]).toMatchObject({ accessCount: 0, expired: true });
    expect(store.audits).toHaveLength(audits);
  });

  test('at the instant of expiry is no success', async () => {
    const { put, read, clock } = world();
    await put({ ttlSeconds: 1 });
    clock.advance(999);
    expect((await read()).status).toBe('success');
    clock.advance(1);
    expect((await read()).status).toBe('expired');
  });

  test('that arrives with others goes with them, and each has a number of its own', async () => {
    const { put, read, touches, keychain } = world();
    await put();
    const readings = await Promise.all(Array.from({ length: 64 }, () => read()));
    const counts = readings.map((reading) => (reading.status === 'success' ? reading.accessCount : 0));
    expect(counts.sort((a, b) => a - b)).toEqual(Array.from({ length: 64 }, (_, index) => index + 1));
    expect(touches).toEqual([1, 63]);
    expect((await keychain.list(2003))[0]).toMatchObject({ accessCount: 64 });
  });

  test('fails with the others of its statement, and the next one is served', async () => {
    const { store, put } = world();
    await put();
    let isAway = true;
    const failing: KeychainStore = {
      ...store,
      touch: (touch) => (isAway ? Promise.reject(new Error('away')) : store.touch(touch)),
    };
    const broken = createKeychainService({
      store: failing,
      vault: plainVault,
      ids: createSeededIds(),
      clock: createStepClock(),
      caller: () => OPEN_CALLER,
      log: quiet,
      meter: { count() {}, observe() {}, gauge() {} },
      refreshSeconds: 300,
    });
    const ask = () => broken.read({ ...WHO, claimRenewal: false, workerId: null });
    expect((await Promise.allSettled([ask(), ask(), ask()])).map((each) => each.status)).toEqual(
      Array.from({ length: 3 }, () => 'rejected'),
    );
    isAway = false;
    expect((await ask()).status).toBe('success');
  });

  test('of data that does not fit its schema is a warning and an answer', async () => {
    const lines: [string, unknown][] = [];
    const { put, read, keychain } = world({ ...quiet, warn: (message, fields) => lines.push([message, fields]) });
    await put({ schema: { required: ['access_token'] }, autoRenew: true, renewConfig: RENEW, ttlSeconds: 0 });
    await read(true);
    await keychain.store({ ...DRAFT, tokenData: { other: 'canary-token' } });
    expect(await read()).toMatchObject({ status: 'success' });
    expect(lines).toEqual([
      [
        'A keychain entry does not fit its schema',
        {
          keychain_name: 'billing',
          cache_key: 'billing:2003:global',
          errors: ['Missing required field: access_token'],
        },
      ],
    ]);
  });
});

describe('renewal', () => {
  test('is granted to exactly one of a thousand readers, and to one again after its time', async () => {
    const { put, read, clock, counted } = world();
    await put({ autoRenew: true, renewConfig: RENEW, ttlSeconds: 0 });
    const ask = async () => {
      const readings = await Promise.all(Array.from({ length: 1000 }, () => read(true)));
      return readings.filter((each) => each.status === 'expired' && each.renewal?.granted === true).length;
    };
    expect(await ask()).toBe(1);
    expect(await ask()).toBe(0);
    clock.advance(30_000);
    expect(await ask()).toBe(1);
    expect(counted.filter(([, labels]) => labels['granted'] === 'true')).toHaveLength(2);
    expect(counted.filter(([, labels]) => labels['granted'] === 'false')).toHaveLength(2998);
  });

  test('is offered while the entry lives and is near its end, with the request only for the one who renews', async () => {
    const { put, read } = world();
    await put({ autoRenew: true, renewConfig: RENEW, ttlSeconds: 299 });
    expect(await read()).toMatchObject({ status: 'success', renewal: null, renewConfig: null });
    expect(await read(true)).toMatchObject({ status: 'success', renewal: { granted: true }, renewConfig: RENEW });
    expect(await read(true)).toMatchObject({ status: 'success', renewal: { granted: false }, renewConfig: null });
  });

  it.each([
    ['has time left', { ttlSeconds: 301, autoRenew: true, renewConfig: RENEW }],
    ['does not renew itself', { ttlSeconds: 1 }],
  ])('is not offered where the entry %s', async (_what, more) => {
    const { put, read } = world();
    await put(more);
    expect(await read(true)).toMatchObject({ renewal: null });
  });

  test('shows the request of an expired entry to every reader', async () => {
    const { put, read } = world();
    await put({ autoRenew: true, renewConfig: RENEW, ttlSeconds: -5 });
    expect(await read()).toMatchObject({ status: 'expired', renewConfig: RENEW, renewal: null });
  });

  test('keeps owner and schema, and is told from a store in the log', async () => {
    const { put, store, keychain } = world();
    const owned = { scope: 'shared', executionId: 41007 } as const;
    await put({ ...owned, schema: { required: ['access_token'] }, autoRenew: true, renewConfig: RENEW, ttlSeconds: 0 });
    await keychain.read({ ...WHO, ...owned, claimRenewal: true, workerId: 'w' });
    await put({ ...owned, autoRenew: true, renewConfig: RENEW });
    expect(await store.find('billing:2003:shared:41007')).toMatchObject({
      executionId: 41007,
      schema: { required: ['access_token'] },
      isLive: true,
    });
    await put(owned);
    expect(store.events.map((event) => [event.seq, event.type])).toEqual([
      [1, 'entry.stored'],
      [2, 'entry.renewed'],
      [3, 'entry.stored'],
    ]);
    expect((await store.find('billing:2003:shared:41007'))?.schema).toBeNull();
  });
});

describe('a store', () => {
  it.each([
    [0, 'expired'],
    [-7, 'expired'],
    [320_000_000, 'success'],
    [1, 'success'],
  ])('with a lifetime of %d s is %s', async (ttlSeconds, status) => {
    const { put, read } = world();
    expect(await put({ ttlSeconds })).toMatchObject({ ttlSeconds });
    expect((await read()).status).toBe(status);
  });

  test('may lie in the past, and its instant wins', async () => {
    const { put, read } = world();
    const expiresAt = '2020-01-01T00:00:00.000Z';
    expect(await put({ expiresAt, ttlSeconds: 60 })).toMatchObject({ expiresAt, ttlSeconds: expect.any(Number) });
    expect((await read()).status).toBe('expired');
  });

  test('that breaks its schema is refused with the sentences, and nothing is kept', async () => {
    const { put, read, store } = world();
    const refused = put({ tokenData: { n: 'x', odd: 1 }, schema: { fields: ['n'], types: { n: 'integer' } } });
    const errors = ["Field 'n' must be integer, got string", 'Unexpected fields: odd'];
    await expect(refused).rejects.toMatchObject({
      code: 'schema_validation_failed',
      message: `Token validation failed: ${errors.join('; ')}`,
      data: { errors },
    });
    await expect(put({ schema: { types: { a: 'uuid' } } })).rejects.toMatchObject({ code: 'validation_error' });
    expect((await read()).status).toBe('not_found');
    expect(store.events).toEqual([]);
  });

  test('needs a catalog entry', async () => {
    const { put } = world();
    await expect(put({ catalogId: 7 })).rejects.toMatchObject({
      code: 'not_found',
      message: 'Catalog entry not found',
    });
  });

  test('leaves no secret in audit and log', async () => {
    const { put, read, keychain, store } = world();
    await put({ autoRenew: true, renewConfig: RENEW });
    await read(true);
    await keychain.remove(WHO);
    expect(JSON.stringify([store.audits, store.events])).not.toContain('canary');
    expect(store.audits.map((row) => row.action)).toEqual(['keychain.write', 'keychain.reveal', 'keychain.delete']);
    expect(store.events.map((row) => row.type)).toEqual(['entry.stored', 'entry.removed']);
  });
});

test('a removal says whether something was there', async () => {
  const { put, keychain, read } = world();
  await put();
  expect(await keychain.remove(WHO)).toBe(true);
  expect(await keychain.remove(WHO)).toBe(false);
  expect((await read()).status).toBe('not_found');
});

test('entries that expired long ago are swept, those that renew themselves much later', async () => {
  const { put, keychain, clock, store } = world();
  await put({ name: 'plain', ttlSeconds: 60 });
  await put({ name: 'renewing', ttlSeconds: 60, autoRenew: true, renewConfig: RENEW });
  clock.advance(60_000 + 86_400_000 - 1);
  expect(await keychain.sweep(10)).toBe(0);
  clock.advance(1);
  expect(await keychain.sweep(10)).toBe(1);
  clock.advance(29 * 86_400_000);
  expect(await keychain.sweep(10)).toBe(1);
  expect(store.events.filter((event) => event.type === 'entry.removed').map((event) => event.context)).toEqual([
    { scope: 'global', reason: 'expired' },
    { scope: 'global', reason: 'expired' },
  ] satisfies Json);
});
