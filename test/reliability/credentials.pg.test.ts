/** Credentials and the keychain at the door (reliability §5 J): what is stored, who may read it, how long it lives. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { queryRows } from '../support/postgres.ts';
import { type Door, openDoor } from './in-process.ts';

let door: Door;
let catalogId: number;
beforeAll(async () => {
  door = await openDoor();
  catalogId = await door.register('reliability/keychain');
});
afterAll(() => door?.[Symbol.asyncDispose]());

let names = 0;
const freshName = () => `entry_${++names}`;
const secret = () => `canary-${randomBytes(8).toString('hex')}`;
const reveal = (name: string) => door.call('GET', `/api/credentials/${name}?include_data=true`);
const sql = (text: string) => queryRows<Record<string, unknown>>(door.postgres.url, text);

async function store(name: string, more: object = {}, token: object = { access_token: secret() }) {
  return door.call('POST', `/api/keychain/${catalogId}/${name}`, {
    token_data: token,
    credential_type: 'bearer',
    ...more,
  });
}
const read = (name: string, query = '') => door.call('GET', `/api/keychain/${catalogId}/${name}${query}`);

describe('a stored value that was touched behind the service', () => {
  const FLIP = `overlay(data_encrypted placing
    (case when substr(data_encrypted, length(data_encrypted) - 9, 1) = 'A' then 'B' else 'A' end)
    from length(data_encrypted) - 9 for 1)`;

  it.each<[string, (name: string, other: string) => string]>([
    ['has a byte flipped', (name) => `update core.credential set data_encrypted = ${FLIP} where name = '${name}'`],
    [
      'comes from another row',
      (name, other) => `update core.credential set data_encrypted =
        (select data_encrypted from core.credential where name = '${other}') where name = '${name}'`,
    ],
    [
      'comes from another table',
      (name) => `update core.credential set data_encrypted = (select data_encrypted from core.keychain limit 1)
        where name = '${name}'`,
    ],
    [
      'lost all but four bytes of its tag',
      (name) => `update core.credential set data_encrypted = left(data_encrypted, length(data_encrypted) - 16)
        where name = '${name}'`,
    ],
    [
      'claims another key',
      (name) => `update core.credential set data_encrypted = replace(data_encrypted, 'cb1.k1.', 'cb1.k0.')
        where name = '${name}'`,
    ],
  ])('SE-03 is refused when it %s, with an audit row and no detail', async (_how, tamper) => {
    const [name, other] = [freshName(), freshName()];
    const value = secret();
    for (const each of [name, other])
      await door.call('POST', '/api/credentials', { name: each, type: 'bearer', data: { token: value } });
    await store(freshName());
    await sql(tamper(name, other));
    const { status, json, text } = await reveal(name);
    expect({ status, json }).toEqual({
      status: 500,
      json: {
        detail: expect.stringMatching(/^Cannot decrypt the stored data \(key id k\d\)$/),
        code: 'decrypt_failed',
        request_id: expect.any(String),
      },
    });
    expect(text).not.toMatch(/cb1|cipher|stack|canary/i);
    expect(
      await sql(
        `select action, target, outcome from core.audit where target = '${name}' order by audit_id desc limit 1`,
      ),
    ).toEqual([{ action: 'credential.reveal', target: name, outcome: 'error' }]);
    expect(door.lines.join('\n')).not.toContain(value);
  });

  test('SE-03 an old format of sealed text cannot be stored at all', async () => {
    const name = freshName();
    await door.call('POST', '/api/credentials', { name, type: 'bearer', data: { token: secret() } });
    await expect(
      sql(`update core.credential set data_encrypted = 'cb0.k1.a.b' where name = '${name}'`),
    ).rejects.toMatchObject({ code: '23514' });
    expect((await reveal(name)).status).toBe(200);
  });

  test('SE-03 a keychain entry is refused alike, also renamed or in another scope', async () => {
    const [one, two] = [freshName(), freshName()];
    await store(one);
    await store(two);
    await sql(`update core.keychain set data_encrypted =
      (select data_encrypted from core.keychain where keychain_name = '${two}') where keychain_name = '${one}'`);
    expect(await read(one)).toMatchObject({ status: 500, json: { code: 'decrypt_failed' } });
    expect(
      await sql(`select action, outcome from core.audit where target = '${one}' order by audit_id desc limit 1`),
    ).toEqual([{ action: 'keychain.reveal', outcome: 'error' }]);
  });
});

describe('a schema', () => {
  const schema = {
    fields: ['api_token', 'port', 'tags', 'ratio', 'on', 'more'],
    required: ['api_token', 'port'],
    types: { port: 'integer', tags: 'array', ratio: 'number', on: 'boolean', more: 'object', api_token: 'string' },
  };

  it.each<[object, readonly string[]]>([
    [
      { port: '80', tags: 'x', odd: 1 },
      [
        'Missing required field: api_token',
        "Field 'port' must be integer, got string",
        "Field 'tags' must be array, got string",
        'Unexpected fields: odd',
      ],
    ],
    [{}, ['Missing required field: api_token', 'Missing required field: port']],
    [{ api_token: 't', port: true }, ["Field 'port' must be integer, got boolean"]],
    [{ api_token: 't', port: 1.5 }, ["Field 'port' must be integer, got number"]],
    [{ api_token: 't', port: null }, ["Field 'port' must be integer, got null"]],
    [{ api_token: 1, port: 1 }, ["Field 'api_token' must be string, got integer"]],
    [{ api_token: 't', port: 1, on: 0 }, ["Field 'on' must be boolean, got integer"]],
    [{ api_token: 't', port: 1, ratio: false }, ["Field 'ratio' must be number, got boolean"]],
    [{ api_token: 't', port: 1, more: [] }, ["Field 'more' must be object, got array"]],
    [{ api_token: 't', port: 1, tags: {} }, ["Field 'tags' must be array, got object"]],
    [{ api_token: 't', port: 1, b: 1, a: 2 }, ['Unexpected fields: b, a']],
  ])('SE-06 of a credential refuses %j at the door, in this order', async (data, errors) => {
    const name = freshName();
    const { status, json } = await door.call('POST', '/api/credentials', { name, type: 'custom', data, schema });
    expect({ status, json }).toMatchObject({
      status: 400,
      json: { detail: { message: 'Credential validation failed', errors } },
    });
    expect((await reveal(name)).status).toBe(404);
    const entry = await store(name, { schema }, data);
    expect(entry).toMatchObject({
      status: 400,
      json: { detail: { message: `Token validation failed: ${errors.join('; ')}`, errors } },
    });
    expect((await read(name)).json).toMatchObject({ status: 'not_found' });
  });

  it.each<object>([
    { api_token: 't', port: 2.0, ratio: 1, tags: [], on: false, more: {} },
    { api_token: '', port: 0 },
  ])('SE-06 takes %j', async (data) => {
    const name = freshName();
    expect(await door.call('POST', '/api/credentials', { name, type: 'custom', data, schema })).toMatchObject({
      status: 200,
      json: { name, data: null },
    });
    expect((await reveal(name)).json).toMatchObject({ data });
  });
});

describe('an identifier', () => {
  test('SE-07 of digits is an id first and a name then, and one never reads the other', async () => {
    const save = async (name: string, data: object) => {
      const { json } = await door.call('POST', '/api/credentials', { name, type: 'custom', data });
      return String((json as { id: unknown }).id);
    };
    const first = await save(freshName(), { of: 'first' });
    const second = await save(first, { of: 'second' });
    expect((await reveal(first)).json).toMatchObject({ id: first, data: { of: 'first' } });
    expect((await reveal(second)).json).toMatchObject({ id: second, name: first, data: { of: 'second' } });
    await door.call('DELETE', `/api/credentials/${first}`);
    expect((await reveal(first)).json).toMatchObject({ id: second, name: first });
    await save('000123', { of: 'zeros' });
    expect((await reveal('000123')).json).toMatchObject({ name: '000123' });
    expect((await reveal('123')).status).toBe(404);
  });

  it.each(['a/b', 'a%2Fb', 'é', 'a b', '', '.hidden', 'x'.repeat(129), 'x'.repeat(300), 'a:b', 'a\u0000b'])(
    'SE-07 cannot be %j when it is a name, and finds nothing',
    async (name) => {
      const saved = await door.call('POST', '/api/credentials', { name, type: 'custom', data: { a: 1 } });
      expect(saved.status).toBe(422);
      if (name === '') return;
      const found = await reveal(encodeURIComponent(name));
      expect([400, 404, 422]).toContain(found.status);
    },
  );
});

describe('a lifetime', () => {
  const NOW = Date.now();
  const HOUR = 3_600_000;

  it.each<[object, number | 'refused']>([
    [{ ttl_seconds: 0 }, 0],
    [{ ttl_seconds: -1 }, -1],
    [{ ttl_seconds: 0.5 }, 'refused'],
    [{ ttl_seconds: 1e15 }, 'refused'],
    [{ ttl_seconds: -3.3e8 }, 'refused'],
    [{ ttl_seconds: 3.2e8 }, 3.2e8],
    [{ ttl_seconds: '60' }, 'refused'],
    [{ expires_at: 'infinity' }, 'refused'],
    [{ expires_at: '-infinity' }, 'refused'],
    [{ expires_at: '2026-02-30T00:00:00Z' }, 'refused'],
    [{ expires_at: 'tomorrow' }, 'refused'],
    [{}, 86_400],
    [{ scope_type: 'local', execution_id: 7 }, 3600],
    [{ scope_type: 'shared', execution_id: 7 }, 86_400],
  ])('SE-10 of %j is %s seconds, and the message says so', async (more, seconds) => {
    const name = freshName();
    const { status, json } = await store(name, more);
    if (seconds === 'refused') {
      expect(status).toBe(422);
      expect((await read(name)).json).toMatchObject({ status: 'not_found' });
      return;
    }
    expect({ status, json }).toMatchObject({
      status: 200,
      json: {
        status: 'success',
        message: `Keychain entry cached successfully with ${seconds}s TTL`,
        ttl_seconds: seconds,
        expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      },
    });
    if (seconds <= 0) expect((await read(name)).json).toMatchObject({ status: 'expired', expired: true });
  });

  it.each<[string, string]>([
    ['an offset', new Date(NOW + 3 * HOUR).toISOString().replace('Z', '+02:00')],
    ['UTC', new Date(NOW + HOUR).toISOString()],
    ['the past', new Date(NOW - HOUR).toISOString()],
  ])('SE-10 that ends at an instant with %s is told in UTC and wins over seconds', async (_what, expires_at) => {
    const name = freshName();
    const { json } = await store(name, { expires_at, ttl_seconds: 60 });
    expect(json).toMatchObject({ expires_at: new Date(expires_at).toISOString() });
    const ended = Date.parse(expires_at) < NOW;
    expect((await read(name)).json).toMatchObject({ status: ended ? 'expired' : 'success' });
  });
});

describe('reads at the same time', () => {
  test('SE-11 64 of them count 64, each with a number of its own', async () => {
    const name = freshName();
    await store(name);
    const before = await sql(`select accessed_at from core.keychain where keychain_name = '${name}'`);
    const answers = await Promise.all(Array.from({ length: 64 }, () => read(name)));
    const counts = answers.map(({ json }) => (json as { access_count: number }).access_count);
    expect([...counts].sort((a, b) => a - b)).toEqual(Array.from({ length: 64 }, (_, index) => index + 1));
    const after = await sql(`select access_count, accessed_at from core.keychain where keychain_name = '${name}'`);
    expect(after).toMatchObject([{ access_count: 64 }]);
    expect(after[0]?.['accessed_at']).not.toEqual(before[0]?.['accessed_at']);
  });

  test('SE-11 around the instant of expiry are successes before it and expired after it', async () => {
    const name = freshName();
    const { json } = await store(name, { expires_at: new Date(Date.now() + 500).toISOString() });
    const end = Date.parse((json as { expires_at: string }).expires_at);
    const seen: string[] = [];
    const reader = async () => {
      for (let isOver = false; !isOver; ) {
        const answer = (await read(name)).json as { status: string; accessed_at?: string; ttl_seconds?: number };
        seen.push(answer.status);
        if (answer.status === 'success') {
          expect(Date.parse(answer.accessed_at ?? '')).toBeLessThan(end);
          expect(answer.ttl_seconds).toBeGreaterThan(0);
        } else {
          expect(answer).not.toHaveProperty('token_data');
          isOver = true;
        }
      }
    };
    await Promise.all(Array.from({ length: 16 }, reader));
    const counted = await sql(`select access_count from core.keychain where keychain_name = '${name}'`);
    expect(counted).toEqual([{ access_count: seen.filter((status) => status === 'success').length }]);
    expect(new Set(seen)).toEqual(new Set(['success', 'expired']));
  });
});
