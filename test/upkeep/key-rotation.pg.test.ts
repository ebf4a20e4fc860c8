/** Rotation in batches: it may stop anywhere, everything can be read at any time, and a key goes only when nothing needs it. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { credentialBinding } from '../../actors/credential-service.ts';
import { createKeyService } from '../../actors/key-rotation.ts';
import { keychainBinding, renewalBinding } from '../../actors/keychain-service.ts';
import { Leases } from '../../actors/lease.ts';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import type { Vault } from '../../actors/vault.ts';
import { openVault } from '../../src/crypto/vault.ts';
import { createCanaryStore } from '../../src/store/encryption-keys.ts';
import { createLeaseStore } from '../../src/store/leases.ts';
import { createSealedStore } from '../../src/store/sealed-values.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { quiet } from '../support/postgres.ts';

const CREDENTIALS = 450;
const KEYS = ['k1', 'k2'].map((kid) => ({ kid, key: new Uint8Array(randomBytes(32)) }));
const ENTRY = { cacheKey: 'token:900:global', name: 'token', scope: 'global' } as const;

let opened: TestDatabase;
let newer: Vault;
beforeAll(async () => {
  opened = await openTestDatabase();
  const { reads } = opened.database;
  const canaries = createCanaryStore(reads);
  const options = { dataDir: '', allowGenerate: false };
  const older = await openVault({ ...options, keys: KEYS.slice(0, 1) }, canaries, quiet);
  newer = await openVault({ ...options, keys: KEYS.toReversed() }, canaries, quiet);
  const rows = Array.from({ length: CREDENTIALS }, (_, index) => {
    const credential = { id: String(index + 1), name: `c${index + 1}` };
    return { ...credential, sealed: older.seal(credentialBinding(credential), { secret: index + 1 }) };
  });
  await reads.run(
    `insert into core.credential (id, name, type, data_encrypted)
     select id, name, 'bearer', sealed from json_to_recordset($1::json) as row (id bigint, name text, sealed text)`,
    [JSON.stringify(rows)],
  );
  await reads.run(
    `insert into core.keychain (cache_key, keychain_name, catalog_id, credential_type, cache_type, scope_type,
       data_encrypted, expires_at, auto_renew, renew_config)
     values ($1, $2, $3, 'http', 'token', 'global', $4, now(), true, jsonb_build_object('endpoint', 'http://x', 'sealed', $5::text))`,
    [
      ENTRY.cacheKey,
      ENTRY.name,
      opened.catalogId,
      older.seal(keychainBinding(ENTRY), { a: 1 }),
      older.seal(renewalBinding(ENTRY), { b: 2 }),
    ],
  );
});
afterAll(() => opened.close());

async function readAll(): Promise<void> {
  const rows = await opened.database.reads.rows<{ id: string; name: string; sealed: string }>(
    'select id::text as id, name, data_encrypted as sealed from core.credential',
  );
  for (const row of rows) expect(newer.open(credentialBinding(row), row.sealed)).toEqual({ secret: Number(row.id) });
}

test('values move in batches to the active key and can be read all the while', async () => {
  const store = createSealedStore(opened.database.reads);
  const again = newer.rewrap.bind(newer);
  expect(await store.uses()).toEqual([
    { kid: 'k2', rows: 0 },
    { kid: 'k1', rows: CREDENTIALS + 2 },
  ]);
  // The process is killed after one batch.
  expect(await store.rewrap('k2', 200, again)).toBe(200);
  await readAll();
  const clock = { now: Date.now };
  const meter = { count() {}, observe() {}, gauge() {} };
  const card = { uri: null, version: '1', pid: 1, hostname: 'here' };
  const leases = new Leases({
    store: createLeaseStore(opened.database.reads),
    clock,
    log: quiet,
    meter,
    holder: 'a',
    card,
    leaseSeconds: 15,
  });
  const keys = createKeyService({
    store,
    vault: newer,
    leases,
    ids: createSeededIds(),
    caller: () => OPEN_CALLER,
    log: quiet,
  });
  await expect(keys.retire('k1')).rejects.toThrow('still sealed with it');
  let answer = await keys.rotate();
  while (answer.status === 'running') answer = await keys.rotate();
  expect(answer).toMatchObject({ active: 'k2', remaining: 0 });
  await readAll();
  const [entry] = await opened.database.reads.rows<{ sealed: string; renewal: string }>(
    `select data_encrypted as sealed, renew_config ->> 'sealed' as renewal from core.keychain`,
  );
  expect(newer.open(keychainBinding(ENTRY), entry?.sealed ?? '')).toEqual({ a: 1 });
  expect(newer.open(renewalBinding(ENTRY), entry?.renewal ?? '')).toEqual({ b: 2 });
  await expect(keys.retire('k2')).rejects.toThrow('the active one');
  await expect(keys.retire('k9')).rejects.toThrow('unknown');
  await keys.retire('k1');
  expect(await keys.list()).toEqual({ active: 'k2', keys: [{ kid: 'k2', rows: CREDENTIALS + 2 }] });
  await leases.stop();
});
