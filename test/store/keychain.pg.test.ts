import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { type AuditRow, OPEN_CALLER } from '../../actors/audit.ts';
import type { KeychainRow, KeychainStore, Touch } from '../../actors/keychain-store.ts';
import type { Store } from '../../actors/ports.ts';
import { createKeychainStore } from '../../src/store/keychain.ts';
import { createStore } from '../../src/store/store.ts';
import { event, execution, flush, head } from '../conformance/rows.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { queryRows } from '../support/postgres.ts';

let opened: TestDatabase;
let store: KeychainStore;
let engine: Store;
let lastId = 60_000;
const nextId = () => ++lastId;

beforeAll(async () => {
  opened = await openTestDatabase({ waitingMax: 200 });
  store = createKeychainStore(opened.database.reads);
  engine = createStore(opened.database);
});
afterAll(() => opened?.close());

const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();

function rowOf(more: Partial<KeychainRow> = {}): KeychainRow {
  const name = more.name ?? `entry${nextId()}`;
  return {
    cacheKey: `${name}:${opened.catalogId}:global`,
    name,
    catalogId: opened.catalogId,
    credentialType: 'bearer',
    cacheType: 'token',
    scope: 'global',
    executionId: null,
    parentExecutionId: null,
    rootExecutionId: null,
    sealed: 'cb1.sealed',
    schema: null,
    expiresAt: inSeconds(600),
    autoRenew: false,
    renewConfig: null,
    ...more,
  };
}

async function put(more: Partial<KeychainRow> = {}): Promise<KeychainRow> {
  const row = rowOf(more);
  await store.transaction(async (tx) => {
    await tx.claim(row.cacheKey);
    await tx.put(row);
    await tx.append(row.cacheKey, 'entry.stored', { scope: row.scope });
  });
  return row;
}

function auditRow(): AuditRow {
  return { ...OPEN_CALLER, auditId: nextId(), action: 'keychain.reveal', target: 'k', outcome: 'ok', detail: { n: 1 } };
}

const touch = (cacheKey: string, more: Partial<Touch> = {}) =>
  store.touch({ cacheKey, reads: 1, renewer: null, refreshSeconds: 300, grantSeconds: 30, audit: [], ...more });

describe('a touch', () => {
  test('counts, moves the time and returns the row in one statement', async () => {
    const row = await put({ schema: { required: ['a'] }, renewConfig: null });
    const first = await touch(row.cacheKey);
    expect(first).toMatchObject({ ...row, isLive: true, accessCount: 1, granted: false, renewalUntil: null });
    const second = await touch(row.cacheKey, { reads: 3 });
    expect(second?.accessCount).toBe(4);
    expect(Date.parse(second?.accessedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(first?.accessedAt ?? ''));
  });

  test('of 64 at the same time counts 64', async () => {
    const { cacheKey } = await put();
    const touched = await Promise.all(Array.from({ length: 64 }, () => touch(cacheKey)));
    const counts = touched.map((row) => row?.accessCount ?? 0).sort((a, b) => a - b);
    expect(counts).toEqual(Array.from({ length: 64 }, (_, index) => index + 1));
    expect((await store.find(cacheKey))?.accessCount).toBe(64);
  });

  test('of an expired entry, and of none, changes nothing', async () => {
    const { cacheKey } = await put({ expiresAt: inSeconds(-1) });
    const before = await queryRows(opened.url, 'select xmin, k.* from core.keychain as k where cache_key = $1', [
      cacheKey,
    ]);
    expect(await touch(cacheKey, { audit: [auditRow()] })).toMatchObject({
      isLive: false,
      accessCount: 0,
    });
    const after = await queryRows(opened.url, 'select xmin, k.* from core.keychain as k where cache_key = $1', [
      cacheKey,
    ]);
    expect(after).toEqual(before);
    expect(await touch('nothing:1:global')).toBeNull();
  });

  test('writes its audit rows where something secret is shown, and only there', async () => {
    const count = async () =>
      (await queryRows(opened.url, `select from core.audit where action = 'keychain.reveal'`)).length;
    const start = await count();
    await touch((await put()).cacheKey, { reads: 2, audit: [auditRow(), auditRow()] });
    await touch((await put({ expiresAt: inSeconds(-1), autoRenew: true })).cacheKey, { audit: [auditRow()] });
    await touch((await put({ expiresAt: inSeconds(-1) })).cacheKey, { audit: [auditRow()] });
    expect((await count()) - start).toBe(3);
  });

  test('needs no audit when it has no rows for it', async () => {
    const { cacheKey } = await put();
    await queryRows(opened.url, 'alter table core.audit rename to audit_away');
    try {
      await expect(touch(cacheKey, { audit: [auditRow()] })).rejects.toMatchObject({ code: '42P01' });
      expect(await touch(cacheKey)).toMatchObject({ isLive: true, accessCount: 1 });
    } finally {
      await queryRows(opened.url, 'alter table core.audit_away rename to audit');
    }
  });

  test('grants one renewal at a time, however many ask at once', async () => {
    const { cacheKey } = await put({ expiresAt: inSeconds(-1), autoRenew: true });
    const ask = () => touch(cacheKey, { renewer: { workerId: 'worker-7' } });
    const asked = await Promise.all(Array.from({ length: 24 }, ask));
    expect(asked.filter((row) => row?.granted)).toHaveLength(1);
    expect(new Set(asked.map((row) => row?.renewalUntil)).size).toBe(1);
    await queryRows(opened.url, `update core.keychain set renewal_until = now() where cache_key = $1`, [cacheKey]);
    expect(await ask()).toMatchObject({ granted: true });
    expect(
      await queryRows(opened.url, 'select renewal_by from core.keychain where cache_key = $1', [cacheKey]),
    ).toEqual([{ renewal_by: 'worker-7' }]);
  });

  it.each([
    ['has time left', { autoRenew: true, expiresAt: 400 }, false],
    ['is near its end', { autoRenew: true, expiresAt: 200 }, true],
    ['does not renew itself', { autoRenew: false, expiresAt: 200 }, false],
  ])('grants the renewal of an entry that %s: %#', async (_what, { autoRenew, expiresAt }, granted) => {
    const { cacheKey } = await put({ autoRenew, expiresAt: inSeconds(expiresAt) });
    expect(await touch(cacheKey, { renewer: { workerId: null } })).toMatchObject({ granted, isLive: true });
  });
});

test('a store replaces the row whole, under the lock of its key', async () => {
  const row = await put({ autoRenew: true, expiresAt: inSeconds(-1) });
  await touch(row.cacheKey, { renewer: { workerId: 'w' } });
  await Promise.all(Array.from({ length: 5 }, () => put({ ...row, expiresAt: inSeconds(60), sealed: 'cb1.other' })));
  expect(await store.find(row.cacheKey)).toMatchObject({
    sealed: 'cb1.other',
    accessCount: 0,
    renewalUntil: null,
    isLive: true,
  });
  const log = await store.log({ catalogId: opened.catalogId, name: row.name, after: null, limit: 10 });
  expect(log.map((each) => each.seq)).toEqual([1, 2, 3, 4, 5, 6]);
});

test('the log goes on after the row that was seen', async () => {
  const row = await put();
  await put(row);
  const page = (after: { cacheKey: string; seq: number } | null, limit: number) =>
    store.log({ catalogId: opened.catalogId, name: row.name, after, limit });
  const [first] = await page(null, 1);
  expect(first).toMatchObject({ cacheKey: row.cacheKey, seq: 1, type: 'entry.stored', context: { scope: 'global' } });
  expect((await page(first ?? null, 5)).map((each) => each.seq)).toEqual([2]);
  expect(await store.log({ catalogId: 1, name: null, after: null, limit: 5 })).toEqual([]);
});

describe('the end of an execution', () => {
  const running = async (more: Parameters<typeof execution>[2] = {}) => {
    const id = nextId();
    await engine.commit(
      flush({
        started: [execution(id, opened.catalogId, { path: `k/${id}`, ...more })],
        events: [event(id, opened.catalogId, 1)],
      }),
    );
    return id;
  };
  const ending = (id: number) =>
    flush({
      events: [event(id, opened.catalogId, 2, { type: 'playbook.completed' })],
      heads: [
        head(id, 1, 2, {
          progress: 100,
          end: {
            status: 'completed',
            result: null,
            resultRef: null,
            error: null,
            errorDetail: null,
            progressDetail: {},
            endTime: new Date().toISOString(),
          },
        }),
      ],
    });
  const owned = (scope: 'local' | 'shared', name: string, owner: number, root: number | null = null) =>
    put({
      name,
      scope,
      cacheKey:
        scope === 'local' ? `${name}:${opened.catalogId}:${owner}` : `${name}:${opened.catalogId}:shared:${root}`,
      executionId: owner,
      rootExecutionId: root,
    });

  test('takes its local and its shared entries in the transaction of its terminal event', async () => {
    const root = await running();
    const child = await running({ rootExecutionId: root, parentExecutionId: root });
    const global = await put();
    const [localOfRoot, localOfChild, shared] = [
      await owned('local', 'a', root),
      await owned('local', 'b', child),
      await owned('shared', 'c', child, root),
    ];
    const there = async () => {
      const rows = await Promise.all(
        [localOfRoot, localOfChild, shared, global].map((row) => store.find(row.cacheKey)),
      );
      return rows.map((row) => row !== null);
    };
    await engine.commit(ending(child));
    expect(await there()).toEqual([true, false, true, true]);
    await engine.commit(ending(root));
    expect(await there()).toEqual([false, false, false, true]);
    const log = await store.log({ catalogId: opened.catalogId, name: 'c', after: null, limit: 9 });
    expect(log.at(-1)).toMatchObject({
      seq: 2,
      type: 'entry.removed',
      context: { scope: 'shared', reason: 'root_ended' },
    });
    const own = await store.log({ catalogId: opened.catalogId, name: 'a', after: null, limit: 9 });
    expect(own.at(-1)?.context).toEqual({ scope: 'local', reason: 'execution_ended' });
  });

  test('that is not committed leaves them', async () => {
    const id = await running();
    const local = await owned('local', 'd', id);
    const stale = ending(id);
    await expect(
      engine.commit({ ...stale, heads: stale.heads.map((each) => ({ ...each, expectedLastEventId: 7 })) }),
    ).rejects.toThrow();
    expect(await store.find(local.cacheKey)).not.toBeNull();
  });

  test('in the flush that started it takes what was stored before', async () => {
    const id = nextId();
    const local = await owned('local', 'e', id);
    const row = execution(id, opened.catalogId, {
      path: `k/${id}`,
      status: 'completed',
      endTime: new Date().toISOString(),
      progress: 100,
    });
    await engine.commit(flush({ started: [row], events: [event(id, opened.catalogId, 1)] }));
    expect(await store.find(local.cacheKey)).toBeNull();
  });

  test('waits for a store that holds it, and then takes what that stored', async () => {
    const id = await running();
    const held = Promise.withResolvers<void>();
    const going = Promise.withResolvers<void>();
    const row = rowOf({ name: 'f', scope: 'local', cacheKey: `f:${opened.catalogId}:${id}`, executionId: id });
    const storing = store.transaction(async (tx) => {
      expect(await tx.holdOwner(id)).toBe(false);
      held.resolve();
      await going.promise;
      await tx.put(row);
    });
    await held.promise;
    const ended = engine.commit(ending(id));
    going.resolve();
    await Promise.all([storing, ended]);
    expect(await store.find(row.cacheKey)).toBeNull();
    expect(await store.transaction((tx) => tx.holdOwner(id))).toBe(true);
  });

  test('is found by index', async () => {
    const { REMOVE_ENDED } = await import('../../src/store/keychain.ts');
    await queryRows(
      opened.url,
      `insert into core.keychain (cache_key, keychain_name, catalog_id, credential_type, cache_type, scope_type,
         execution_id, data_encrypted, expires_at)
       select 'bulk:' || $1::bigint || ':' || n, 'bulk', $1::bigint, 'x', 'token', 'local', n, 'cb1.x', now()
       from generate_series(1000000, 1005000) as n`,
      [opened.catalogId],
    );
    const plan = await queryRows<{ 'QUERY PLAN': string }>(
      opened.url,
      `explain ${REMOVE_ENDED.replaceAll('$1::bigint[]', `'{1000001}'::bigint[]`)}`,
    );
    const text = plan.map((line) => line['QUERY PLAN']).join('\n');
    expect(text).toContain('keychain_execution');
    expect(text).toContain('keychain_root');
    expect(text).not.toMatch(/Seq Scan on keychain(?!_event)/);
  });
});

test('roots are those of the first execution that is known', async () => {
  const id = nextId();
  await engine.commit(
    flush({
      started: [execution(id, opened.catalogId, { path: `k/${id}`, rootExecutionId: 41_000 })],
      events: [event(id, opened.catalogId, 1)],
    }),
  );
  expect(await store.rootOf([7_777_777, id])).toBe(41_000);
  expect(await store.rootOf([7_777_777])).toBeNull();
});

test('old expired entries are removed up to a limit, oldest first', async () => {
  const old = await Promise.all(
    [-90_000, -100_000, -95_000].map((seconds) =>
      put({
        name: `old${-seconds}`,
        cacheKey: `old${-seconds}:${opened.catalogId}:global`,
        expiresAt: inSeconds(seconds),
      }),
    ),
  );
  const renewing = await put({ autoRenew: true, expiresAt: inSeconds(-100_000) });
  const ages = { plainSeconds: 86_400, renewingSeconds: 30 * 86_400 };
  expect(await store.removeExpired(ages, 2)).toBe(2);
  const left = await Promise.all(old.map((row) => store.find(row.cacheKey)));
  expect(left.map((row) => row !== null)).toEqual([true, false, false]);
  expect(await store.removeExpired(ages, 9)).toBe(1);
  expect(await store.find(renewing.cacheKey)).not.toBeNull();
});
