import { generateKeyPairSync, verify } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import type { JsonMap } from '../../machines/json.ts';
import { failed, noHost, openTools, succeeded } from './harness.ts';
import { type Seen, startServer } from './http-server.ts';

const tools = openTools({ httpMaxResponseBytes: 100_000 });
afterAll(() => tools[Symbol.asyncDispose]());

const echo = (seen: Seen, response: { end(text: string): void }) =>
  response.end(JSON.stringify({ method: seen.method, path: seen.path, headers: seen.headers, body: seen.body }));

async function ask(fields: JsonMap, more: Parameters<typeof tools.run>[2] = {}): Promise<Seen> {
  await using server = await startServer(echo);
  const { url = '/', ...rest } = fields;
  succeeded(await tools.run('http', { url: `${server.url}${String(url)}`, ...rest }, more));
  const [seen] = server.seen;
  if (seen === undefined) throw new Error('nothing was asked');
  return seen;
}

describe('an http request', () => {
  it('answers with status, headers, url, elapsed time and the parsed body twice', async () => {
    await using server = await startServer((_, response) => {
      response.setHeader('X-Custom', ['a', 'b']);
      response.end('{"x": [1, 12345678901234567890]}');
    });
    const outcome = succeeded(await tools.run('http', { url: `${server.url}/p?q=1` }));
    const data = outcome.data as JsonMap;
    expect(data).toMatchObject({
      status_code: 200,
      url: `${server.url}/p?q=1`,
      body: { x: [1, '12345678901234567890'] },
    });
    expect(data['data']).toEqual(data['body']);
    expect(data['headers']).toMatchObject({ 'x-custom': 'a, b' });
    expect(data['elapsed']).toBeTypeOf('number');
    expect(outcome.http).toEqual({ status: 200, headers: data['headers'] });
  });

  it('writes params: null removes, lists repeat, maps become JSON', async () => {
    const seen = await ask({ url: '/a?z=0', params: { a: 1, b: null, c: [1, null, 'x y'], d: { e: true }, f: false } });
    expect(seen.path).toBe('/a?z=0&a=1&c=1&c=x+y&d=%7B%22e%22%3Atrue%7D&f=false');
  });

  it('writes headers as text', async () => {
    const seen = await ask({ headers: { 'X-A': true, 'X-B': null, 'X-C': 3 } });
    expect(seen.headers).toMatchObject({ 'x-a': 'true', 'x-c': '3' });
    expect(seen.headers).not.toHaveProperty('x-b');
  });

  it('sends maps and lists as JSON and strings as they are', async () => {
    const asMap = await ask({ method: 'post', json: { a: [1] } });
    expect([asMap.method, asMap.body, asMap.headers['content-type']]).toEqual([
      'POST',
      '{"a":[1]}',
      'application/json',
    ]);
    const asList = await ask({ method: 'PUT', body: [1], payload: { ignored: 1 } });
    expect(asList.body).toBe('[1]');
    const asText = await ask({ method: 'POST', payload: 'a=1', headers: { 'Content-Type': 'x/y' } });
    expect([asText.body, asText.headers['content-type']]).toEqual(['a=1', 'x/y']);
  });

  it('sends a form', async () => {
    const seen = await ask({ method: 'POST', form: { a: 'x y', b: null, c: [1, 2] } });
    expect([seen.body, seen.headers['content-type']]).toEqual(['a=x+y&c=1&c=2', 'application/x-www-form-urlencoded']);
  });

  it('reads data by method and content type', async () => {
    expect((await ask({ data: { a: 1 } })).path).toBe('/?a=1');
    expect((await ask({ method: 'POST', data: { a: 1 } })).body).toBe('{"a":1}');
    const both = await ask({ method: 'POST', data: { query: { q: 2 }, body: { b: 3 } } });
    expect([both.path, both.body]).toEqual(['/?q=2', '{"b":3}']);
    const type = 'application/x-www-form-urlencoded';
    expect((await ask({ method: 'POST', data: { a: 1 }, headers: { 'content-type': type } })).body).toBe('a=1');
    const parts = await ask({
      method: 'POST',
      data: { 'a"b': 'v' },
      headers: { 'content-type': 'multipart/form-data' },
    });
    const boundary = /boundary=(\w+)/.exec(String(parts.headers['content-type']))?.[1];
    expect(parts.body).toBe(
      `--${boundary}\r\ncontent-disposition: form-data; name="a%22b"\r\n\r\nv\r\n--${boundary}--\r\n`,
    );
  });

  it('reads the answer as asked', async () => {
    await using server = await startServer((seen, response) => response.end(seen.path === '/t' ? 'no json' : '[1]'));
    const body = async (path: string, fields: JsonMap) =>
      (succeeded(await tools.run('http', { url: server.url + path, ...fields })).data as JsonMap)['body'];
    expect(await body('/', {})).toEqual([1]);
    expect(await body('/t', {})).toBe('no json');
    expect(await body('/', { response_type: 'text' })).toBe('[1]');
    expect(await body('/', { response_type: 'binary' })).toBe('WzFd');
  });

  it('undoes a content encoding', async () => {
    await using server = await startServer((_, response) => {
      response.setHeader('content-encoding', 'gzip');
      response.end(gzipSync('{"a": 1}'));
    });
    expect(succeeded(await tools.run('http', { url: server.url })).data).toMatchObject({ body: { a: 1 } });
    await using empty = await startServer((_, response) => {
      response.setHeader('content-encoding', 'gzip');
      response.end();
    });
    expect(succeeded(await tools.run('http', { url: empty.url, method: 'HEAD' })).data).toMatchObject({ body: '' });
  });
});

describe('an http failure', () => {
  it('keeps the answer, and names method, URL and status but not the query', async () => {
    await using server = await startServer((_, response) => {
      response.statusCode = 404;
      response.end('{"why": "gone"}');
    });
    const outcome = failed(await tools.run('http', { url: `${server.url}/a/b?token=s3cret` }));
    expect(outcome.error).toEqual({
      kind: 'not_found',
      code: 'HTTP_404',
      message: `HTTP 404 Not Found from GET ${server.url}/a/b`,
      retryable: false,
      status_code: 404,
    });
    expect(outcome.data).toMatchObject({ status_code: 404, body: { why: 'gone' } });
    expect(outcome.http).toMatchObject({ status: 404 });
  });

  it.each([
    [429, 'rate_limit', true],
    [500, 'server_error', true],
    [401, 'auth', false],
    [304, 'client_error', false],
  ])('of status %i is kind %s', async (status, kind, retryable) => {
    await using server = await startServer((_, response) => {
      response.statusCode = status;
      response.end();
    });
    expect(failed(await tools.run('http', { url: server.url })).error).toMatchObject({ kind, retryable });
  });

  it('of a refused connection is CONN_REFUSED, of an unknown name DNS_ERROR', async () => {
    const server = await startServer(echo);
    await server[Symbol.asyncDispose]();
    expect(failed(await tools.run('http', { url: server.url })).error).toMatchObject({
      kind: 'connection',
      code: 'CONN_REFUSED',
    });
    const unknown = failed(await tools.run('http', { url: 'http://no-such-host.invalid/' })).error;
    expect(unknown).toMatchObject({ kind: 'connection', code: 'DNS_ERROR', retryable: true });
  });

  it('of a connection that ends early is CONN_ERROR', async () => {
    await using server = await startServer((_, response) => response.destroy());
    expect(failed(await tools.run('http', { url: server.url })).error).toMatchObject({
      kind: 'connection',
      code: 'CONN_ERROR',
    });
  });

  it('of an exchange that takes too long is CONN_TIMEOUT, whether headers or the body are late', async () => {
    await using server = await startServer((seen, response) => {
      if (seen.path === '/body') response.write('a');
    });
    for (const path of ['/head', '/body']) {
      const outcome = failed(await tools.run('http', { url: server.url + path }, { timeoutMs: 150 }));
      expect(outcome.error).toMatchObject({ kind: 'timeout', code: 'CONN_TIMEOUT', retryable: true });
    }
  });

  it('of a cancelled try comes at once', async () => {
    await using server = await startServer(() => controller.abort());
    const controller = new AbortController();
    const outcome = failed(await tools.run('http', { url: server.url }, { signal: controller.signal }));
    expect(outcome.error).toMatchObject({ code: 'CANCELLED', retryable: false });
  });

  it.each([
    ['declared', (size: number) => ({ body: 'x'.repeat(size), headers: {} })],
    ['compressed', (size: number) => ({ body: gzipSync('x'.repeat(size)), headers: { 'content-encoding': 'gzip' } })],
    ['chunked', (size: number) => ({ body: 'x'.repeat(size), headers: { 'transfer-encoding': 'chunked' } })],
  ])('of a %s body above the cap is BODY_TOO_LARGE', async (_, make) => {
    await using server = await startServer((__, response) => {
      const { body, headers } = make(5_000_000);
      response.writeHead(200, headers);
      response.end(body);
    });
    const outcome = failed(await tools.run('http', { url: server.url }));
    expect(outcome.error).toMatchObject({ kind: 'client_error', code: 'BODY_TOO_LARGE' });
  });

  it('of an answer under more encodings than anybody uses comes before they are undone', async () => {
    await using server = await startServer((_, response) => {
      response.setHeader('content-encoding', Array(2_000).fill('gzip').join(','));
      response.end(gzipSync('{}'));
    });
    const { error } = failed(await tools.run('http', { url: server.url }));
    expect(error).toMatchObject({
      code: 'REQUEST_REFUSED',
      message: expect.stringContaining('2000 content encodings'),
    });
  });

  it.each([
    [{ url: '' }, 'TOOL_FIELD'],
    [{ url: 'no url' }, 'TOOL_FIELD'],
    [{ url: 'ftp://x/' }, 'REQUEST_REFUSED'],
    [{ url: 'http://user:s3cret@x/' }, 'REQUEST_REFUSED'],
    [{ url: 'http://x/', method: 'A B' }, 'TOOL_FIELD'],
    [{ url: 'http://x/', headers: { 'X-A': 'a\r\nX-B: c' } }, 'TOOL_FIELD'],
    [{ url: 'http://x/', headers: { 'X A': 'a' } }, 'TOOL_FIELD'],
  ])('of an unusable configuration is kind config (%#)', async (fields, code) => {
    const { error } = failed(await tools.run('http', fields));
    expect(error).toMatchObject({ kind: 'config', code, retryable: false });
    expect(error.message).not.toContain('s3cret');
  });

  it('of an answer that cannot be stored is kind schema', async () => {
    await using server = await startServer((_, response) => response.end('["\\u0000"]'));
    const outcome = failed(await tools.run('http', { url: server.url }));
    expect(outcome.error).toMatchObject({ kind: 'schema', code: 'RESULT_NOT_STORABLE' });
    expect(outcome.http).toMatchObject({ status: 200 });
  });
});

describe('a redirect', () => {
  it('is followed, and a POST becomes a GET without its body', async () => {
    await using server = await startServer((seen, response) => {
      if (seen.path === '/to') return echo(seen, response);
      response.writeHead(seen.path === '/kept' ? 307 : 302, { location: '/to' });
      return response.end();
    });
    const at = async (path: string) =>
      succeeded(await tools.run('http', { url: server.url + path, method: 'POST', json: { a: 1 } })).data as JsonMap;
    expect(await at('/from')).toMatchObject({ url: `${server.url}/to`, body: { method: 'GET', body: '' } });
    expect(await at('/kept')).toMatchObject({ body: { method: 'POST', body: '{"a":1}' } });
  });

  it('is the answer when it is not to be followed', async () => {
    await using server = await startServer((_, response) => response.writeHead(302, { location: '/x' }).end());
    const outcome = failed(await tools.run('http', { url: server.url, follow_redirects: 'false' }));
    expect(outcome.error).toMatchObject({ kind: 'client_error', code: 'HTTP_302' });
  });

  it('is followed five times at most', async () => {
    await using server = await startServer((_, response) => response.writeHead(302, { location: '/again' }).end());
    expect(failed(await tools.run('http', { url: server.url })).error.code).toBe('HTTP_302');
    expect(server.seen).toHaveLength(6);
  });

  it('loses credentials and cookies when it leaves the origin', async () => {
    await using there = await startServer(echo);
    await using here = await startServer((seen, response) => {
      if (seen.path === '/same') return echo(seen, response);
      return response.writeHead(302, { location: seen.path === '/stay' ? '/same' : there.url }).end();
    });
    const auth = { name: 'k', type: 'api_key', data: { key: 'abc', header: 'X-Key' } };
    const fields = { headers: { Authorization: 'Bearer t', Cookie: 'c=1', 'X-Other': '1' } };
    succeeded(await tools.run('http', { url: `${here.url}/leave`, ...fields }, { auth }));
    expect(there.seen[0]?.headers).toMatchObject({ 'x-other': '1' });
    for (const name of ['authorization', 'cookie', 'x-key']) expect(there.seen[0]?.headers).not.toHaveProperty(name);
    succeeded(await tools.run('http', { url: `${here.url}/stay`, ...fields }, { auth }));
    expect(here.seen.at(-1)?.headers).toMatchObject({ authorization: 'Bearer t', cookie: 'c=1', 'x-key': 'abc' });
  });

  it.each([
    'http://169.254.169.254/',
    'http://[::ffff:169.254.169.254]/',
    'ftp://x/',
    'http://u:p@127.0.0.1/',
    'http://[',
  ])('to %s is not taken', async (location) => {
    await using server = await startServer((_, response) => response.writeHead(302, { location }).end());
    const { error } = failed(await tools.run('http', { url: server.url }));
    expect(error).toMatchObject({ kind: 'connection', code: 'EGRESS_DENIED', retryable: false });
  });
});

describe('egress', () => {
  it.each([
    'http://169.254.169.254/',
    'http://2852039166/',
    'http://0xa9fea9fe/',
    'http://0251.0376.0251.0376/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://[64:ff9b::a9fe:a9fe]/',
    'http://metadata.google.internal/',
  ])('to %s is denied', async (url) => {
    const { error } = failed(await tools.run('http', { url }));
    expect(error).toMatchObject({ kind: 'connection', code: 'EGRESS_DENIED', retryable: false });
  });

  it('is judged again when a name has been resolved', async () => {
    await using server = await startServer(echo);
    await using strict = openTools({ egress: { policy: 'public-only', allow: [], deny: [] } });
    const { error } = failed(await strict.run('http', { url: `http://localhost:${server.port}/` }));
    expect(error).toMatchObject({ code: 'EGRESS_DENIED' });
    expect(server.seen).toHaveLength(0);
    await using open = openTools({ egress: { policy: 'public-only', allow: [`localhost:${server.port}`], deny: [] } });
    succeeded(await open.run('http', { url: `http://localhost:${server.port}/` }));
  });
});

describe('a credential', () => {
  it.each([
    ['bearer', { token: 't' }, 'authorization', 'Bearer t'],
    ['bearer', { access_token: 't' }, 'authorization', 'Bearer t'],
    ['basic', { username: 'u', password: 'p' }, 'authorization', `Basic ${btoa('u:p')}`],
    ['clickhouse', { user: 'u', password: 'p' }, 'authorization', `Basic ${btoa('u:p')}`],
    ['api_key', { api_key: 'k' }, 'x-api-key', 'k'],
    ['api_key', { key: 'k', header: 'X-Mine' }, 'x-mine', 'k'],
    ['custom', { headers: { 'X-A': 'a', 'X-B': null } }, 'x-a', 'a'],
  ])('of type %s %j sets %s', async (type, data, header, value) => {
    const seen = await ask({}, { auth: { name: 'c', type, data } });
    expect(seen.headers[header]).toBe(value);
  });

  it('of type none changes nothing, and a header of the task wins', async () => {
    expect((await ask({}, { auth: { name: null, type: 'none', data: {} } })).headers).not.toHaveProperty(
      'authorization',
    );
    const auth = { name: 'c', type: 'bearer', data: { token: 't' } };
    expect((await ask({ headers: { authorization: 'mine' } }, { auth })).headers['authorization']).toBe('mine');
  });

  it('of a type with no use here fails the try', async () => {
    const auth = { name: 'db', type: 'postgres', data: {} };
    const { error } = failed(await tools.run('http', { url: 'http://x.invalid/' }, { auth }));
    expect(error.message).toBe("credential 'db' of type 'postgres' cannot be used with tool kind 'http'");
  });

  it('is not sent to a host its owner did not list', async () => {
    await using server = await startServer(echo);
    const auth = { name: 'c', type: 'bearer', data: { token: 't' }, hosts: ['*.example.com'] };
    const outcome = succeeded(await tools.run('http', { url: server.url }, { auth }));
    expect(server.seen[0]?.headers).not.toHaveProperty('authorization');
    expect(outcome.warnings?.[0]).toContain('not meant for host 127.0.0.1');
  });

  it('of type oauth2 is exchanged once and kept until shortly before it expires', async () => {
    let now = 1_000_000;
    await using own = openTools({ now: () => now });
    await using server = await startServer((seen, response) => {
      if (seen.path === '/token') return response.end(`{"access_token": "t${server.seen.length}", "expires_in": 100}`);
      return response.end('{}');
    });
    const auth = {
      name: 'o',
      type: 'oauth2',
      data: { client_id: 'i', client_secret: 's', token_url: `${server.url}/token`, scope: 'a b' },
    };
    const used = () => server.seen.at(-1)?.headers['authorization'];
    const { host, concealed } = listening();
    await Promise.all([1, 2, 3].map(() => own.run('http', { url: server.url }, { auth, host })));
    expect(concealed).toEqual(['t1', 't1', 't1']);
    expect(server.seen.filter(({ path }) => path === '/token')).toHaveLength(1);
    expect(server.seen[0]?.body).toBe('grant_type=client_credentials&client_id=i&client_secret=s&scope=a+b');
    expect(used()).toBe('Bearer t1');
    now += 41_000;
    succeeded(await own.run('http', { url: server.url }, { auth, host }));
    expect(server.seen.filter(({ path }) => path === '/token')).toHaveLength(2);
  });

  it('of type oauth2 that is refused fails with the status, and is asked for again', async () => {
    await using server = await startServer((_, response) => response.writeHead(401).end('{"error": "s3cret"}'));
    const auth = { name: 'o', type: 'oauth2', data: { client_id: 'i', client_secret: 's', token_url: server.url } };
    for (const count of [1, 2]) {
      const { error } = failed(await tools.run('http', { url: 'http://x.invalid/' }, { auth }));
      expect(error).toMatchObject({ kind: 'auth', code: 'HTTP_401' });
      expect(error.message).not.toContain('s3cret');
      expect(server.seen).toHaveLength(count);
    }
  });

  it('of type service_account is exchanged with a signed assertion', async () => {
    await using server = await startServer((seen, response) =>
      response.end(seen.path === '/token' ? '{"access_token": "sa"}' : '{}'),
    );
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const data = {
      client_email: 'a@b',
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      token_uri: `${server.url}/token`,
      scopes: ['x', 'y'],
    };
    const { host, concealed } = listening();
    const auth = { name: 's', type: 'service_account', data };
    succeeded(await tools.run('http', { url: server.url }, { auth, host }));
    expect(concealed).toEqual(['sa']);
    const assertion = new URLSearchParams(server.seen[0]?.body).get('assertion') ?? '';
    const [header, claims, signature] = assertion.split('.');
    expect(JSON.parse(Buffer.from(claims ?? '', 'base64url').toString())).toMatchObject({ iss: 'a@b', scope: 'x y' });
    const signed = Buffer.from(`${header}.${claims}`);
    expect(verify('RSA-SHA256', signed, publicKey, Buffer.from(signature ?? '', 'base64url'))).toBe(true);
    expect(server.seen[1]?.headers['authorization']).toBe('Bearer sa');
  });

  it('of type gcp_adc comes from the workload, else from the worker', async () => {
    const auth = { name: null, type: 'gcp_adc', data: {} };
    const { host, concealed } = listening();
    const seen = await ask({}, { auth, host, context: async () => ({ workload: { access_token: 'w' } }) });
    expect(seen.headers['authorization']).toBe('Bearer w');
    await using own = openTools({ environment: { GOOGLE_OAUTH_ACCESS_TOKEN: 'e' } });
    await using server = await startServer(echo);
    succeeded(await own.run('http', { url: server.url }, { auth, host }));
    expect(server.seen[0]?.headers['authorization']).toBe('Bearer e');
    expect(concealed).toEqual(['w', 'e']);
  });
});

/** A worker that is told what to hide. */
function listening() {
  const concealed: string[] = [];
  return { concealed, host: { ...noHost, conceal: (secret: string) => void concealed.push(secret) } };
}
