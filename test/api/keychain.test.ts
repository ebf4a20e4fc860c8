import { describe, expect, it, test } from 'vitest';
import type { KeychainDraft } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import type { Reading } from '../../machines/keychain/reply.ts';
import { AT, fakeServices } from './fake-services.ts';
import { ask, testHost } from './test-host.ts';

const URL = '/api/keychain/2003/billing';
const BODY = { token_data: { access_token: 't' }, credential_type: 'bearer' };

function store(body: JsonMap) {
  const drafts: KeychainDraft[] = [];
  const services = fakeServices({
    keychain: {
      store: async (draft) => {
        drafts.push(draft);
        return { cacheKey: 'billing:2003:global', expiresAt: AT, ttlSeconds: 3600 };
      },
    },
  });
  const answer = ask(testHost(services).app, 'POST', URL, { payload: { ...BODY, ...body } });
  return { drafts, answer };
}

describe('a store', () => {
  test('has the defaults of the table', async () => {
    const { drafts, answer } = store({});
    expect((await answer).json).toEqual({
      status: 'success',
      message: 'Keychain entry cached successfully with 3600s TTL',
      keychain_name: 'billing',
      catalog_id: 2003,
      cache_key: 'billing:2003:global',
      expires_at: AT,
      ttl_seconds: 3600,
      auto_renew: false,
    });
    expect(drafts).toEqual([
      {
        catalogId: 2003,
        name: 'billing',
        scope: 'global',
        executionId: null,
        parentExecutionId: null,
        tokenData: { access_token: 't' },
        credentialType: 'bearer',
        cacheType: 'token',
        ttlSeconds: null,
        expiresAt: null,
        autoRenew: false,
        renewConfig: null,
        schema: null,
      },
    ]);
  });

  test('fills up a renewal request, and takes catalog for global', async () => {
    const { drafts, answer } = store({ auto_renew: true, renew_config: { endpoint: 'x' }, scope_type: 'catalog' });
    expect((await answer).status).toBe(200);
    const renewConfig = { method: 'POST', headers: {}, data: {}, tokenField: 'access_token', ttlField: 'expires_in' };
    expect(drafts[0]).toMatchObject({ scope: 'global', renewConfig: { endpoint: 'x', ...renewConfig } });
  });

  test('does not take what the service keeps itself', async () => {
    const { drafts, answer } = store({ access_count: 9, created_at: AT, cache_key: 'other', renewal_until: AT });
    expect((await answer).status).toBe(200);
    expect(JSON.stringify(drafts)).not.toMatch(/access_count|accessCount|other|renewal/);
  });

  it.each([0, -1, -320_000_000, 320_000_000])('takes a lifetime of %d s', async (ttl_seconds) => {
    const { drafts, answer } = store({ ttl_seconds });
    expect((await answer).status).toBe(200);
    expect(drafts[0]?.ttlSeconds).toBe(ttl_seconds);
  });

  it.each([
    ['2026-11-20T11:15:02+01:00', '2026-11-20T10:15:02.000Z'],
    ['1999-01-01T00:00:00Z', '1999-01-01T00:00:00.000Z'],
  ])('takes the instant %s', async (expires_at, instant) => {
    const { drafts, answer } = store({ expires_at });
    expect((await answer).status).toBe(200);
    expect(drafts[0]?.expiresAt).toBe(instant);
  });

  it.each([
    [{ ttl_seconds: 0.5 }, 'body.ttl_seconds'],
    [{ ttl_seconds: 320_000_001 }, 'body.ttl_seconds'],
    [{ ttl_seconds: -320_000_001 }, 'body.ttl_seconds'],
    [{ ttl_seconds: 1e15 }, 'body.ttl_seconds'],
    [{ ttl_seconds: 'infinity' }, 'body.ttl_seconds'],
    [{ ttl_seconds: '60' }, 'body.ttl_seconds'],
    [{ expires_at: 'infinity' }, 'body.expires_at'],
    [{ expires_at: '0000-01-01T00:00:00Z' }, 'body.expires_at'],
    [{ expires_at: '9999-12-31T23:59:59-23:00' }, 'body.expires_at'],
    [{ expires_at: 1764000000 }, 'body.expires_at'],
    [{ token_data: [] }, 'body.token_data'],
    [{ token_data: 'canary-token' }, 'body.token_data'],
    [{ credential_type: '' }, 'body.credential_type'],
    [{ cache_type: 'cookie' }, 'body.cache_type'],
    [{ scope_type: 'world' }, 'body.scope_type'],
    [{ scope_type: 'local' }, "'execution_id' is required for scope local and shared"],
    [{ scope_type: 'shared', execution_id: null }, "'execution_id' is required for scope local and shared"],
    [{ execution_id: 'abc' }, 'body.execution_id'],
    [{ auto_renew: true }, "'renew_config.endpoint' is required with auto_renew"],
    [{ auto_renew: true, renew_config: { method: 'GET' } }, "'renew_config.endpoint' is required with auto_renew"],
    [{ renew_config: { endpoint: 'x', headers: [] } }, 'body.renew_config.headers'],
    [{ schema: 'x' }, 'body.schema'],
  ])('with %j is refused', async (body, sentence) => {
    const { drafts, answer } = store(body);
    const { status, text } = await answer;
    expect(status).toBe(422);
    expect(text).toContain(JSON.stringify(sentence).slice(1, -1));
    expect(text).not.toContain('canary');
    expect(drafts).toEqual([]);
  });
});

describe('a read', () => {
  const entry = {
    credentialType: 'bearer',
    cacheType: 'token',
    scope: 'global',
    expiresAt: '2026-11-20T10:15:04.363Z',
    autoRenew: true,
    at: AT,
    isLive: true,
    renewalUntil: null,
  } as const;
  const renewConfig = { endpoint: 'x', method: 'POST', headers: {}, data: {}, tokenField: 'a', ttlField: 'b' };
  const cacheKey = 'billing:2003:global';
  const read = (reading: Reading<JsonMap>, query = '') =>
    ask(testHost(fakeServices({ keychain: { read: async () => reading } })).app, 'GET', URL + query);

  test('of a live entry shows its data, and the renewal only when it was claimed', async () => {
    const reading: Reading<JsonMap> = {
      status: 'success',
      cacheKey,
      entry,
      data: { t: 1 },
      accessCount: 4,
      accessedAt: AT,
      renewConfig: null,
      renewal: null,
    };
    const common = { keychain_name: 'billing', catalog_id: 2003, cache_key: cacheKey };
    expect((await read(reading)).json).toEqual({
      status: 'success',
      ...common,
      token_data: { t: 1 },
      credential_type: 'bearer',
      cache_type: 'token',
      scope_type: 'global',
      expires_at: entry.expiresAt,
      ttl_seconds: 2.25,
      accessed_at: AT,
      access_count: 4,
      auto_renew: true,
      expired: false,
    });
    const renewal = { granted: true, until: AT };
    expect((await read({ ...reading, renewConfig, renewal }, '?claim_renewal=true')).json).toMatchObject({
      renewal,
      renew_config: { endpoint: 'x', token_field: 'a', ttl_field: 'b' },
    });
  });

  test('of an expired one has no data; its kinds are for the one who may renew', async () => {
    const reading: Reading<JsonMap> = { status: 'expired', cacheKey, entry, renewConfig, renewal: null };
    const answer = (await read(reading)).json;
    expect(Object.keys(answer)).toEqual([
      'status',
      'keychain_name',
      'catalog_id',
      'cache_key',
      'auto_renew',
      'expired',
      'renew_config',
    ]);
    expect((await read(reading, '?claim_renewal=true')).json).toMatchObject({
      credential_type: 'bearer',
      cache_type: 'token',
    });
  });

  it.each([
    ['?scope_type=local', 422],
    ['?scope_type=shared', 422],
    ['?scope_type=world', 422],
    ['?scope_type=local&execution_id=abc', 422],
    ['?claim_renewal=yes', 422],
    ['?scope_type=local&execution_id=77', 200],
    ['?scope_type=catalog', 200],
  ])('with %s is %d', async (query, status) => {
    const { app } = testHost();
    expect((await ask(app, 'GET', URL + query)).status).toBe(status);
    if (!query.includes('claim')) expect((await ask(app, 'DELETE', URL + query)).status).toBe(status);
  });
});

test('the log goes on where its page ended, and says when there is no more', async () => {
  const filters: unknown[] = [];
  const row = { cacheKey: 'billing:2003:global', seq: 7, type: 'entry.stored', at: AT, context: { scope: 'global' } };
  const services = fakeServices({
    keychain: {
      log: async (filter) => {
        filters.push(filter);
        return filter.after === null ? [row, { ...row, seq: 8 }] : [{ ...row, seq: 8 }];
      },
    },
  });
  const { app } = testHost(services);
  const page = (await ask(app, 'GET', '/api/keychain/catalog/2003/log?limit=1&keychain_name=billing')).json;
  expect(page).toMatchObject({
    next_after: 'billing:2003:global#7',
    count: 1,
    events: [{ keychain_name: 'billing', seq: 7 }],
  });
  const next = await ask(app, 'GET', `/api/keychain/catalog/2003/log?after=${encodeURIComponent(page.next_after)}`);
  expect(next.json.next_after).toBeNull();
  expect(filters).toEqual([
    { catalogId: 2003, name: 'billing', after: null, limit: 2 },
    { catalogId: 2003, name: null, after: { cacheKey: 'billing:2003:global', seq: 7 }, limit: 101 },
  ]);
  expect((await ask(app, 'GET', '/api/keychain/catalog/2003/log?after=x')).status).toBe(422);
});
