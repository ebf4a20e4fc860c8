/** Ten thousand sealed values move to a new key while servers die and another server still seals with the old one. */
import { randomBytes } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { credentialBinding } from '../../actors/credential-service.ts';
import { openVault } from '../../src/crypto/vault.ts';
import { createCanaryStore } from '../../src/store/encryption-keys.ts';
import { createDatabase } from '../../src/store/pool.ts';
import { databaseConfig } from '../support/database.ts';
import { queryRows, quiet, startTestPostgres } from '../support/postgres.ts';
import { Stage } from '../support/processes.ts';

const ROWS = 10_000;
const stage = new Stage();
afterEach(() => stage.close());

const key = () => new Uint8Array(randomBytes(32));
const KEYS = { k1: key(), k2: key() };
const setting = (...kids: readonly (keyof typeof KEYS)[]) =>
  kids.map((kid) => `${kid}:${Buffer.from(KEYS[kid]).toString('base64')}`).join(',');

async function plant(url: string): Promise<void> {
  const database = createDatabase(databaseConfig(url), quiet);
  const canaries = createCanaryStore(database.reads);
  const options = { dataDir: '', allowGenerate: false };
  const vault = await openVault({ ...options, keys: [{ kid: 'k1', key: KEYS.k1 }] }, canaries, quiet);
  const rows = Array.from({ length: ROWS }, (_, index) => {
    // Far from the ids the servers give.
    const credential = { id: String(1_000_000_000 + index), name: `c${index + 1}` };
    return { ...credential, sealed: vault.seal(credentialBinding(credential), { secret: index + 1 }) };
  });
  await database.reads.run(
    `insert into core.credential (id, name, type, data_encrypted)
     select id, name, 'bearer', sealed from json_to_recordset($1::json) as row (id bigint, name text, sealed text)`,
    [JSON.stringify(rows)],
  );
  await database.close();
}

async function post(url: string, path: string, body: unknown = {}): Promise<{ status: number; json: unknown }> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(`${url}${path}`, init);
  return { status: response.status, json: await response.json() };
}

test('SE-04 a rotation killed twice loses nothing, is read all the while, and ends with the old key removable', {
  timeout: 180_000,
}, async () => {
  const postgres = await startTestPostgres();
  stage.onEnd(() => postgres.stop());
  await plant(postgres.url);
  const common = { SVC_DATABASE_URL: postgres.url, SVC_DATA_DIR: await stage.folder(), SVC_LEASE_SECONDS: '2' };
  const older = { ...common, SVC_ENCRYPTION_KEYS: setting('k1', 'k2') };
  const newer = { ...common, SVC_ENCRYPTION_KEYS: setting('k2', 'k1') };
  const moved = async () =>
    (
      await queryRows<{ n: number }>(
        postgres.url,
        `select count(*)::int as n from core.credential where data_encrypted like 'cb1.k2.%'`,
      )
    )[0]?.n ?? 0;

  const other = await stage.server(older);
  let isOver = false;
  const seen = { reads: 0, bad: [] as unknown[] };
  const reader = async (from: number) => {
    for (let at = from; !isOver; at = (at * 7919 + 13) % ROWS) {
      const response = await fetch(`${other.url}/api/credentials/c${at + 1}?include_data=true`);
      const body: unknown = await response.json();
      seen.reads += 1;
      if (response.status !== 200 || JSON.stringify((body as { data?: unknown }).data) !== `{"secret":${at + 1}}`)
        seen.bad.push(body);
    }
  };
  const readers = [1, 2].map((each) => reader(each * 1000));

  let server = await stage.server(newer);
  for (const share of [1, 4_000]) {
    const { url } = server;
    let isDead = false;
    // Asked again and again: the lease of the one that died before is over only after a while.
    const rotating = (async () => {
      while (!isDead) await post(url, '/api/admin/keys/rotate').catch(() => null);
    })();
    while ((await moved()) < share) await new Promise((resolve) => setTimeout(resolve, 5));
    isDead = true;
    await server.kill();
    await rotating;
    const after = await moved();
    expect(after).toBeGreaterThanOrEqual(share);
    server = await stage.server(newer, server.port);
    // The other server still seals with its own first key.
    const late = { name: `late_${share}`, type: 'bearer', data: { secret: share } };
    expect((await post(other.url, '/api/credentials', late)).status).toBe(200);
  }
  expect((await post(server.url, '/api/admin/keys/retire', { kid: 'k1' })).status).toBeGreaterThanOrEqual(400);
  for (let answer: unknown = null; !JSON.stringify(answer)?.includes('"remaining":0'); )
    answer = (await post(server.url, '/api/admin/keys/rotate')).json;
  isOver = true;
  await Promise.all(readers);
  expect(seen.bad).toEqual([]);
  expect(seen.reads).toBeGreaterThan(50);
  expect(await moved()).toBe(ROWS + 2);

  await other.stop();
  expect(await post(server.url, '/api/admin/keys/retire', { kid: 'k1' })).toMatchObject({ status: 200 });
  await server.stop();
  const last = await stage.server({ ...common, SVC_ENCRYPTION_KEYS: setting('k2') });
  for (const name of ['c1', `c${ROWS}`, 'late_1', 'late_4000']) {
    const response = await fetch(`${last.url}/api/credentials/${name}?include_data=true`);
    expect(response.status).toBe(200);
  }
});
