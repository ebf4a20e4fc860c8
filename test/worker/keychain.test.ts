import { describe, expect, it, test } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import type { TokenRequest } from '../../machines/keychain/renewal.ts';
import { ApiError, TransportError } from '../../src/client/errors.ts';
import { TokenRequestFailed } from '../../src/tools/http/token-request.ts';
import type { KeychainReading } from '../../src/wire/keychain.ts';
import { executeCommand } from '../../src/worker/execute.ts';
import { createKeychainReader, type EntryRequest, type KeychainReader } from '../../src/worker/keychain.ts';
import { commandOf, executeDeps, never, ok, scripted } from './commands.ts';

const KEY = { keychain_name: 'billing', catalog_id: 2003, cache_key: 'billing:2003:global' };
const RENEW = {
  endpoint: 'https://id.test/token',
  method: 'POST',
  headers: {},
  data: { client_secret: 'canary-client' },
  token_field: 'access_token',
  ttl_field: 'expires_in',
};
const KINDS = { credential_type: 'oauth2_client_credentials', cache_type: 'token' } as const;
const NOW = Date.UTC(2026, 10, 20, 10, 15);
const until = new Date(NOW + 30_000).toISOString();

const live = (token: string, more: Partial<KeychainReading & { status: 'success' }> = {}): KeychainReading => ({
  status: 'success',
  ...KEY,
  token_data: { access_token: token },
  ...KINDS,
  scope_type: 'global',
  expires_at: until,
  ttl_seconds: 30,
  accessed_at: until,
  access_count: 1,
  auto_renew: true,
  expired: false,
  ...more,
});
const expired = (granted: boolean): KeychainReading => ({
  status: 'expired',
  ...KEY,
  auto_renew: true,
  expired: true,
  renew_config: RENEW,
  ...KINDS,
  renewal: { granted, until },
});
const expiredForGood: KeychainReading = { status: 'expired', ...KEY, auto_renew: false, expired: true };
const missing: KeychainReading = { status: 'not_found', ...KEY };

type Line = readonly [string, Readonly<Record<string, unknown>> | undefined];

/** Readings one after another, the last one for ever. */
function world(
  readings: readonly (KeychainReading | Error)[],
  answer: () => Promise<{ status: number; body: JsonMap }> = token('new'),
) {
  const asked: { scope: string; claimRenewal: boolean }[] = [];
  const stored: JsonMap[] = [];
  const sent: TokenRequest[] = [];
  const lines: Line[] = [];
  const time = { now: NOW };
  const reader = createKeychainReader({
    client: {
      async keychainRead(_catalogId, _name, { scope, claimRenewal }) {
        const reading = readings[Math.min(asked.length, readings.length - 1)] ?? missing;
        asked.push({ scope, claimRenewal });
        if (reading instanceof Error) throw reading;
        return reading;
      },
      async keychainStore(_catalogId, _name, { body }) {
        stored.push(body);
      },
    },
    requests: {
      send(request) {
        sent.push(request);
        return answer();
      },
    },
    log: { warn: (message, fields) => lines.push([message, fields]) },
    workerId: 'worker-7',
    now: () => time.now,
  });
  return { reader, asked, stored, sent, lines, time };
}

function token(access_token: string) {
  return async () => ({ status: 200, body: { access_token, expires_in: 90 } });
}

const request: EntryRequest = {
  catalogId: 2003,
  name: 'billing',
  scope: 'global',
  executionId: 41007,
  step: 'fetch',
  signal: never,
};
const fields = { keychain_name: 'billing', scope_type: 'global', execution_id: 41007, step: 'fetch' };

describe('an entry', () => {
  test('that is live is used, and nothing is asked of anyone else', async () => {
    const { reader, sent, lines } = world([live('t')]);
    expect(await reader.resolve(request)).toEqual({ available: true, data: { access_token: 't' } });
    expect([sent, lines]).toEqual([[], []]);
  });

  test('that is not declared is looked for in local, shared, then global', async () => {
    const { reader, asked } = world([missing, missing, live('t')]);
    expect(await reader.resolve({ ...request, scope: null })).toMatchObject({ available: true });
    expect(asked.map((each) => each.scope)).toEqual(['local', 'shared', 'global']);
  });

  it.each([
    ['is not there', missing, "KEYCHAIN: Entry 'billing' not found", 'not_found'],
    ['expired for good', expiredForGood, "KEYCHAIN: Entry 'billing' expired", 'expired'],
  ])('that %s says so at warn', async (_what, reading, sentence, reason) => {
    const { reader, lines, sent } = world([reading]);
    expect(await reader.resolve(request)).toEqual({ available: false, reason });
    expect(lines).toEqual([[sentence, fields]]);
    expect(sent).toEqual([]);
  });

  test('that the server cannot open is not available', async () => {
    const { reader } = world([new ApiError(500, { code: 'decrypt_failed' }, null)]);
    expect(await reader.resolve(request)).toEqual({ available: false, reason: 'decrypt_failed' });
  });

  it.each([new TransportError('lost'), new ApiError(503, { code: 'db_unavailable' }, null)])(
    'that cannot be asked for is trouble with the connection: %s',
    async (error) => {
      await expect(world([error]).reader.resolve(request)).rejects.toMatchObject({
        name: 'TransportError',
        message: "keychain entry 'billing' cannot be read: the server does not answer",
      });
    },
  );
});

describe('renewal', () => {
  test('asks once and stores the token back in the same scope', async () => {
    const { reader, sent, stored, lines } = world([{ ...expired(true), cache_key: 'billing:2003:41007' }]);
    const local = { ...request, scope: 'local' } as const;
    expect(await reader.resolve(local)).toMatchObject({ data: { access_token: 'new' } });
    expect(sent).toMatchObject([{ url: RENEW.endpoint, method: 'POST', body: 'client_secret=canary-client' }]);
    expect(stored).toEqual([
      {
        token_data: { access_token: 'new', expires_in: 90 },
        ...KINDS,
        scope_type: 'local',
        execution_id: 41007,
        ttl_seconds: 90,
        auto_renew: true,
        renew_config: RENEW,
      },
    ]);
    expect(lines).toEqual([]);
  });

  it.each([
    ['answers 500', async () => ({ status: 500, body: {} }), 'the token endpoint answered HTTP 500'],
    ['answers 201', async () => ({ status: 201, body: { access_token: 't' } }), 'the token endpoint answered HTTP 201'],
    [
      'does not answer',
      () => Promise.reject(new TokenRequestFailed('the endpoint did not answer in time')),
      'the endpoint did not answer in time',
    ],
  ])('fails when the endpoint %s, and is not repeated', async (_what, answer, reason) => {
    const { reader, sent, stored, lines } = world([expired(true), expired(false)], answer);
    const results = [await reader.resolve(request), await reader.resolve(request)];
    expect(results).toEqual([
      { available: false, reason: 'renewal_failed' },
      { available: false, reason: 'renewal_failed' },
    ]);
    expect([sent.length, stored.length]).toEqual([1, 0]);
    expect(lines).toEqual(
      Array.from({ length: 2 }, () => ["KEYCHAIN: Failed to renew 'billing'", { ...fields, reason }]),
    );
    expect(JSON.stringify(lines)).not.toContain('canary');
  });

  test('that comes early and fails leaves the token that is still good', async () => {
    const early = live('old', { renew_config: RENEW, renewal: { granted: true, until } });
    const { reader, lines } = world([early], async () => ({ status: 500, body: {} }));
    expect(await reader.resolve(request)).toMatchObject({ data: { access_token: 'old' } });
    expect(lines.map(([sentence]) => sentence)).toEqual(["KEYCHAIN: Failed to renew 'billing'"]);
  });

  test('that comes early is used at once, by the one who was granted it', async () => {
    const granted = live('old', { renew_config: RENEW, renewal: { granted: true, until } });
    const waiting = live('old', { renewal: { granted: false, until } });
    const { reader, sent } = world([granted, waiting]);
    expect(await reader.resolve(request)).toMatchObject({ data: { access_token: 'new' } });
    expect(await reader.resolve(request)).toMatchObject({ data: { access_token: 'old' } });
    expect(sent).toHaveLength(1);
  });

  test('of another worker is waited for and read again', async () => {
    const { reader, asked, sent } = world([expired(false), expired(false), live('theirs')]);
    expect(await reader.resolve(request)).toMatchObject({ data: { access_token: 'theirs' } });
    expect(asked.map((each) => each.claimRenewal)).toEqual([true, false, false, false]);
    expect(sent).toEqual([]);
  });

  test('of another worker is looked for by one of those who wait here, whoever of them is stopped', async () => {
    const readings = [...Array.from({ length: 55 }, () => expired(false)), live('theirs')];
    const { reader, asked, sent } = world(readings);
    const stop = new AbortController();
    const first = reader.resolve({ ...request, signal: stop.signal });
    const others = Array.from({ length: 49 }, () => reader.resolve(request));
    stop.abort(new Error('stopped'));
    await expect(first).rejects.toThrow('stopped');
    for (const value of await Promise.all(others)) expect(value).toMatchObject({ data: { access_token: 'theirs' } });
    // Once each, then some looks of one, then once each of those who are left.
    expect(asked.length).toBeLessThan(50 + 10 + 50);
    expect(sent).toEqual([]);
  });

  test('of another worker that vanished becomes ours when its grant is over', async () => {
    const { reader, time, sent } = world([expired(false), expired(true)]);
    time.now = NOW + 30_001;
    expect(await reader.resolve(request)).toMatchObject({ data: { access_token: 'new' } });
    expect(sent).toHaveLength(1);
  });

  test('of another worker that never comes fails the try', async () => {
    const { reader, time, lines } = world([expired(false)]);
    time.now = NOW + 30_001;
    expect(await reader.resolve(request)).toEqual({ available: false, reason: 'renewal_failed' });
    expect(lines.map(([sentence]) => sentence)).toEqual(["KEYCHAIN: Failed to renew 'billing'"]);
  });

  test('stops waiting when its command is stopped', async () => {
    const { reader } = world([expired(false)]);
    const stop = new AbortController();
    const waiting = reader.resolve({ ...request, signal: stop.signal });
    stop.abort(new Error('stopped'));
    await expect(waiting).rejects.toThrow();
  });
});

describe('a try', () => {
  const values: KeychainReader = {
    resolve: async ({ name }) =>
      name === 'gone'
        ? { available: false, reason: 'expired' }
        : { available: true, data: { access_token: `canary-${name}-token`, token_type: 'Bearer' } },
  };
  const run = (tool: JsonMap, keychain: NonNullable<ReturnType<typeof commandOf>['context']['keychain']>) => {
    const http = scripted('http', [
      (call) => ok({ echo: call.fields['headers'] ?? null, all: `x${String(call.fields['url'])}x` }),
    ]);
    const asked: EntryRequest[] = [];
    const reader: KeychainReader = {
      resolve: (each) => {
        asked.push(each);
        return values.resolve(each);
      },
    };
    const report = executeCommand(
      commandOf({ tool, context: { keychain } }),
      { ...executeDeps([http.tool]), keychain: reader },
      never,
    );
    return { report, asked, calls: http.calls };
  };

  test('reads what it mentions in the declared scope, uses it, and lets none of it leave', async () => {
    const headers = { Authorization: 'Bearer {{ keychain.one.access_token }}' };
    const { report, asked, calls } = run({ kind: 'http', url: 'u', headers }, { one: 'local', other: 'global' });
    const text = JSON.stringify(await report);
    expect(calls[0]?.fields['headers']).toEqual({ Authorization: 'Bearer canary-one-token' });
    expect(asked).toMatchObject([{ name: 'one', scope: 'local', catalogId: 2003, executionId: 41_007, step: 'fetch' }]);
    expect(text).toContain('Bearer ***');
    expect(text).not.toContain('canary');
  });

  test('hides a secret in every form it may have taken', async () => {
    const url = '{{ keychain.one.access_token | b64encode }}/{{ keychain.one.access_token | urlencode }}';
    const { report } = run({ kind: 'http', url }, { one: null });
    const text = JSON.stringify(await report);
    expect(text).toContain('***');
    expect(text).not.toContain(Buffer.from('canary-one-token').toString('base64').slice(0, 12));
  });

  it.each([
    '{{ keychain.gone.access_token }}',
    "{{ keychain.gone.access_token | default('x') }}",
    '{{ keychain.gone | tojson }}',
  ])('fails where it needs an entry that is not available: %s', async (url) => {
    const { report, calls } = run({ kind: 'http', url }, { gone: 'global' });
    expect(await report).toMatchObject({
      outcome: 'error',
      error: { kind: 'missing_reference', message: "keychain entry 'gone' is not available (expired)" },
    });
    expect(calls).toEqual([]);
  });

  test('that indexes the keychain by a value reads every declared entry', async () => {
    const { report, asked, calls } = run(
      { kind: 'http', url: '{{ keychain[input.which].access_token }}', input: { which: 'two' } },
      { one: 'global', two: 'shared' },
    );
    await report;
    expect(asked.map((each) => each.name)).toEqual(['one', 'two']);
    expect(calls[0]?.fields['url']).toBe('canary-two-token');
  });

  test('reads an entry anew for each task that mentions it, and for no other', async () => {
    const noop = scripted('noop', [ok({ status: 'ok' })]);
    const asked: string[] = [];
    const reader: KeychainReader = {
      resolve: (each) => {
        asked.push(each.name);
        return values.resolve(each);
      },
    };
    const tool = [
      { kind: 'noop', name: 'a', result: 1 },
      { kind: 'noop', name: 'b', result: '{{ keychain.one.access_token }}' },
      { kind: 'noop', name: 'c', result: '{{ keychain.one.access_token }}' },
    ];
    const command = commandOf({ tool, context: { keychain: { one: 'global' } } });
    await executeCommand(command, { ...executeDeps([noop.tool]), keychain: reader }, never);
    expect(asked).toEqual(['one', 'one']);
  });
});
