import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { createCredentialService } from '../../actors/credential-service.ts';
import type { CredentialService } from '../../actors/services.ts';
import type { Vault } from '../../actors/vault.ts';
import { openVault } from '../../src/crypto/vault.ts';
import { createCounts } from '../../src/store/counts.ts';
import { createCredentialStore } from '../../src/store/credentials.ts';
import { createCanaryStore } from '../../src/store/encryption-keys.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { queryRows, quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let vault: Vault;
let credentials: CredentialService;
let lastId = 2000;

const keys = [{ kid: 'k1', key: randomBytes(32) }];
const AUDIT = { executionId: 41007, workerId: 'worker-7', requestId: 'r-test-0002' };
const RULES = { fields: ['token', 'port'], required: ['token'], types: { port: 'integer' } };

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 8, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  vault = await openVault({ keys, dataDir: '', allowGenerate: false }, createCanaryStore(database.reads), quiet);
  credentials = createCredentialService({
    store: createCredentialStore(database.reads),
    vault,
    ids: { next: () => ++lastId, reserve: async () => {} },
    caller: () => OPEN_CALLER,
  });
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

describe('a stored credential', () => {
  test('shows its data only when revealed, and exactly', async () => {
    const data = { token: 'canary-secret-1', 'key with space': 'ü☃', list: [1, [2]], none: null, constructor: 'c' };
    const saved = await save('shown_auth', { data });
    expect(JSON.stringify([saved, await credentials.get('shown_auth'), await credentials.list({})])).not.toContain(
      'canary',
    );
    expect(await credentials.reveal('shown_auth', AUDIT)).toEqual({ ...saved, data });
    expect(await credentials.reveal(saved.id, AUDIT)).toEqual({ ...saved, data });
  });

  test('lies in the database as ciphertext bound to its row', async () => {
    const saved = await save('sealed_auth', { data: { token: 'canary-secret-2' } });
    const [row] = await queryRows<{ all: string; data: string }>(
      postgres.url,
      'select credential::text as all, data_encrypted as data from core.credential where id = $1',
      [saved.id],
    );
    expect(row?.all).not.toContain('canary');
    expect(row?.data).toMatch(/^cb1\.k1\./);
    expect(JSON.stringify(await queryRows(postgres.url, 'select audit::text from core.audit'))).not.toContain('canary');
  });

  test('keeps its id and creation when replaced; the rest is new, except the schema', async () => {
    const old = await save('again_auth', {
      type: 'basic',
      description: 'old',
      tags: ['x'],
      meta: { a: 1 },
      schema: RULES,
    });
    const next = await save('again_auth', { type: 'bearer', data: { token: 'b' }, schema: undefined });
    expect(next).toMatchObject({
      id: old.id,
      createdAt: old.createdAt,
      type: 'bearer',
      description: null,
      tags: [],
      meta: null,
      schema: RULES,
    });
    expect(next.updatedAt > old.updatedAt).toBe(true);
    await expect(save('again_auth', { data: { odd: 1 }, schema: undefined })).rejects.toMatchObject({
      code: 'schema_validation_failed',
      message: 'Credential validation failed',
      data: { errors: ['Missing required field: token', 'Unexpected fields: odd'] },
    });
    expect((await save('again_auth', { data: { odd: 1 }, schema: null })).schema).toBeNull();
  });

  test('is held to a schema of before in the order its author gave the types', async () => {
    const types = { port: 'integer', tags: 'array', host: 'string', a: 'object' };
    const first = await save('ordered_auth', { data: { port: 1 }, schema: { types } });
    expect(Object.keys(first.schema?.['types'] ?? {})).toEqual(['port', 'tags', 'host', 'a']);
    expect(first.schema).toEqual({ types });
    const data = { a: 1, host: 2, tags: 3, port: 'x' };
    const errors = [
      "Field 'port' must be integer, got string",
      "Field 'tags' must be array, got integer",
      "Field 'host' must be string, got integer",
      "Field 'a' must be object, got integer",
    ];
    await expect(save('ordered_auth', { data, schema: undefined })).rejects.toMatchObject({ data: { errors } });
    await expect(credentials.patch('ordered_auth', { data })).rejects.toMatchObject({ data: { errors } });
    expect((await credentials.get('ordered_auth')).schema).toEqual({ types });
    expect((await credentials.list({ q: 'ordered' }))[0]?.schema).toEqual({ types });
  });

  test('is one row when first written by many at once', async () => {
    const saved = await Promise.all(
      Array.from({ length: 12 }, (_, n) => save('raced_auth', { data: { token: `t${n}` } })),
    );
    expect(new Set(saved.map((each) => each.id)).size).toBe(1);
    await expect(credentials.reveal('raced_auth', AUDIT)).resolves.toHaveProperty('data.token');
  });

  test('is not stored when its data breaks its schema, or the schema is none', async () => {
    await expect(save('bad_auth', { data: { port: '80' }, schema: RULES })).rejects.toMatchObject({
      data: { errors: ['Missing required field: token', "Field 'port' must be integer, got string"] },
    });
    await expect(save('bad_auth', { schema: { types: { a: 'text' } } })).rejects.toMatchObject({
      code: 'validation_error',
    });
    await expect(credentials.get('bad_auth')).rejects.toMatchObject({
      code: 'not_found',
      message: 'Credential not found',
    });
  });

  test('is found by id before it is found by name', async () => {
    const first = await save('idname_auth', { data: { token: 'first' } });
    const second = await save(first.id, { data: { token: 'second' } });
    expect((await credentials.get(first.id)).name).toBe('idname_auth');
    expect((await credentials.get(second.id)).name).toBe(first.id);
    await credentials.remove('idname_auth');
    expect((await credentials.get(first.id)).id).toBe(second.id);
  });

  test('changes only in what a patch names', async () => {
    const old = await save('patched_auth', { data: { token: 'a', port: 1 }, description: 'd', tags: ['t'] });
    const next = await credentials.patch('patched_auth', { description: null, schema: RULES });
    expect(next).toEqual({ ...old, description: null, schema: RULES, updatedAt: next.updatedAt });
    await expect(credentials.patch(old.id, { data: { port: 2 } })).rejects.toMatchObject({
      code: 'schema_validation_failed',
    });
    await credentials.patch(old.id, { data: { token: 'b' } });
    expect((await credentials.reveal(old.id, AUDIT)).data).toEqual({ token: 'b' });
    await expect(credentials.patch('nobody_auth', { type: 'x' })).rejects.toMatchObject({ code: 'not_found' });
  });

  test('is gone after its removal, and a new one of the name has another id', async () => {
    const old = await save('gone_auth', {});
    expect((await credentials.remove('gone_auth')).id).toBe(old.id);
    await expect(credentials.reveal(old.id, AUDIT)).rejects.toMatchObject({ code: 'not_found' });
    await expect(credentials.remove('gone_auth')).rejects.toMatchObject({ code: 'not_found' });
    expect((await save('gone_auth', {})).id).not.toBe(old.id);
  });

  test('does not open when its ciphertext comes from another row, or its name was changed behind the service', async () => {
    const mine = await save('victim_auth', { data: { token: 'mine' } });
    await save('thief_auth', { data: { token: 'thief' } });
    await queryRows(
      postgres.url,
      `update core.credential set data_encrypted = (select data_encrypted from core.credential where name = 'victim_auth')
       where name = 'thief_auth'`,
    );
    await expect(credentials.reveal('thief_auth', AUDIT)).rejects.toMatchObject({
      code: 'decrypt_failed',
      message: 'Cannot decrypt the stored data (key id k1)',
    });
    await queryRows(postgres.url, `update core.credential set name = 'renamed_auth' where id = $1`, [mine.id]);
    await expect(credentials.reveal('renamed_auth', AUDIT)).rejects.toMatchObject({ code: 'decrypt_failed' });
  });
});

describe('the list', () => {
  test('is ordered by name and filtered by type, tag and text', async () => {
    await save('list_c', { type: 'nats', tags: ['blue', 'sea'] });
    await save('list_a', { type: 'nats', description: 'About the Sea' });
    await save('list_b', { type: 'clickhouse', tags: ['blue'] });
    const names = async (filter: Parameters<CredentialService['list']>[0]) =>
      (await credentials.list(filter)).map((each) => each.name).filter((name) => name.startsWith('list_'));
    expect(await names({})).toEqual(['list_a', 'list_b', 'list_c']);
    expect(await names({ type: 'nats' })).toEqual(['list_a', 'list_c']);
    expect(await names({ tag: 'blue' })).toEqual(['list_b', 'list_c']);
    expect(await names({ q: 'SEA' })).toEqual(['list_a', 'list_c']);
    expect(await names({ tag: 'blue', type: 'clickhouse' })).toEqual(['list_b']);
  });
});

describe('the audit trail', () => {
  test('has a row for each write, reveal and removal, with the caller and no values', async () => {
    const { id } = await save('audited_auth', { data: { token: 'canary' } });
    await credentials.reveal('audited_auth', AUDIT);
    await credentials.remove(id);
    await expect(credentials.reveal('audited_auth', AUDIT)).rejects.toMatchObject({ code: 'not_found' });
    const rows = await queryRows(
      postgres.url,
      `select action, outcome, actor, request_id, detail from core.audit where target = 'audited_auth' order by at`,
    );
    expect(rows).toMatchObject([
      { action: 'credential.write', outcome: 'ok', actor: 'open', detail: { id, replaced: false } },
      {
        action: 'credential.reveal',
        request_id: 'r-test-0002',
        detail: { id, execution_id: 41007, worker_id: 'worker-7' },
      },
      { action: 'credential.delete', detail: { id } },
    ]);
  });

  test('that cannot be written keeps the data back', async () => {
    await save('unaudited_auth', { data: { token: 'x' } });
    const free = lastId + 1;
    await queryRows(postgres.url, `insert into core.audit (audit_id, action, outcome) values ($1, 'test', 'ok')`, [
      free,
    ]);
    await expect(credentials.reveal('unaudited_auth', AUDIT)).rejects.toThrowError(/audit_pkey/);
  });
});

function save(name: string, more: Partial<Parameters<CredentialService['save']>[0]>) {
  const plain = { type: 'custom', data: { token: 'x' }, schema: undefined, meta: null, description: null, tags: [] };
  return credentials.save({ ...plain, ...more, name });
}

test('a key that seals nothing any more counts as zero, and one that is retired not at all', async () => {
  await save('counted_auth', { data: { token: 'canary-secret-8' } });
  const add = 'insert into core.encryption_key (kid, canary, retired_at) values ($1, $2, $3)';
  await queryRows(postgres.url, add, ['k8', 'cb1.k8.a.b', null]);
  await queryRows(postgres.url, add, ['k7', 'cb1.k7.a.b', '2026-01-01T00:00:00Z']);
  const [stored] = await queryRows<{ n: number }>(postgres.url, 'select count(*)::int as n from core.credential');
  const rows = await createCounts(database.reads).sealed();
  expect([...rows].sort((a, b) => (a.kid < b.kid ? -1 : 1))).toEqual([
    { kid: 'k1', count: stored?.n },
    { kid: 'k8', count: 0 },
  ]);
  await queryRows(postgres.url, `delete from core.encryption_key where kid in ('k7', 'k8')`);
});

test('a reveal whose audit row cannot be written shows nothing, unless that is allowed', async () => {
  const data = { token: 'canary-secret-9' };
  await save('unaudited_auth', { data });
  const warnings: string[] = [];
  const lenient = createCredentialService({
    store: createCredentialStore(database.reads),
    vault,
    ids: { next: () => ++lastId, reserve: async () => {} },
    caller: () => OPEN_CALLER,
    audit: { required: false, log: { ...quiet, warn: (message) => warnings.push(message) } },
  });
  await queryRows(postgres.url, 'alter table core.audit rename to audit_away');
  try {
    await expect(credentials.reveal('unaudited_auth', AUDIT)).rejects.toMatchObject({ code: '42P01' });
    expect(await lenient.reveal('unaudited_auth', AUDIT)).toMatchObject({ data });
  } finally {
    await queryRows(postgres.url, 'alter table core.audit_away rename to audit');
  }
  expect(warnings).toEqual(['A secret was shown without a row of the audit']);
  expect(await lenient.reveal('unaudited_auth', AUDIT)).toMatchObject({ data });
  expect(warnings).toHaveLength(1);
});
