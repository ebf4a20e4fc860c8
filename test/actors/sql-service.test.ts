import { describe, expect, test } from 'vitest';
import { type AuditRow, OPEN_CALLER } from '../../actors/audit.ts';
import { DomainError } from '../../actors/errors.ts';
import {
  createSqlService,
  readConnection,
  type SqlOutcome,
  type SqlPorts,
  type SqlTarget,
} from '../../actors/sql-service.ts';
import type { JsonMap } from '../../machines/json.ts';

const OK: SqlOutcome = { ok: true, rows: [{ one: 1 }], rowCount: 1, columns: ['one'], truncated: false };
const FAILED: SqlOutcome = { ok: false, message: 'division by zero', sqlstate: '22012' };
const PLAIN = {
  query: "select 1 as one, 'secret'",
  parameters: [],
  credentialName: null,
  schema: null,
  maxRows: 10,
  timeoutSeconds: 5,
};

describe('the SQL service', () => {
  test('runs on the own database and leaves one audit row, without values', async () => {
    const { sql, audits, targets } = world();
    expect(await sql.execute(PLAIN)).toEqual({ result: [{ one: 1 }], rowCount: 1, columns: ['one'], truncated: false });
    expect(targets).toEqual([{ kind: 'own' }]);
    expect(audits).toEqual([
      expect.objectContaining({
        action: 'postgres.execute',
        target: 'own database',
        outcome: 'ok',
        actor: 'open',
        detail: { sha256: `hash of ${PLAIN.query.length}`, statement: "select 0 as one, '***'" },
      }),
    ]);
  });

  test('tells a failure with its state, and audits that too', async () => {
    const { sql, audits } = world({ outcome: FAILED });
    await expect(sql.execute(PLAIN)).rejects.toMatchObject({
      code: 'sql_error',
      message: 'division by zero',
      data: { status: 'error', error: 'division by zero', sqlstate: '22012' },
    });
    expect(audits.map((row) => [row.outcome, row.detail['sqlstate']])).toEqual([
      ['ok', undefined],
      ['error', '22012'],
    ]);
  });

  test('runs nothing that cannot be audited', async () => {
    const { sql, targets } = world({ audit: () => Promise.reject(new Error('no audit')) });
    await expect(sql.execute(PLAIN)).rejects.toThrowError('no audit');
    expect(targets).toEqual([]);
  });

  test.each([
    [{ mode: 'off' as const }, null, 'sql_not_allowed', /SVC_POSTGRES_EXECUTE/],
    [{ mode: 'off' as const }, 'pg_auth', 'sql_not_allowed', /SVC_POSTGRES_EXECUTE/],
    [{ ownDatabase: false }, null, 'sql_not_allowed', /SVC_QUERY_DATABASE_URL/],
    [{}, 'none_auth', 'not_found', /^Credential 'none_auth' not found$/],
    [{}, 'token_auth', 'validation_error', /not a postgres credential/],
    [{}, 'empty_auth', 'validation_error', /not a postgres credential/],
    [{}, 'touched_auth', 'decrypt_failed', /^Cannot decrypt the stored data \(key id k1\)$/],
  ])('with %j and credential %s refuses with %s, and audits that', async (ports, credentialName, code, message) => {
    const { sql, audits, targets } = world(ports);
    await expect(sql.execute({ ...PLAIN, credentialName })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
    expect(targets).toEqual([]);
    expect(audits).toEqual([
      expect.objectContaining({
        action: 'postgres.execute',
        target: credentialName ?? 'own database',
        outcome: code === 'sql_not_allowed' ? 'denied' : 'error',
        detail: { sha256: `hash of ${PLAIN.query.length}`, statement: "select 0 as one, '***'", code },
      }),
    ]);
  });

  test('reaches the database of a credential, also when the own one has no login', async () => {
    const { sql, audits, targets } = world({ ownDatabase: false });
    await sql.execute({ ...PLAIN, credentialName: 'pg_auth' });
    expect(targets).toEqual([{ kind: 'credential', connection: expect.objectContaining({ host: 'h', user: 'u' }) }]);
    expect(audits[0]?.target).toBe('pg_auth');
    expect(JSON.stringify(audits)).not.toContain('hidden');
  });

  test('refuses a NUL', async () => {
    await expect(world().sql.execute({ ...PLAIN, query: 'select 1\0' })).rejects.toMatchObject({
      code: 'validation_error',
    });
  });
});

describe('a postgres credential', () => {
  const plain = { host: 'h', port: 5432, user: 'u', password: '', database: 'u', sslMode: null };
  test.each<[JsonMap, unknown]>([
    [{ host: 'h', user: 'u' }, plain],
    [
      { host: 'h', port: 6000, user: 'u', password: 'p', database: 'd' },
      { ...plain, port: 6000, password: 'p', database: 'd' },
    ],
    [
      { db_host: 'h', db_port: '6000', db_user: 'u', db_password: 'p', db_name: 'd' },
      { ...plain, port: 6000, password: 'p', database: 'd' },
    ],
    [
      { host: 'h', username: 'u', dbname: 'd', sslmode: 'require' },
      { ...plain, database: 'd', sslMode: 'require' },
    ],
    [{ host: 'h' }, null],
    [{ user: 'u' }, null],
    [{ host: 'h', user: 'u', port: 70_000 }, null],
    [{ host: 'h', user: 'u', port: 'x' }, null],
    [{ host: { a: 1 }, user: 'u' }, null],
  ])('%j reads as %j', (data, connection) => {
    expect(readConnection(data)).toEqual(connection);
  });
});

interface Change extends Partial<Pick<SqlPorts, 'mode' | 'ownDatabase' | 'audit'>> {
  readonly outcome?: SqlOutcome;
}

function world({ outcome = OK, ...ports }: Change = {}) {
  const audits: AuditRow[] = [];
  const targets: SqlTarget[] = [];
  const stored: Record<string, { type: string; data: JsonMap }> = {
    pg_auth: { type: 'Postgres', data: { host: 'h', user: 'u', password: 'hidden' } },
    token_auth: { type: 'bearer', data: { token: 'hidden' } },
    empty_auth: { type: 'postgres', data: {} },
  };
  const sql = createSqlService({
    mode: 'read',
    ownDatabase: true,
    runner: {
      run: async (target) => {
        targets.push(target);
        return outcome;
      },
    },
    credential: async (name) => {
      if (name === 'touched_auth')
        throw new DomainError('decrypt_failed', 'Cannot decrypt the stored data (key id k1)');
      return stored[name] ?? null;
    },
    audit: async (row) => {
      audits.push(row);
    },
    sha256: async (text) => `hash of ${text.length}`,
    ids: { next: () => 1, reserve: async () => {} },
    caller: () => OPEN_CALLER,
    ...ports,
  });
  return { sql, audits, targets };
}
