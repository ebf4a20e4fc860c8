import { describe, expect, it, test } from 'vitest';
import type { JsonMap } from '../../../machines/json.ts';
import { encodingOf, readFirstAnswer, readRenewal, tokenRequest } from '../../../machines/keychain/renewal.ts';
import { decodeSecret, renderEntry, secretVariable } from '../../../machines/keychain/sources.ts';
import { DEFAULT_LIMITS } from '../../../machines/playbook/template/run.ts';

const BASE = { endpoint: 'https://id.test/token', method: 'post', headers: {}, data: {} };
const FIELDS = { tokenField: 'access_token', ttlField: 'expires_in' };

describe('a token request', () => {
  const data = { grant_type: 'client_credentials', scope: 'a b&c', n: 7, none: null, many: ['x', 'y'], deep: { k: 1 } };

  test('is a form where OAuth expects one', () => {
    expect(tokenRequest({ ...BASE, data }, 'form')).toEqual({
      url: BASE.endpoint,
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
      body: 'grant_type=client_credentials&scope=a+b%26c&n=7&many=x&many=y&deep=%7B%22k%22%3A1%7D',
    });
  });

  test('is JSON elsewhere', () => {
    const request = tokenRequest({ ...BASE, method: ' ', data: { a: 1 } }, 'json');
    expect(request).toMatchObject({ method: 'POST', body: '{"a":1}', headers: { 'content-type': 'application/json' } });
  });

  it.each([
    ['application/json; charset=utf-8', 'form', '{"a":1}'],
    ['application/x-www-form-urlencoded', 'json', 'a=1'],
  ] as const)('of content type %s keeps to it', (type, encoding, body) => {
    const headers = { 'Content-Type': type, Accept: 'text/plain', Drop: null };
    expect(tokenRequest({ ...BASE, headers, data: { a: 1 } }, encoding)).toMatchObject({
      headers: { 'content-type': type, accept: 'text/plain' },
      body,
    });
  });

  it.each([
    ['https://id.test/token', 'https://id.test/token?a=1'],
    ['https://id.test/token?x=1', 'https://id.test/token?x=1&a=1'],
  ])('by GET to %s carries its data in the query', (endpoint, url) => {
    expect(tokenRequest({ ...BASE, endpoint, method: 'GET', data: { a: 1 } }, 'json')).toMatchObject({
      url,
      body: null,
    });
  });

  test('without data has no body', () => {
    expect(tokenRequest(BASE, 'form')).toMatchObject({ body: null, headers: { accept: 'application/json' } });
    expect(tokenRequest({ ...BASE, method: 'GET' }, 'form').url).toBe(BASE.endpoint);
  });

  test('is a form for the types of OAuth', () => {
    expect([encodingOf('oauth2_client_credentials'), encodingOf('http')]).toEqual(['form', 'json']);
  });
});

describe('an answer', () => {
  const renewed = (status: number, body?: JsonMap) => readRenewal(FIELDS, { status, body });

  test('of 200 with a token renews', () => {
    const body = { access_token: 't', expires_in: '120', more: 1 };
    expect(renewed(200, body)).toEqual({ ok: true, tokenData: body, ttlSeconds: 120 });
    expect(renewed(200, { access_token: 't' })).toMatchObject({ ttlSeconds: 3600 });
  });

  test('is read by the fields the entry names', () => {
    const config = { tokenField: 'jwt', ttlField: 'ttl' };
    expect(readRenewal(config, { status: 200, body: { jwt: 'x', ttl: 9 } })).toMatchObject({ ok: true, ttlSeconds: 9 });
  });

  it.each([
    [201, { access_token: 't' }, 'the token endpoint answered HTTP 201'],
    [500, undefined, 'the token endpoint answered HTTP 500'],
    [200, undefined, 'the token endpoint answered with something that is not a map'],
    [200, { token: 'canary' }, "the answer of the token endpoint has no field 'access_token'"],
    [200, { access_token: '' }, "the answer of the token endpoint has no field 'access_token'"],
    [200, { access_token: null }, "the answer of the token endpoint has no field 'access_token'"],
  ])('of %d with %j does not, and the reason holds nothing of it', (status, body, reason) => {
    expect(renewed(status, body)).toEqual({ ok: false, reason });
  });

  test('to the first request may be any success, and may name no lifetime', () => {
    const first = (status: number, body?: JsonMap) => readFirstAnswer(FIELDS, { status, body });
    expect(first(201, { a: 1 })).toEqual({ ok: true, tokenData: { a: 1 }, ttlSeconds: null });
    expect(first(200, { a: 1, expires_in: 5 })).toMatchObject({ ttlSeconds: 5 });
    expect(first(302, {})).toEqual({ ok: false, reason: 'the endpoint answered HTTP 302' });
    expect(first(199, {})).toMatchObject({ ok: false });
    expect(first(200)).toMatchObject({ ok: false });
  });
});

describe('a declared entry', () => {
  const names: Readonly<Record<string, unknown>> = { workload: { host: 'id.test' }, n: 5, yes: true };
  const render = (definition: JsonMap) =>
    renderEntry({ name: 'k', scope: 'global', ...definition }, { lookup: (name) => names[name] }, DEFAULT_LIMITS);

  test('of kind oauth2 is a form request that says so', () => {
    const entry = render({
      kind: 'oauth2',
      endpoint: 'https://{{ workload.host }}/t',
      data: { n: '{{ n }}' },
      auto_renew: true,
      ttl_seconds: '{{ n * 60 }}',
    });
    expect(entry).toEqual({
      source: {
        from: 'request',
        encoding: 'form',
        config: {
          endpoint: 'https://id.test/t',
          method: 'POST',
          headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
          data: { n: 5 },
          tokenField: 'access_token',
          ttlField: 'expires_in',
        },
      },
      credentialType: 'oauth2_client_credentials',
      cacheType: 'token',
      autoRenew: true,
      ttlSeconds: 300,
    });
  });

  test('keeps a header that renders to nothing as null, which is not sent', () => {
    const { source } = renderEntry(
      { kind: 'http', endpoint: 'https://id.test', headers: { a: '{{ none }}', b: 'x{{ one }}' } },
      { lookup: (name: string) => (name === 'one' ? 1 : undefined) },
      DEFAULT_LIMITS,
    );
    expect(source).toMatchObject({ config: { headers: { a: null, b: 'x1' } } });
  });

  test('of kind http is JSON unless its headers say otherwise', () => {
    const own = { 'content-TYPE': 'application/x-www-form-urlencoded' };
    expect(render({ kind: 'http', endpoint: 'x', method: 'PUT' })).toMatchObject({
      credentialType: 'http',
      source: { config: { method: 'PUT', headers: { 'Content-Type': 'application/json' } } },
    });
    expect(render({ kind: 'http', endpoint: 'x', headers: own })).toMatchObject({
      source: { config: { headers: own } },
    });
    const fields = { token_field: 'jwt', ttl_field: 'ttl', auto_renew: '{{ yes }}' };
    expect(render({ kind: 'http', endpoint: 'x', ...fields })).toMatchObject({
      autoRenew: true,
      source: { config: { tokenField: 'jwt', ttlField: 'ttl' } },
    });
  });

  it.each([
    [
      { kind: 'bearer', token: 'a{{ n }}' },
      { from: 'value', data: { access_token: 'a5', token_type: 'Bearer' } },
      'token',
    ],
    [{ kind: 'bearer', token: 5 }, { from: 'value', data: { access_token: '5', token_type: 'Bearer' } }, 'token'],
    [{ kind: 'static', map: { n: '{{ n }}' } }, { from: 'value', data: { n: 5 } }, 'secret'],
    [{ kind: 'static', map: 'x' }, { from: 'value', data: {} }, 'secret'],
    [{ kind: 'credential', credential: 'c' }, { from: 'credential', name: 'c' }, 'secret'],
    [
      { kind: 'secret_manager', provider: 'ENV', map: { a: 'p/{{ n }}' } },
      { from: 'secrets', provider: 'env', paths: [['a', 'p/5']] },
      'secret',
    ],
    [
      { kind: 'secret_manager', provider: 'gcp', auth: '{{ n }}_auth', map: { a: 's' } },
      { from: 'secrets', provider: 'gcp', auth: '5_auth', paths: [['a', 's']] },
      'secret',
    ],
    [
      { kind: 'secret_manager', provider: 'vault', map: {} },
      { from: 'nowhere', reason: "secret provider 'vault' is not available in this build" },
      'secret',
    ],
    [
      { kind: 'google_oauth' },
      { from: 'nowhere', reason: "kind 'google_oauth' is not available in this build" },
      'token',
    ],
    [{ kind: 'oauth2', endpoint: 'x', data: 'text' }, { from: 'nowhere', reason: "'data' must be a map" }, 'token'],
    [{}, { from: 'nowhere', reason: "kind '' is not available in this build" }, 'token'],
  ])('%j comes from %j', (definition, source, cacheType) => {
    expect(render(definition)).toMatchObject({ source, cacheType, autoRenew: false, ttlSeconds: null });
  });

  it.each([
    [90.9, 90],
    [0, 0],
    ['-5', -5],
    [1e15, 320_000_000],
    [-1e15, -320_000_000],
    ['', null],
    ['soon', null],
    [null, null],
  ])('with ttl_seconds %j lives %j s', (written, seconds) => {
    expect(render({ kind: 'static', map: {}, ttl_seconds: written }).ttlSeconds).toBe(seconds);
  });
});

test('a secret path names a variable', () => {
  expect(secretVariable('db/password')).toBe('SVC_SECRET_DB_PASSWORD');
  expect(secretVariable('svc_secret_demo')).toBe('SVC_SECRET_DEMO');
});

test('a secret that is a JSON map or list is that value', () => {
  expect(['{"a":1}', ' [1]', '{bad', '12', 'text'].map(decodeSecret)).toEqual([{ a: 1 }, [1], '{bad', '12', 'text']);
});
