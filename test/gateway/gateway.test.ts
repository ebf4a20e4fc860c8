import { once } from 'node:events';
import { request, type ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { type RunningGateway, startGateway } from '../../src/gateway/start.ts';
import { silentLog } from '../../src/log.ts';
import { bytes, call } from './call.ts';
import { type FakeServer, startFakeServer } from './upstream-server.ts';

const GUI = 'https://gui.example.com';
const streams: ServerResponse[] = [];
let server: FakeServer;
let gateway: RunningGateway;
let csrf: string;

const ENV = {
  SVC_GATEWAY_AUTH: 'dev',
  SVC_GATEWAY_PORT: '0',
  CORS_ALLOWED_ORIGINS: GUI,
  SVC_BODY_LIMIT_BYTES: '2048',
  SVC_INTERNAL_TOKEN: 'inside',
};

beforeAll(async () => {
  server = await startFakeServer(({ url }, _request, response) => {
    if (url.endsWith('/stream')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
      streams.push(response);
      return true;
    }
    if (!url.startsWith('/ui/')) return false;
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end('<p>GUI</p>');
    return true;
  });
  gateway = await startGateway(readConfig({ ...ENV, SVC_GATEWAY_UPSTREAM: server.url }), silentLog);
  csrf = (await call(gateway.url, 'GET', '/auth/me')).json.csrf_token;
});
afterAll(async () => {
  await gateway?.stop();
  await server?.stop();
});
beforeEach(() => {
  server.seen.length = 0;
});

const ask = (method: string, path: string, more = {}) => call(gateway.url, method, path, more);
const preflight = (origin: string) =>
  ask('OPTIONS', '/api/executions', { headers: { origin, 'access-control-request-method': 'GET' } });

test('health is the text ok, also under an odd spelling of its address', async () => {
  const { status, text, headers } = await ask('GET', '/health');
  expect([status, text, headers['content-type']]).toEqual([200, 'ok', 'text/plain; charset=utf-8']);
  expect((await ask('GET', '/health/')).text).toBe('ok');
});

test('the contract for GUIs forbids skipping authentication', async () => {
  const { json } = await ask('GET', '/api/runtime/contract');
  expect(json).toMatchObject({ allow_skip_auth: false, proxy_prefixes: ['/svc'], public_url: gateway.url });
});

describe('CORS', () => {
  test('GW-01: a preflight of a listed origin is answered with exactly that origin, and credentials', async () => {
    const { status, headers, text } = await preflight(GUI);
    expect([status, text]).toEqual([204, '']);
    expect(headers['access-control-allow-origin']).toBe(GUI);
    expect(headers['access-control-allow-credentials']).toBe('true');
    expect(headers['access-control-allow-headers']).toContain('x-csrf-token');
    expect(headers.vary).toBe('Origin');
  });

  test.each([
    'https://evil.example',
    `${GUI}.evil.example`,
    'https://evil-gui.example.com',
    'http://gui.example.com',
    `${GUI}:8443`,
    'https://GUI.example.com',
    'null',
    '*',
  ])('GW-01: a preflight of %s gets no allow header', async (origin) => {
    const { status, headers } = await preflight(origin);
    expect(status).toBe(204);
    expect(headers['access-control-allow-origin']).toBeUndefined();
    expect(headers['access-control-allow-credentials']).toBeUndefined();
  });

  test('answers of the server carry the gateway’s word, not the server’s', async () => {
    const { headers } = await ask('GET', '/api/executions', { headers: { origin: 'https://evil.example' } });
    expect(headers['access-control-allow-origin']).toBeUndefined();
    expect((await ask('GET', '/api/executions', { headers: { origin: GUI } })).headers).toMatchObject({
      'access-control-allow-origin': GUI,
      'access-control-expose-headers': 'X-Request-Id, X-Total-Count, Link, Retry-After',
    });
  });
});

describe('the proxy', () => {
  test('passes a call and its body under /api and under a prefix, also of DELETE', async () => {
    const body = { kind: 'playbook' };
    const headers = { 'x-csrf-token': csrf };
    expect((await ask('POST', '/api/execute?dry=1', { body, headers })).json).toEqual({ ok: true });
    await ask('DELETE', '/svc/result/5', { body, headers });
    expect(server.seen.map(({ method, url, body: sent }) => [method, url, sent])).toEqual([
      ['POST', '/api/execute?dry=1', '{"kind":"playbook"}'],
      ['DELETE', '/api/result/5', '{"kind":"playbook"}'],
    ]);
  });

  test('GW-07: says who calls, and lets nobody else say it', async () => {
    await ask('GET', '/api/executions', {
      headers: {
        authorization: 'Bearer forged',
        cookie: 'callboard_session=forged',
        'x-session-token': 'forged',
        'x-user': 'root',
        'x-user-roles': 'admin',
        x_user: 'root',
        'x-callboard-user': 'root',
        'x-forwarded-for': '10.0.0.1',
        'x-forwarded-host': 'evil.example',
        'x-real-ip': '10.0.0.1',
        forwarded: 'for=10.0.0.1',
        connection: 'x-hop',
        'x-hop': '1',
        'x-request-id': 'r-from-the-caller',
        'x-kept': '1',
      },
    });
    const headers = server.seen[0]?.headers ?? {};
    expect(headers).toMatchObject({
      'x-callboard-user': 'local',
      'x-forwarded-for': '127.0.0.1',
      'x-request-id': 'r-from-the-caller',
      'x-kept': '1',
    });
    expect(JSON.stringify(headers)).not.toMatch(/forged|root|10\.0\.0\.1|evil|x-hop/);
  });

  test('keeps cookies and inner ids of the server to itself', async () => {
    const { headers } = await ask('GET', '/api/executions', { headers: { 'x-request-id': 'r-12345678' } });
    expect(headers['set-cookie']).toBeUndefined();
    expect(headers).toMatchObject({
      'x-request-id': 'r-12345678',
      'x-total-count': '7',
      'x-content-type-options': 'nosniff',
    });
  });

  test('passes a stream as it comes, and ends it when the caller goes', async () => {
    const sent = request(`${gateway.url}/api/executions/5/stream`);
    sent.end();
    const [answer] = await once(sent, 'response');
    const [first] = await once(answer, 'data');
    expect(String(first)).toBe('data: 1\n\n');
    const stream = streams.at(-1);
    stream?.write('data: 2\n\n');
    expect(String((await once(answer, 'data'))[0])).toBe('data: 2\n\n');
    if (stream === undefined) throw new Error('the server saw no stream');
    const closed = once(stream, 'close');
    sent.destroy();
    await closed;
  });

  test('serves the GUI with a policy', async () => {
    const { text, headers } = await ask('GET', '/ui/runs/5');
    expect(text).toBe('<p>GUI</p>');
    expect(headers['content-security-policy']).toBe("default-src 'self'; frame-ancestors 'none'");
  });

  test.each([
    ['POST', '/api/internal/sessions', 404],
    ['POST', '/api/worker/exchange', 404],
    ['POST', '/api/commands/claim', 404],
    ['GET', '/api/credentials/pg?include_data=true', 403],
    ['GET', '/api/keychain/5/billing', 403],
    ['GET', '/api/admin/keys', 403],
    ['GET', '/svc/admin/keys', 403],
    ['GET', '/api/%61dmin/keys', 403],
    ['GET', '/api/x/..%2fadmin/keys', 404],
    ['GET', '/api/x/../admin/keys', 404],
    ['GET', '/api//admin/keys', 404],
    ['GET', '/metrics', 404],
    ['GET', '/docs', 404],
    ['PROPFIND', '/api/executions', 405],
  ])('%s %s is refused with %i and never reaches the server', async (method, path, status) => {
    const answer = await ask(method, path, { headers: { 'x-csrf-token': csrf } });
    expect(answer.status).toBe(status);
    expect(answer.json).toEqual({
      detail: expect.any(String),
      code: expect.any(String),
      request_id: answer.headers['x-request-id'],
    });
    expect(server.seen).toEqual([]);
  });

  test('a body beyond the limit is 413, whether it tells its length or not', async () => {
    const headers = { 'x-csrf-token': csrf, 'content-type': 'application/json' };
    expect((await ask('POST', '/api/execute', { body: 'x'.repeat(3000), headers })).status).toBe(413);
    const chunked = [
      'POST /api/execute HTTP/1.1',
      'Host: 127.0.0.1',
      `X-CSRF-Token: ${csrf}`,
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
      'Connection: close',
      '',
      'bb8',
      'x'.repeat(3000),
      '0',
      '',
      '',
    ].join('\r\n');
    expect(await bytes(gateway.url, chunked)).toMatch(/^HTTP\/1\.1 413 /);
    expect(server.seen).toEqual([]);
  });

  test('a server that is away is 502 without a word of the inside', async () => {
    const gone = await startFakeServer();
    await gone.stop();
    const lonely = await startGateway(readConfig({ ...ENV, SVC_GATEWAY_UPSTREAM: gone.url }), silentLog);
    const { status, text } = await call(lonely.url, 'GET', '/api/executions');
    await lonely.stop();
    expect(status).toBe(502);
    expect(text).not.toMatch(/ECONN|127\.0/);
  });
});

describe('a page of someone else', () => {
  const body = { path: 'demo/greet' };

  test.each([
    ['without the token', {}],
    ['with a wrong token', { 'x-csrf-token': 'guess' }],
    ['of another origin', { origin: 'https://evil.example', right: '1' }],
    ['of no origin', { origin: 'null', right: '1' }],
    ['across sites', { 'sec-fetch-site': 'cross-site', right: '1' }],
    ['with a form', { 'content-type': 'text/plain', right: '1' }],
  ])('cannot make a browser act: %s', async (_name, { right, ...headers }: Record<string, string>) => {
    const given = { ...headers, ...(right === undefined ? {} : { 'x-csrf-token': csrf }) };
    const { status, json } = await ask('POST', '/api/execute', { body, headers: given });
    expect([status, json.code]).toEqual([403, 'csrf']);
    expect(server.seen).toEqual([]);
  });

  test('cannot reach the gateway under a name of its own', async () => {
    expect((await ask('GET', '/auth/me', { headers: { host: 'evil.example' } })).status).toBe(421);
  });

  test('a listed one may act', async () => {
    const headers = { 'x-csrf-token': csrf, origin: GUI, 'sec-fetch-site': 'cross-site' };
    expect((await ask('POST', '/api/execute', { body, headers })).status).toBe(200);
  });
});

test.each([
  ['/api/execute', 413, 'length'],
  ['/api/execute', 413, 'chunks'],
  ['/api/auth/validate', 422, 'length'],
  ['/nothing', 404, 'length'],
])('a large body to %s is refused with %i, which its sender reads after all of it (%s)', async (path, status, how) => {
  const size = 8 * 1024 * 1024;
  const [head, tail] =
    how === 'length'
      ? [`Content-Length: ${size}\r\n\r\n`, '']
      : [`Transfer-Encoding: chunked\r\n\r\n${size.toString(16)}\r\n`, '\r\n0\r\n\r\n'];
  const common = `Host: 127.0.0.1\r\nContent-Type: application/json\r\nX-CSRF-Token: ${csrf}\r\n`;
  const next = 'GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n';
  const answers = await bytes(
    gateway.url,
    `POST ${path} HTTP/1.1\r\n${common}${head}${'x'.repeat(size)}${tail}${next}`,
  );
  const statuses = [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, each]) => Number(each));
  expect(statuses).toEqual([status, 200]);
});

test.each([
  ['two lengths', 'Content-Length: 2\r\nContent-Length: 3'],
  ['a length and chunks', 'Content-Length: 4\r\nTransfer-Encoding: chunked'],
  ['a folded header', 'X-A: 1\r\n Transfer-Encoding: chunked'],
  ['an odd coding', 'Transfer-Encoding: xchunked'],
  ['a blank before the colon', 'Transfer-Encoding : chunked'],
])('a request with %s is refused and nothing is smuggled', async (_name, header) => {
  const text = `POST /api/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-CSRF-Token: ${csrf}\r\n${header}\r\n\r\n0\r\n\r\nGET /api/admin/keys HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
  expect(await bytes(gateway.url, text)).toMatch(/^HTTP\/1\.1 400 /);
  expect(server.seen).toEqual([]);
});

test.each([
  [{ SVC_GATEWAY_HOST: '0.0.0.0' }, 'works on loopback only'],
  [{ GATEWAY_PUBLIC_URL: 'https://callboard.example' }, 'works on loopback only'],
  [{ CORS_ALLOWED_ORIGINS: '*' }, 'must hold origins'],
  [{ CORS_ALLOWED_ORIGINS: 'null' }, 'must hold origins'],
  [{ CORS_ALLOWED_ORIGINS: 'https://gui.example.com/' }, 'must hold origins'],
  [{ SVC_GATEWAY_PROXY_PREFIXES: '/' }, 'must hold paths'],
])('it does not start with %o', async (change, sentence) => {
  await expect(startGateway(readConfig({ ...ENV, ...change }), silentLog)).rejects.toThrow(sentence);
});
