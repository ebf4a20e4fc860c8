import { describe, expect, test } from 'vitest';
import type { Lifecycle } from '../../src/api/context.ts';
import { fakeServices } from './fake-services.ts';
import { ask, CONFIG, testHost } from './test-host.ts';

const { app } = testHost();
const get = (url: string, headers: Record<string, string> = {}) => ask(app, 'GET', url, { headers });

describe('paths', () => {
  test.each([
    '/api/no/such/route',
    '/api',
    '/api/executionz/1',
    '/no-such-page',
    '/api/keychain',
    '/api/catalog/x/y',
    '/api//health',
  ])('%s is 404 in the common form', async (url) => {
    const answer = await get(url);
    expect(answer.status).toBe(404);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(answer.json).toEqual({
      detail: expect.any(String),
      code: 'not_found',
      request_id: answer.headers['x-request-id'],
    });
  });

  test.each([
    '/api/credentials/%2e%2e',
    '/api/credentials/a%2f..%2fb',
    '/api/credentials/a%00',
    '/api/credentials/a%5cb',
    '/api/credentials/%zz',
  ])('HT-04 %s is 404', async (url) => {
    const answer = await get(url);
    expect([answer.status, answer.json?.code]).toEqual([404, 'not_found']);
  });

  test('a trailing slash is ignored', async () => {
    expect((await get('/api/health/')).status).toBe(200);
    expect((await get('/api/executions/41007/')).json.execution_id).toBe(41007);
    expect((await get('/api/catalog/demo/greet/versions/')).json.path).toBe('demo/greet');
  });

  test.each([
    ['DELETE', '/api/health', ['GET', 'HEAD']],
    ['PUT', '/api/execute', ['POST']],
    ['POST', '/api/executions', ['GET', 'HEAD']],
    ['PATCH', '/api/catalog/register', ['POST']],
    ['GET', '/api/worker/pool/deregister', ['POST', 'DELETE']],
    ['POST', '/api/catalog/a/b/versions', ['GET', 'HEAD']],
    ['OPTIONS', '/api/health', ['GET', 'HEAD']],
    ['GET', '/api/executions/cleanup', ['POST']],
    ['PATCH', '/api/executions/cleanup', ['POST']],
    ['GET', '/api/events/batch', ['POST']],
    ['GET', '/api/commands/claim/', ['POST']],
    ['DELETE', '/api/keychain/catalog/2003', ['GET', 'HEAD']],
    ['PUT', '/api/result/resolve', ['GET', 'HEAD']],
  ])('HT-06 %s %s is 405 with Allow', async (method, url, allowed) => {
    const answer = await ask(app, method, url, method === 'GET' ? {} : { payload: {} });
    expect([answer.status, answer.json.code]).toEqual([405, 'method_not_allowed']);
    expect(answer.headers['allow']?.split(', ')).toEqual(allowed);
  });

  test('an address of more than 8 KiB is 413', async () => {
    expect((await get(`/api/executions?q=${'x'.repeat(8200)}`)).status).toBe(413);
  });

  test.each([
    '/health',
    '/api/health',
    '/api/catalog/playbooks',
    '/openapi.json',
    '/api/executions/41007/stream',
    '/metrics',
  ])('HT-06 HEAD %s answers like GET, without a body', async (url) => {
    const head = await ask(app, 'HEAD', url);
    expect([head.status, head.text]).toEqual([200, '']);
    if (url.endsWith('/stream')) return;
    expect(head.headers['content-type']).toBe((await get(url)).headers['content-type']);
  });
});

describe('headers', () => {
  test('a good X-Request-Id is echoed, a bad one is replaced', async () => {
    expect((await get('/health', { 'x-request-id': 'req-abc.x_1' })).headers['x-request-id']).toBe('req-abc.x_1');
    for (const bad of ['short', 'has space inside', 'x'.repeat(65), 'semi;colon-12345']) {
      const made = (await get('/health', { 'x-request-id': bad })).headers['x-request-id'];
      expect(made).toMatch(/^[A-Za-z0-9._-]{8,64}$/);
      expect(made).not.toBe(bad);
    }
    expect((await get('/health')).headers['x-request-id']).not.toBe((await get('/health')).headers['x-request-id']);
  });

  test.each(['/api/health', '/api/executions/0', '/metrics', '/api/no/such/route', '/docs'])(
    '%s carries nosniff, no-store and no-referrer',
    async (url) => {
      const { headers } = await get(url);
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
      });
    },
  );

  test.each(['evil.example', 'localhost.evil.example:8082', '127.0.0.1.nip.io', 'a@localhost', '[::1'])(
    'the host %j is 421 on a loopback server',
    async (host) => {
      const answer = await get('/api/health', { host });
      expect([answer.status, answer.json.code]).toEqual([421, 'misdirected_host']);
    },
  );

  test.each(['localhost', 'LOCALHOST:8082', '127.0.0.1:8082', '[::1]:8082', 'board.example', 'callboard.internal:9'])(
    'the host %j is answered',
    async (host) => {
      const config = { ...CONFIG, publicUrl: 'https://board.example/', allowedHosts: ['callboard.internal'] };
      const answer = await ask(testHost(fakeServices(), { config }).app, 'GET', '/health', { headers: { host } });
      expect(answer.status).toBe(200);
    },
  );

  test('beyond loopback every host is answered', async () => {
    const open = testHost(fakeServices(), { config: { ...CONFIG, host: '0.0.0.0' } }).app;
    expect((await ask(open, 'GET', '/health', { headers: { host: 'any.example' } })).status).toBe(200);
  });
});

describe('origins', () => {
  test.each(['http://localhost:3001', 'http://127.0.0.1:5173', 'https://localhost', 'http://[::1]:8080'])(
    '%s may call',
    async (origin) => {
      const { headers } = await get('/api/executions/0', { origin });
      expect(headers).toMatchObject({ 'access-control-allow-origin': origin, vary: 'Origin' });
      expect(headers['access-control-allow-credentials']).toBeUndefined();
      for (const name of ['X-Request-Id', 'X-Total-Count', 'Link', 'Retry-After']) {
        expect(headers['access-control-expose-headers']).toContain(name);
      }
    },
  );

  test.each([
    'https://gui.example.com',
    'http://localhost.evil.example',
    'null',
    'http://127.0.0.1.nip.io:3000',
    'http://evil-localhost:3001',
  ])('%s gets no allow header', async (origin) => {
    expect((await get('/api/health', { origin })).headers['access-control-allow-origin']).toBeUndefined();
    const preflight = await ask(app, 'OPTIONS', '/api/execute', {
      headers: { origin, 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers['access-control-allow-origin']).toBeUndefined();
    expect(preflight.headers['access-control-allow-methods']).toBeUndefined();
  });

  test('a preflight is 204 with methods, headers and its age', async () => {
    const answer = await ask(app, 'OPTIONS', '/api/credentials/a', {
      headers: { origin: 'http://localhost:3001', 'access-control-request-method': 'DELETE' },
    });
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': 'http://localhost:3001',
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
      'access-control-max-age': '600',
    });
    expect(answer.headers['access-control-allow-headers']).toContain('last-event-id');
  });

  test.each([
    [{ origin: 'https://evil.example' }],
    [{ origin: 'null' }],
    [{ origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
    [{ 'sec-fetch-site': 'cross-site' }],
  ])('a foreign page (%o) changes nothing with a request that needs no preflight', async (headers) => {
    const answer = await ask(app, 'POST', '/api/executions/41007/cancel', { headers });
    expect([answer.status, answer.json.code]).toEqual([403, 'forbidden']);
  });

  test.each([
    [{}],
    [{ origin: 'http://localhost:3000', 'sec-fetch-site': 'cross-site' }],
    [{ origin: 'https://gui.example', 'sec-fetch-site': 'same-origin' }],
    [{ origin: 'http://box.example:8082', host: 'box.example:8082' }],
    [{ origin: 'https://evil.example', 'content-type': 'application/json' }],
  ])('a client, an own page or a preflighted request (%o) is not taken for a foreign page', async (headers) => {
    const open = testHost(fakeServices(), { config: { ...CONFIG, host: '0.0.0.0' } });
    const answer = await ask(open.app, 'POST', '/api/executions/41007/cancel', { headers });
    expect(answer.status).toBe(200);
  });

  test('a list of origins and the star are honoured', async () => {
    const of = (corsAllowedOrigins: readonly string[], origin: string) =>
      ask(testHost(fakeServices(), { config: { ...CONFIG, corsAllowedOrigins } }).app, 'GET', '/health', {
        headers: { origin },
      });
    expect((await of(['https://gui.example'], 'https://gui.example')).headers['access-control-allow-origin']).toBe(
      'https://gui.example',
    );
    expect(
      (await of(['https://gui.example'], 'http://localhost')).headers['access-control-allow-origin'],
    ).toBeUndefined();
    expect((await of(['*'], 'https://any.example')).headers['access-control-allow-origin']).toBe('https://any.example');
  });
});

describe('health', () => {
  test('a browser is sent to the GUI', async () => {
    const answer = await get('/', { accept: 'text/html,application/xhtml+xml' });
    expect([answer.status, answer.headers['location']]).toEqual([302, '/ui/']);
  });

  test('a database that is down and a process that drains are 503', async () => {
    const down = fakeServices({ reads: { health: async () => ({ database: 'down', schemaVersion: null }) } });
    const sick = await ask(testHost(down).app, 'GET', '/api/health');
    expect([sick.status, sick.json.status, sick.json.database]).toEqual([503, 'degraded', 'down']);
    const lifecycle: Lifecycle = {
      ready: () => true,
      draining: () => true,
      stopping: new AbortController().signal,
      parts: () => ({ bus: 'degraded', jobs: 'ok' }),
      uptimeSeconds: () => 1,
    };
    const draining = await ask(testHost(fakeServices(), { lifecycle }).app, 'GET', '/api/health');
    expect([draining.status, draining.json.status, draining.json.bus]).toEqual([503, 'draining', 'degraded']);
    const early = { ...lifecycle, draining: () => false, ready: () => false };
    const starting = await ask(testHost(fakeServices(), { lifecycle: early }).app, 'GET', '/api/health');
    expect([starting.status, starting.json.status, starting.json.database]).toEqual([503, 'degraded', 'ok']);
  });

  test('the batch metrics are there before any batch, and requests are counted by route', async () => {
    const host = testHost();
    await ask(host.app, 'GET', '/api/executions/41007');
    const { text, headers } = await ask(host.app, 'GET', '/metrics');
    expect(headers['content-type']).toMatch(/^text\/plain;.*version=0\.0\.4/);
    for (const name of [
      'svc_batch_enqueue_latency_seconds_sum',
      'svc_batch_enqueue_latency_seconds_count',
      'svc_batch_ack_timeout_total',
      'svc_batch_queue_depth',
      'svc_batch_first_worker_claim_latency_seconds_sum',
      'svc_batch_first_worker_claim_latency_seconds_count',
    ]) {
      expect(text).toMatch(new RegExp(`^${name} 0$`, 'm'));
    }
    expect(text).toContain('svc_http_requests_total{method="GET",route="/api/executions/:execution_id",code="200"} 1');
  });
});
