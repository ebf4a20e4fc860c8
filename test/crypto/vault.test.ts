import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Binding } from '../../actors/vault.ts';
import type { Json } from '../../machines/json.ts';
import type { EncryptionKey } from '../../src/config-values.ts';
import { type Canary, type CanaryStore, configuredKeys, openVault } from '../../src/crypto/vault.ts';

const row: Binding = { table: 'credential', row: '17', name: 'pg_auth', scope: '' };
const secret: Json = { password: 'hunter2-hunter2', nested: [1, null, { ü: '☃' }] };

let dataDir = '';
const warnings: string[] = [];
const log = { debug() {}, info() {}, warn: (message: string) => warnings.push(message), error() {} };

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'callboard-vault-'));
  warnings.length = 0;
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

describe('a sealed value', () => {
  test('opens for its own row and is in no part of the text', async () => {
    const vault = await open([key('k1')]);
    const sealed = vault.seal(row, secret);
    expect(sealed).toMatch(/^cb1\.k1\.[\w-]+\.[\w-]+$/);
    expect(Buffer.from(sealed.split('.')[3] ?? '', 'base64url').toString('latin1')).not.toContain('hunter2');
    expect(vault.open(row, sealed)).toEqual(secret);
  });

  test('comes back as any JSON went in', async () => {
    const vault = await open([key('k1')]);
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        // fast-check's JSON values are JSON by construction; -0 is the one that JSON itself loses.
        const json = JSON.parse(JSON.stringify(value)) as Json;
        expect(vault.open(row, vault.seal(row, json))).toEqual(json);
      }),
      { numRuns: 50 },
    );
  });

  test('is different each time it is sealed', async () => {
    const vault = await open([key('k1')]);
    const texts = Array.from({ length: 20 }, () => vault.seal(row, secret));
    expect(new Set(texts.map((text) => text.split('.')[2])).size).toBe(20);
    expect(new Set(texts.map((text) => text.split('.')[3])).size).toBe(20);
  });

  test.each([
    ['table', { ...row, table: 'keychain' }],
    ['row', { ...row, row: '18' }],
    ['name', { ...row, name: 'other_auth' }],
    ['scope', { ...row, scope: 'global' }],
    ['border between two strings', { ...row, row: '17pg', name: '_auth' }],
  ])('does not open when the %s is another', async (_, other) => {
    const vault = await open([key('k1')]);
    const sealed = vault.seal(row, secret);
    expect(() => vault.open(other, sealed)).toThrowError('Cannot decrypt the stored data (key id k1)');
  });

  test('does not open when any one bit of either layer is flipped', async () => {
    const vault = await open([key('k1')]);
    const [format, kid, wrapped = '', sealed = ''] = vault.seal(row, 'x').split('.');
    for (const part of [2, 3]) {
      const bytes = Buffer.from(part === 2 ? wrapped : sealed, 'base64url');
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const flipped = Buffer.from(bytes);
        flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        const text = flipped.toString('base64url');
        const forged = [format, kid, part === 2 ? text : wrapped, part === 3 ? text : sealed].join('.');
        expect(() => vault.open(row, forged), `part ${part}, bit ${bit}`).toThrowError(/decrypt/);
      }
    }
  });

  test('does not open in any spelling but its own', async () => {
    const vault = await open([key('k1')]);
    const text = vault.seal(row, secret);
    const [format = '', kid = '', wrapped = '', sealed = ''] = text.split('.');
    const cut = (part: string, bytes: number) =>
      Buffer.from(part, 'base64url').subarray(0, -bytes).toString('base64url');
    const forgeries = {
      'tag cut to 4 bytes': [format, kid, wrapped, cut(sealed, 12)],
      'wrapped tag cut': [format, kid, cut(wrapped, 12), sealed],
      'everything cut': [format, kid, wrapped, ''],
      'older format': ['cb0', kid, wrapped, sealed],
      'fifth part': [format, kid, wrapped, sealed, sealed],
      'layers swapped': [format, kid, sealed, wrapped],
      padding: [format, kid, wrapped, `${sealed}==`],
      'blank inside': [format, kid, wrapped, `${sealed.slice(0, 8)} ${sealed.slice(8)}`],
      'unknown key id': [format, 'k9', wrapped, sealed],
      empty: [],
    };
    for (const [what, parts] of Object.entries(forgeries)) {
      expect(() => vault.open(row, parts.join('.')), what).toThrowError(/^Cannot decrypt the stored data \(key id /);
    }
  });

  test('of two rows cannot lend its data key to the other', async () => {
    const vault = await open([key('k1')]);
    const one = vault.seal(row, 'one').split('.');
    const two = vault.seal(row, 'two').split('.');
    expect(() => vault.open(row, [...one.slice(0, 3), two[3]].join('.'))).toThrowError(/decrypt/);
  });

  test('names no secret and no cause in its refusal', async () => {
    const vault = await open([key('k1')]);
    const refusal = caught(() => vault.open({ ...row, row: '18' }, vault.seal(row, secret)));
    expect(refusal).toMatchObject({ code: 'decrypt_failed', data: {} });
    expect(refusal).not.toHaveProperty('cause');
  });
});

describe('a key ring', () => {
  test('seals with its first key and opens with all', async () => {
    const [old, fresh] = [key('k1'), key('k2')];
    const store = memoryStore();
    const before = (await open([old], store)).seal(row, secret);
    const vault = await open([fresh, old], store);
    expect(vault.activeKid).toBe('k2');
    expect(vault.open(row, before)).toEqual(secret);
    expect(vault.seal(row, secret)).toMatch(/^cb1\.k2\./);
  });

  test('moves a value to the first key once', async () => {
    const [old, fresh] = [key('k1'), key('k2')];
    const store = memoryStore();
    const before = (await open([old], store)).seal(row, secret);
    const vault = await open([fresh, old], store);
    const moved = vault.rewrap(row, before) ?? '';
    expect(vault.open(row, moved)).toEqual(secret);
    expect(moved).toMatch(/^cb1\.k2\./);
    expect(vault.rewrap(row, moved)).toBeNull();
    expect(() => vault.rewrap({ ...row, name: 'b' }, before)).toThrowError(/key id k1/);
  });

  test('takes the single key as k1, after the ones of the list', () => {
    const [a, b] = [key('a'), key('b')];
    expect(configuredKeys({ encryptionKeys: [a], encryptionKey: b.key })).toEqual([a, { kid: 'k1', key: b.key }]);
    expect(configuredKeys({ encryptionKeys: [key('k1')], encryptionKey: b.key })).toHaveLength(1);
    expect(configuredKeys({ encryptionKeys: [], encryptionKey: null })).toEqual([]);
  });
});

describe('opening the vault', () => {
  test.each([
    ['one byte over and over', Buffer.alloc(32, 7), /repeats one byte/],
    ['a short pattern', Buffer.from('0123456789abcdef0123456789abcdef'), /repeats itself/],
    ['a counting sequence', Buffer.from(Array.from({ length: 32 }, (_, i) => i)), /plain sequence/],
    ['a known example', Buffer.from('12345678901234567890123456789012'), /known example/],
    ['another length', randomBytes(16), /32 bytes/],
  ])('refuses %s as a key', async (_, bytes, reason) => {
    const store = memoryStore();
    await expect(open([{ kid: 'k1', key: bytes }], store)).rejects.toThrowError(reason);
    expect(store.rows).toHaveLength(0);
  });

  test('refuses another key under a known id', async () => {
    const store = memoryStore();
    await open([key('k1')], store);
    await expect(open([key('k1')], store)).rejects.toMatchObject({
      exitCode: 78,
      problems: [expect.stringMatching(/^The encryption key k1 is not the key of that id/)],
    });
  });

  test('refuses to start without a key that values may still need', async () => {
    const store = memoryStore();
    const [old, fresh] = [key('k1'), key('k2')];
    await open([fresh, old], store);
    await expect(open([fresh], store)).rejects.toThrowError(/k1 is missing/);
  });

  test('forgets a retired key, and refuses it as the first', async () => {
    const store = memoryStore();
    const [old, fresh] = [key('k1'), key('k2')];
    await open([fresh, old], store);
    store.rows = store.rows.map((each) => ({ ...each, retired: each.kid === 'k1' }));
    expect((await open([fresh], store)).activeKid).toBe('k2');
    await expect(open([old, fresh], store)).rejects.toThrowError(/was retired/);
  });

  test('makes a key file for its owner alone, says so once, and uses it again', async () => {
    const store = memoryStore();
    const options = { keys: [], dataDir: join(dataDir, 'new'), allowGenerate: true };
    const sealed = (await openVault(options, store, log)).seal(row, secret);
    expect(warnings).toHaveLength(1);
    const file = join(options.dataDir, 'encryption.key');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await openVault(options, store, log)).open(row, sealed)).toEqual(secret);
    expect(warnings).toHaveLength(1);
  });

  test('gives two servers that start at once the same key', async () => {
    const store = memoryStore();
    const options = { keys: [], dataDir, allowGenerate: true };
    const [one, two] = await Promise.all([openVault(options, store, log), openVault(options, store, log)]);
    expect(two.open(row, one.seal(row, secret))).toEqual(secret);
    expect((await readFile(join(dataDir, 'encryption.key'), 'utf8')).trim()).toHaveLength(44);
  });

  test('does not make a new key where values wait for a lost one', async () => {
    const store = memoryStore();
    await open([key('k1')], store);
    await expect(openVault({ keys: [], dataDir, allowGenerate: true }, store, log)).rejects.toThrowError(
      /encryption.key is missing, but this database holds values sealed with key k1/,
    );
    await expect(stat(join(dataDir, 'encryption.key'))).rejects.toThrowError(/ENOENT/);
  });

  test('refuses a key file that holds no key', async () => {
    await writeFile(join(dataDir, 'encryption.key'), 'not a key');
    await expect(openVault({ keys: [], dataDir, allowGenerate: true }, memoryStore(), log)).rejects.toThrowError(
      /does not hold one key/,
    );
  });

  test('needs a configured key away from one machine', async () => {
    await expect(openVault({ keys: [], dataDir, allowGenerate: false }, memoryStore(), log)).rejects.toThrowError(
      /SVC_ENCRYPTION_KEY is required/,
    );
  });
});

function key(kid: string): EncryptionKey {
  return { kid, key: randomBytes(32) };
}

function open(keys: readonly EncryptionKey[], store: CanaryStore = memoryStore()) {
  return openVault({ keys, dataDir, allowGenerate: false }, store, log);
}

function memoryStore(): CanaryStore & { rows: Canary[] } {
  return {
    rows: [],
    list() {
      return Promise.resolve([...this.rows]);
    },
    add(kid, canary) {
      const found = this.rows.find((each) => each.kid === kid);
      const row = found ?? { kid, canary, retired: false };
      if (found === undefined) this.rows.push(row);
      return Promise.resolve(row);
    },
  };
}

function caught(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
