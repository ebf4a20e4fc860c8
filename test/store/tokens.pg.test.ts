import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { createTokenService, type TokenService } from '../../actors/token-service.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { createTokenStore } from '../../src/store/tokens.ts';
import { queryRows, quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let tokens: TokenService;
let lastId = 0;
const published: string[] = [];
const digest = (text: string) => createHash('sha256').update(text).digest();

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 4, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  tokens = createTokenService({
    store: createTokenStore(database.reads),
    ids: { next: () => ++lastId, reserve: async () => {} },
    bus: { publish: (topic, hints) => published.push(JSON.stringify([topic, hints])) },
    caller: () => ({ ...OPEN_CALLER, actor: 'root' }),
    newSecret: () => randomBytes(32).toString('base64url'),
    digest,
    isSame: timingSafeEqual,
  });
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

test('a token is known by its digest, stored nowhere, and audited', async () => {
  const { token, row } = await tokens.create({ name: 'ci', role: 'operator', expiresAt: null });
  expect(token).toMatch(/^cb_operator_[A-Za-z0-9_-]{43}$/);
  expect(row).toMatchObject({ name: 'ci', role: 'operator', expiresAt: null, lastUsedAt: null, revokedAt: null });
  expect(await tokens.find(digest(token))).toEqual({ name: 'ci', role: 'operator', expiresAt: null });
  expect(await tokens.find(digest(`${token}x`))).toBeNull();
  expect((await tokens.list())[0]?.lastUsedAt).not.toBeNull();
  const stored = await queryRows(
    postgres.url,
    'select t::text as row from core.api_token t union all select a::text from core.audit a',
  );
  expect(JSON.stringify(stored)).toContain('token.create');
  expect(JSON.stringify(stored)).not.toContain(token.slice(12));
});

test('a name is given once, until its token has ended', async () => {
  const first = await tokens.create({ name: 'once', role: 'viewer', expiresAt: null });
  await expect(tokens.create({ name: 'once', role: 'admin', expiresAt: null })).rejects.toMatchObject({
    code: 'validation_error',
  });
  expect(await tokens.find(digest(first.token))).toMatchObject({ role: 'viewer' });
  published.length = 0;
  expect(await tokens.revoke('once')).toBe(true);
  expect(published).toEqual(['["control",[{"action":"access_changed"}]]']);
  expect(await tokens.find(digest(first.token))).toBeNull();
  expect(await tokens.revoke('once')).toBe(false);
  await expect(tokens.revoke('never')).rejects.toMatchObject({ code: 'not_found' });
  const second = await tokens.create({ name: 'once', role: 'admin', expiresAt: null });
  expect(await tokens.find(digest(second.token))).toMatchObject({ role: 'admin' });
  expect(await tokens.find(digest(first.token))).toBeNull();
  const trail = await queryRows(
    postgres.url,
    "select action, actor from core.audit where target = 'once' order by audit_id",
  );
  expect(trail.map(({ action }) => action)).toEqual(['token.create', 'token.revoke', 'token.create']);
});

test('an expired token is none, and its name is free again', async () => {
  const { token } = await tokens.create({ name: 'short', role: 'worker', expiresAt: '2000-01-01T00:00:00.000Z' });
  expect(await tokens.find(digest(token))).toBeNull();
  await tokens.create({ name: 'short', role: 'worker', expiresAt: null });
});

test('two that make the same name at once get one token', async () => {
  const made = await Promise.allSettled(
    Array.from({ length: 8 }, () => tokens.create({ name: 'race', role: 'viewer', expiresAt: null })),
  );
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
});
