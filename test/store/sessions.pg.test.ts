import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { createSessionService, type NewSession } from '../../actors/session-service.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { createSessionStore } from '../../src/store/sessions.ts';
import { queryRows, quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let lastId = 0;
const published: string[] = [];

const WHO: NewSession = {
  subject: 'user-7',
  email: 'u7@example.com',
  name: 'User Seven',
  roles: ['operator'],
  userAgent: 'test',
  ip: '127.0.0.1',
  ttlSeconds: null,
};

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 4, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

const service = (idleSeconds = 1800, maxSeconds = 43_200) =>
  createSessionService({
    store: createSessionStore(database.reads),
    ids: { next: () => ++lastId, reserve: async () => {} },
    bus: { publish: (topic, hints) => published.push(JSON.stringify([topic, hints])) },
    caller: () => OPEN_CALLER,
    newToken: () => randomBytes(32).toString('base64url'),
    digest: (token) => createHash('sha256').update(token).digest(),
    idleSeconds,
    maxSeconds,
  });

test('a session is known by its token, which is stored nowhere', async () => {
  const { token, expiresAt } = await service().create(WHO);
  expect(Buffer.from(token, 'base64url')).toHaveLength(32);
  const { subject, email, name, roles } = WHO;
  expect(await service().validate(token)).toEqual({ subject, email, name, roles, expiresAt });
  const rows = await queryRows(postgres.url, 'select s::text as row from core.session s');
  expect(JSON.stringify(rows)).toContain('user-7');
  expect(JSON.stringify(rows)).not.toContain(token);
});

test('a token nobody gave out, a revoked one and an ended one are all the same', async () => {
  const sessions = service();
  expect(await sessions.validate('x'.repeat(43))).toBeNull();
  const revoked = await sessions.create({ ...WHO, subject: 'user-8' });
  const kept = await sessions.create(WHO);
  expect(await sessions.revoke({ token: revoked.token })).toBe(1);
  expect(await sessions.revoke({ token: revoked.token })).toBe(0);
  expect(await sessions.validate(revoked.token)).toBeNull();
  expect(await sessions.validate(kept.token)).not.toBeNull();
  const ended = await sessions.create({ ...WHO, subject: 'user-9' });
  await queryRows(postgres.url, "update core.session set idle_expires_at = now() where subject = 'user-9'");
  expect(await sessions.validate(ended.token)).toBeNull();
});

test('use moves the idle end, up to the absolute one', async () => {
  const { token } = await service().create({ ...WHO, subject: 'user-10', ttlSeconds: 600 });
  await queryRows(
    postgres.url,
    "update core.session set idle_expires_at = now() + interval '5 s' where subject = 'user-10'",
  );
  await service().validate(token);
  expect(
    await queryRows(
      postgres.url,
      "select idle_expires_at = expires_at as capped, expires_at < now() + interval '11 min' as short from core.session where subject = 'user-10'",
    ),
  ).toEqual([{ capped: true, short: true }]);
});

test('no session lives longer than the setting allows', async () => {
  const { expiresAt } = await service(1800, 60).create({ ...WHO, ttlSeconds: 100_000 });
  expect(Date.parse(expiresAt)).toBeLessThan(Date.now() + 120_000);
});

test('all sessions of one subject can be ended at once', async () => {
  const sessions = service();
  const made = [
    await sessions.create({ ...WHO, subject: 'user-11' }),
    await sessions.create({ ...WHO, subject: 'user-11' }),
  ];
  published.length = 0;
  expect(await sessions.revoke({ subject: 'user-11' })).toBe(2);
  expect(published).toEqual(['["control",[{"action":"access_changed"}]]']);
  expect(await sessions.revoke({ subject: 'user-11' })).toBe(0);
  expect(published).toHaveLength(1);
  const audited = await queryRows(
    postgres.url,
    "select action, detail::text from core.audit where target = 'user-11' order by audit_id",
  );
  expect(audited.map(({ action }) => action)).toEqual(['session.login', 'session.login', 'session.logout']);
  expect(JSON.stringify(audited)).not.toContain(made[0]?.token);
  for (const { token } of made) expect(await sessions.validate(token)).toBeNull();
});
