import { describe, expect, it, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { createKeychainPreparation, type KeychainSources, SourceError } from '../../actors/keychain-preparation.ts';
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
}

function world({
  answer = async () => ({ status: 200, body: { access_token: 'canary-token' } }),
  secrets = {},
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
  const sources: KeychainSources = {
    request: (request) => {
      sent.push(request);
      return answer(request);
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
  return { clock, store, keychain, preparation, prepare, reading, sent, lines };
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
      { kind: 'secret_manager', provider: 'aws', map: {} },
      undefined,
      "secret provider 'aws' is not available in this build",
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
