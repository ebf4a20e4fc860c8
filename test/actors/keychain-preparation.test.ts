import { describe, expect, it, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import {
  createKeychainPreparation,
  type KeychainSources,
  type ManagedSecret,
  SourceError,
} from '../../actors/keychain-preparation.ts';
import { createKeychainService } from '../../actors/keychain-service.ts';
import { createMemoryKeychain } from '../../actors/memory/memory-keychain.ts';
import { createSeededIds } from '../../actors/memory/seeded-ids.ts';
import { createStepClock } from '../../actors/memory/step-clock.ts';
import type { Log } from '../../actors/ports.ts';
import type { JsonMap } from '../../machines/json.ts';
import type { TokenRequest } from '../../machines/keychain/renewal.ts';
import { DEFAULT_LIMITS } from '../../machines/playbook/template/run.ts';
import { quiet } from '../support/postgres.ts';
import { plainVault } from './plain-vault.ts';

interface Options {
  readonly answer?: (request: TokenRequest) => Promise<{ status: number; body: JsonMap | undefined }>;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly managed?: KeychainSources['managed'];
}

function world({
  answer = async () => ({ status: 200, body: { access_token: 'canary-token' } }),
  secrets = {},
  managed = () => Promise.reject(new SourceError('no secret manager is expected here')),
}: Options = {}) {
  const clock = createStepClock();
  const store = createMemoryKeychain({ clock, hasCatalogEntry: () => true, execution: async () => null });
  const lines: JsonMap[] = [];
  const log: Log = { ...quiet, warn: (message, fields) => lines.push({ message, ...(fields as JsonMap) }) };
  const keychain = createKeychainService({
    store,
    vault: plainVault,
    ids: createSeededIds(),
    clock,
    caller: () => OPEN_CALLER,
    log,
    meter: { count() {}, observe() {}, gauge() {} },
    refreshSeconds: 300,
  });
  const sent: TokenRequest[] = [];
  const asked: ManagedSecret[] = [];
  const sources: KeychainSources = {
    request: (request) => {
      sent.push(request);
      return answer(request);
    },
    managed: (request, signal) => {
      asked.push(request);
      return managed(request, signal);
    },
    secret: (variable) => secrets[variable],
    credential: async (name) =>
      name === 'client' ? { type: 'oauth2', data: { client_id: 'me', client_secret: 'canary-client' } } : null,
    deadline: () => new AbortController().signal,
  };
  const preparation = createKeychainPreparation({
    keychain,
    store,
    vault: plainVault,
    sources,
    limits: DEFAULT_LIMITS,
    log,
  });
  const prepare = (definitions: readonly JsonMap[], more: { executionId?: number; workload?: JsonMap } = {}) =>
    preparation.prepare({
      executionId: 41007,
      rootExecutionId: 41000,
      parentExecutionId: null,
      catalogId: 2003,
      workload: {},
      args: {},
      definitions,
      ...more,
    });
  const reading = async (name: string, scope: 'global' | 'local' = 'global') => {
    const executionId = scope === 'local' ? 41007 : null;
    return keychain.read({ catalogId: 2003, name, scope, executionId, claimRenewal: false, workerId: null });
  };
  return { clock, store, keychain, preparation, prepare, reading, sent, asked, lines };
}

const entry = (more: JsonMap): JsonMap => ({
  name: 'k',
  scope: 'global',
  kind: 'oauth2',
  endpoint: 'https://id.test/t',
  ...more,
});

describe('a start', () => {
  test('resolves entries in order; a later one sees the earlier ones and the inputs', async () => {
    const { prepare, reading, sent } = world();
    await prepare(
      [
        entry({ name: 'client', kind: 'credential', credential: 'client' }),
        entry({
          endpoint: '{{ workload.host }}/{{ path }}',
          data: { client_secret: '{{ keychain.client.client_secret }}' },
          auto_renew: true,
        }),
      ],
      { workload: { host: 'https://id.test', path: 'token' } },
    );
    expect(sent).toMatchObject([{ url: 'https://id.test/token', body: 'client_secret=canary-client' }]);
    expect(await reading('client')).toMatchObject({ data: { client_id: 'me' }, entry: { credentialType: 'oauth2' } });
    expect(await reading('k')).toMatchObject({
      status: 'success',
      data: { access_token: 'canary-token' },
      entry: { autoRenew: true },
    });
  });

  test('reuses a live entry and fetches an expired one anew', async () => {
    const { prepare, sent, clock } = world();
    const definitions = [entry({ ttl_seconds: 60 })];
    await prepare(definitions);
    await prepare(definitions, { executionId: 41008 });
    expect(sent).toHaveLength(1);
    clock.advance(60_000);
    await prepare(definitions, { executionId: 41009 });
    expect(sent).toHaveLength(2);
  });

  test('fetches once for all that start together', async () => {
    const gate = Promise.withResolvers<{ status: number; body: JsonMap }>();
    const { prepare, sent } = world({ answer: () => gate.promise });
    const starts = Array.from({ length: 50 }, (_, index) => prepare([entry({})], { executionId: 41_100 + index }));
    await new Promise((resolve) => setImmediate(resolve));
    gate.resolve({ status: 200, body: { access_token: 't' } });
    await Promise.all(starts);
    expect(sent).toHaveLength(1);
  });

  it.each([
    ['the definition', { ttl_seconds: 120 }, 120],
    ['the answer', {}, 777],
  ])('takes the lifetime from %s', async (_where, more, seconds) => {
    const { prepare, store } = world({
      answer: async () => ({ status: 200, body: { access_token: 't', expires_in: 777 } }),
    });
    await prepare([entry(more)]);
    const row = await store.find('k:2003:global');
    expect(Date.parse(row?.expiresAt ?? '') - Date.parse(row?.at ?? '')).toBe(seconds * 1000);
  });

  it.each([
    [
      'a refused request',
      {},
      async () => ({ status: 401, body: { error: 'canary-echo' } }),
      'the endpoint answered HTTP 401',
    ],
    [
      'no answer',
      {},
      () => Promise.reject(new SourceError('the endpoint cannot be reached (CONN_REFUSED)')),
      'the endpoint cannot be reached (CONN_REFUSED)',
    ],
    ['a bug', {}, () => Promise.reject(new TypeError('canary-bug')), 'TypeError'],
    [
      'a missing secret',
      { kind: 'secret_manager', provider: 'env', map: { a: 'nope' } },
      undefined,
      'the server has no variable SVC_SECRET_NOPE',
    ],
    [
      'a foreign provider',
      { kind: 'secret_manager', provider: 'vault', map: {} },
      undefined,
      "secret provider 'vault' is not available in this build",
    ],
    [
      'a secret manager that refuses',
      { kind: 'secret_manager', provider: 'aws', map: { a: 'x' } },
      undefined,
      'no secret manager is expected here',
    ],
    [
      'an unknown credential of a secret manager',
      { kind: 'secret_manager', provider: 'gcp', auth: 'nobody', map: { a: 'x' } },
      undefined,
      "Credential 'nobody' not found",
    ],
    [
      'a credential of a secret manager without a type',
      { kind: 'secret_manager', provider: 'gcp', auth: { token: 'canary' }, map: { a: 'x' } },
      undefined,
      "an inline 'auth' needs a type",
    ],
    ['an unknown credential', { kind: 'credential', credential: 'nobody' }, undefined, "Credential 'nobody' not found"],
    [
      'a template that fails',
      { data: { a: '{{ 1 / 0 }}' } },
      undefined,
      'a template cannot be rendered (TEMPLATE_ERROR)',
    ],
    [
      'an entry that is missing',
      { data: { a: '{{ keychain.nope.a }}' } },
      undefined,
      "keychain entry 'nope' is not available (not_found)",
    ],
  ])('goes on after %s and says why in the log', async (_what, more, answer, reason) => {
    const { prepare, reading, lines } = world(answer === undefined ? {} : { answer });
    await prepare([entry(more), entry({ name: 'next', kind: 'static', map: { a: 1 } })]);
    expect(lines).toEqual([
      {
        message: 'A keychain entry could not be resolved',
        keychain_name: 'k',
        scope_type: 'global',
        execution_id: 41007,
        reason,
      },
    ]);
    expect((await reading('k')).status).toBe('not_found');
    expect(await reading('next')).toMatchObject({ data: { a: 1 } });
  });

  test('reads secrets of provider env, JSON ones decoded', async () => {
    const { prepare, reading } = world({ secrets: { SVC_SECRET_DB_PASSWORD: 'pw', SVC_SECRET_CONF: '{"a":1}' } });
    await prepare([entry({ kind: 'secret_manager', provider: 'env', map: { pw: 'db/password', conf: 'conf' } })]);
    expect(await reading('k')).toMatchObject({ data: { pw: 'pw', conf: { a: 1 } } });
  });

  it.each<[string, unknown, ManagedSecret['auth']]>([
    [
      'by name',
      'client',
      { name: 'client', type: 'oauth2', data: { client_id: 'me', client_secret: 'canary-client' } },
    ],
    [
      'as a map with a name',
      { credential: 'client' },
      { name: 'client', type: 'oauth2', data: { client_id: 'me', client_secret: 'canary-client' } },
    ],
    ['inline', { type: 'bearer', token: '{{ workload.t }}' }, { name: null, type: 'bearer', data: { token: 'tt' } }],
    ['as none', { type: 'none' }, null],
    ['not at all', null, null],
  ])('asks a secret manager for each field with a credential %s', async (_how, auth, resolved) => {
    const { prepare, reading, asked } = world({ managed: async ({ path }) => `{"from":"${path}"}` });
    const map = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`f${index}`, `shop/{{ env }}/${index}`]));
    const workload = { env: 'prod', t: 'tt' };
    await prepare([entry({ kind: 'secret_manager', provider: 'GCP', auth: auth as never, map })], { workload });
    expect(asked).toHaveLength(20);
    expect(asked[7]).toEqual({ provider: 'gcp', path: 'shop/prod/7', auth: resolved, workload });
    expect(await reading('k')).toMatchObject({ data: { f0: { from: 'shop/prod/0' }, f19: { from: 'shop/prod/19' } } });
  });

  test('that does not happen after all takes its own entries back', async () => {
    const { prepare, preparation, reading, store } = world();
    await prepare([
      entry({ kind: 'bearer', token: 't', scope: 'local' }),
      entry({ name: 'all', kind: 'bearer', token: 't' }),
    ]);
    expect((await reading('k', 'local')).status).toBe('success');
    await preparation.discard(41007);
    expect((await reading('k', 'local')).status).toBe('not_found');
    expect((await reading('all')).status).toBe('success');
    expect(store.events.at(-1)).toMatchObject({ type: 'entry.removed', context: { reason: 'execution_ended' } });
  });
});
