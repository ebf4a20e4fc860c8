import { describe, expect, test } from 'vitest';
import { DomainError } from '../../actors/errors.ts';
import { StaleError, UnavailableError } from '../../actors/ports.ts';
import { createMeter } from '../../src/metrics.ts';
import { fakeServices, RECEIPT } from './fake-services.ts';
import { ask, CONFIG, raw, testHost } from './test-host.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const { app } = testHost();
const post = (url: string, payload: object, headers = {}) => ask(app, 'POST', url, { payload, headers });

describe('ids', () => {
  const BAD = [
    '1e3',
    '041007',
    '0',
    '-1',
    '1.5',
    'abc',
    '%20',
    '9007199254740993',
    '99999999999999999999',
    '0x10',
    'true',
    'null',
    '+5',
  ];

  test.each(BAD)('%s in a path is 422 invalid_id', async (bad) => {
    for (const url of [
      `/api/executions/${bad}`,
      `/api/events/${bad}`,
      `/api/executions/${bad}/status`,
      `/api/commands/${bad}`,
    ]) {
      const answer = await ask(app, 'GET', url);
      expect([answer.status, answer.json.code]).toEqual([422, 'invalid_id']);
    }
  });

  test.each(BAD)('%s for an event in a query is 422 invalid_id, but for 0 before the first one', async (bad) => {
    for (const query of [
      'events/41007?since_event_id',
      'events/41007?until_event_id',
      'executions/41007?since_event_id',
      'executions/41007/stream?since_event_id',
      'executions/41007/machine?at',
    ]) {
      if (bad === '0' && !query.endsWith('at')) continue;
      const answer = await ask(app, 'GET', `/api/${query}=${bad}`);
      expect([query, answer.status, answer.json.code]).toEqual([query, 422, 'invalid_id']);
    }
    expect((await ask(app, 'GET', '/api/events/41007?since_event_id=0')).status).toBe(200);
  });

  test('what is too long for a name in a path is 422, and an address that is too long 413', async () => {
    const long = (length: number) => ask(app, 'GET', `/api/keychain/1/${'x'.repeat(length)}`);
    expect((await long(4_000)).status).toBe(422);
    expect((await long(9_000)).status).toBe(413);
  });

  test.each([
    ['"1e3"'],
    ['"041007"'],
    ['0'],
    ['41007.5'],
    ['-1'],
    ['true'],
    ['""'],
    ['[]'],
    ['{}'],
    ['"9007199254740993"'],
    ['1.0'],
    ['41007.0'],
    ['41e3'],
  ])('IN-07 %s in a body is 422 invalid_id', async (bad) => {
    const answer = await ask(app, 'POST', '/api/events', raw(`{"execution_id": ${bad}, "event_type": "report.note"}`));
    expect([answer.status, answer.json.code]).toEqual([422, 'invalid_id']);
    expect(answer.json.detail).toContain('body.execution_id');
  });

  test('IN-07 null is no id where one is required', async () => {
    const answer = await post('/api/events', { execution_id: null, event_type: 'report.note' });
    expect(answer.status).toBe(422);
  });

  test('digits in a string are an id', async () => {
    const answer = await post('/api/events', { execution_id: '41007', event_type: 'report.note' });
    expect(answer.status).toBe(200);
  });

  test('a fraction of zeros is kept where a number is data', async () => {
    const seen: unknown[] = [];
    const host = testHost(
      fakeServices({
        executions: {
          start: async (request) => {
            seen.push(request.workload);
            return RECEIPT;
          },
        },
      }),
    );
    const answer = await ask(
      host.app,
      'POST',
      '/api/execute',
      raw('{"path":"demo/greet","workload":{"n":1.0,"m":[2e3]}}'),
    );
    expect(answer.status).toBe(200);
    expect(seen).toEqual([{ n: 1, m: [2000] }]);
  });
});

describe('bodies', () => {
  const cleanup = (text: string | Buffer, type?: string) =>
    ask(app, 'POST', '/api/executions/cleanup', raw(text, type));

  test.each(['{', '{"a":1,}', "{'a':1}", '{"a":1}{"b":2}', 'nope', '{"a":NaN}', '\u0000', '{"a":"\u0001"}'])(
    'text that is not JSON is 422 invalid_json: %j',
    async (text) => {
      const answer = await cleanup(text);
      expect([answer.status, answer.json.code]).toEqual([422, 'invalid_json']);
    },
  );

  test.each(['[]', '"text"', '7', 'null', 'true'])('%s is no object and 422', async (text) => {
    expect((await cleanup(text)).status).toBe(422);
  });

  test.each([
    ['NUL in a value', '{"data":{"k":["a\\u0000b"]}}', 'body.data.k[0]'],
    ['NUL in a key', '{"data":{"k\\u0000":1}}', 'body.data'],
    ['a lone surrogate', '{"data":{"k":"\\ud800"}}', 'body.data.k'],
    ['a lone surrogate in a key', '{"data":{"\\udc00":1}}', 'body.data'],
    ['__proto__', '{"data":{"deep":[{"__proto__":{}}]}}', 'body.data.deep[0].__proto__'],
    ['__proto__ with escapes', '{"data":{"\\u005f_proto__":{}}}', 'body.data.__proto__'],
    ['a number that is not finite', '{"data":{"k":1e999}}', 'body.data.k'],
  ])('IN-01 %s is 422 with its place', async (_name, text, place) => {
    const answer = await cleanup(text);
    expect(answer.status).toBe(422);
    expect(answer.json.detail).toContain(place);
    expect(Object.hasOwn(Object.prototype, 'x')).toBe(false);
  });

  test('IN-04 64 levels are taken and 65 are not, and depth alone cannot keep the process busy', async () => {
    const nested = (depth: number) => `{"older_than_minutes":1,"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
    expect((await cleanup(nested(64))).status).toBe(200);
    expect((await cleanup(nested(65))).status).toBe(422);
    expect((await cleanup(nested(100_000))).status).toBe(422);
  });

  test('IN-03 bytes that are not UTF-8 are 422', async () => {
    const answer = await cleanup(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]));
    expect([answer.status, answer.json.code]).toEqual([422, 'invalid_json']);
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/jsonx',
    'application/json-patch+json',
  ])('a body of type %s is 415', async (type) => {
    const answer = await cleanup('{"dry_run":true}', type);
    expect([answer.status, answer.json.code]).toEqual([415, 'unsupported_media_type']);
  });

  test('a body without a type is 415, and no body at all is an empty object', async () => {
    const typeless = await ask(app, 'POST', '/api/executions/cleanup', { payload: Buffer.from('{}') });
    expect(typeless.status).toBe(415);
    expect((await ask(app, 'POST', '/api/executions/cleanup')).status).toBe(200);
    expect((await cleanup('', 'application/json')).status).toBe(200);
    expect((await cleanup('{"dry_run":true}', 'application/json; charset=utf-8')).status).toBe(200);
  });

  test('HT-02 a body of 10 MiB and a byte is 413, and credentials take 256 KiB', async () => {
    const big = await cleanup(`{"x":"${'x'.repeat(10_485_760 - 7)}"}`);
    expect([big.status, big.json.code]).toEqual([413, 'payload_too_large']);
    const blob = await post('/api/credentials', { name: 'a', data: { blob: 'x'.repeat(300_000) } });
    expect(blob.status).toBe(413);
  });

  test('documents and workloads have 1 MiB', async () => {
    const large = 'x'.repeat(1_048_577);
    expect((await post('/api/catalog/register', { content: large })).status).toBe(413);
    expect((await post('/api/execute', { path: 'demo/greet', workload: { large } })).status).toBe(413);
  });

  test('every wrong field is named', async () => {
    const answer = await post('/api/executions/cleanup', { older_than_minutes: 0, dry_run: 'yes' });
    expect(answer.json).toMatchObject({
      code: 'validation_error',
      errors: ['body.older_than_minutes: must be at least 1', 'body.dry_run: must be true or false'],
      detail: 'body.older_than_minutes: must be at least 1; body.dry_run: must be true or false',
    });
  });

  test.each([-1, 1.5, '5', true, [], {}, 1e300])('%j is no age in minutes', async (older_than_minutes) => {
    const answer = await post('/api/executions/cleanup', { older_than_minutes });
    expect([answer.status, answer.json.code]).toEqual([422, 'validation_error']);
  });

  test('null counts as absent for an optional field', async () => {
    expect((await post('/api/executions/cleanup', { older_than_minutes: null })).status).toBe(200);
  });

  test('a missing field is named by itself', async () => {
    expect((await post('/api/credentials', { data: {} })).json.detail).toBe("'name' is required");
    expect((await post('/api/credentials', { name: 'a' })).json.detail).toBe("'data' is required");
  });
});

describe('starts', () => {
  const path = 'demo/greet';
  test.each([
    [{}],
    [{ path: 5 }],
    [{ path, workload: 'x' }],
    [{ path, workload: [1] }],
    [{ path, version: 'newest' }],
    [{ path, version: 0 }],
    [{ path, version: 1.5 }],
    [{ catalog_id: 'abc' }],
    [{ path, resource_kind: 7 }],
    [{ path, priority: 101 }],
    [{ path, wait_ms: -1 }],
    [{ path, wait_ms: 60_001 }],
    [{ path, labels: { a: 1 } }],
    [{ path, execution_pool: 'a/b' }],
    [{ path, idempotency_key: 'has space' }],
    [{ path: 'a//b' }],
    [{ path: 'a/../b' }],
    [{ path, workload: { a: 1 }, payload: { a: 2 } }],
  ])('%j is 422', async (body) => {
    const answer = await post('/api/execute', body);
    expect(answer.status).toBe(422);
  });

  test('inputs under two names must be equal', async () => {
    const answer = await post('/api/execute', { path, workload: { a: 1, b: 2 }, payload: { b: 2, a: 1 } });
    expect(answer.status).toBe(200);
  });

  test('a bad Idempotency-Key is 422, and the header wins over the body', async () => {
    expect((await post('/api/execute', { path }, { 'idempotency-key': 'a b' })).status).toBe(422);
    expect((await post('/api/execute', { path }, { 'idempotency-key': 'x'.repeat(256) })).status).toBe(422);
    const keys: unknown[] = [];
    const host = testHost(
      fakeServices({
        executions: {
          start: async (request) => {
            keys.push(request.idempotencyKey);
            return RECEIPT;
          },
        },
      }),
    );
    await ask(host.app, 'POST', '/api/execute', {
      payload: { path, idempotency_key: 'b' },
      headers: { 'x-idempotency-key': 'h' },
    });
    await ask(host.app, 'POST', '/api/execute', { payload: { path, idempotency_key: 'b' } });
    expect(keys).toEqual(['h', 'b']);
  });
});

describe('names', () => {
  test.each(['', 'a/b', 'a:b', '-dash', '.dot', 'x'.repeat(129), 'sp ace', 'ünï'])('%j is no name', async (name) => {
    expect((await post('/api/credentials', { name, data: {} })).status).toBe(422);
  });

  test.each(['-a', 'a b', 'a'.repeat(256), Array(17).fill('s').join('/')])('%j is no catalog path', async (path) => {
    expect((await post('/api/catalog/playbook', { path, content: 'x' })).status).toBe(422);
  });

  test('outer slashes of a path do not count', async () => {
    const paths: unknown[] = [];
    const host = testHost(
      fakeServices({
        executions: {
          start: async (request) => {
            paths.push(request.path);
            return RECEIPT;
          },
        },
      }),
    );
    await ask(host.app, 'POST', '/api/execute', { payload: { path: '//demo/greet/' } });
    expect(paths).toEqual(['demo/greet']);
  });
});

describe('what services refuse', () => {
  const claim = (error: unknown) =>
    ask(
      testHost(fakeServices({ commands: { claim: async () => Promise.reject(error) } })).app,
      'POST',
      '/api/commands/1/claim',
      {
        payload: { worker_id: 'w' },
        headers: { 'x-request-id': 'r-12345678' },
      },
    );

  test('an active claim is 409 with the policy and Retry-After', async () => {
    const policy = { decision: 'refuse', reason: 'lease_active', attempt: 1 };
    const answer = await claim(
      new DomainError('active_claim', 'Command 1 is claimed by b', { worker_id: 'b', claim_policy: policy }),
    );
    expect(answer.status).toBe(409);
    expect(answer.headers['retry-after']).toBe('2');
    expect(answer.json).toEqual({
      detail: { code: 'active_claim', message: 'Command 1 is claimed by b', worker_id: 'b', claim_policy: policy },
      code: 'active_claim',
      request_id: 'r-12345678',
    });
  });

  test.each([
    [0, '1'],
    [1.2, '2'],
    [60, '60'],
  ])('a Retry-After of %d s is told in whole seconds, and never as none', async (claimRetryAfterSeconds, told) => {
    const claims = { claim: async () => Promise.reject(new DomainError('active_claim', 'claimed', {})) };
    const { app } = testHost(fakeServices({ commands: claims }), { config: { ...CONFIG, claimRetryAfterSeconds } });
    const answer = await ask(app, 'POST', '/api/commands/1/claim', { payload: { worker_id: 'w' } });
    expect([answer.status, answer.headers['retry-after']]).toEqual([409, told]);
  });

  test('already_terminal has no Retry-After', async () => {
    const answer = await claim(new DomainError('already_terminal', 'Command 1 is over'));
    expect([answer.status, answer.headers['retry-after']]).toEqual([409, undefined]);
  });

  test('an unknown worker is 404 with its name and Retry-After 3', async () => {
    const answer = await claim(new DomainError('unknown_worker', 'unknown', { name: 'w' }));
    expect([answer.status, answer.headers['retry-after']]).toEqual([404, '3']);
    expect(answer.json.detail).toEqual({ status: 'unknown', name: 'w' });
  });

  test('a bad schema is 400 with its errors, a failed statement with its state', async () => {
    const schema = await claim(
      new DomainError('schema_validation_failed', 'Credential validation failed', {
        errors: ['Missing required field: a'],
      }),
    );
    expect([schema.status, schema.json.detail]).toEqual([
      400,
      { message: 'Credential validation failed', errors: ['Missing required field: a'] },
    ]);
    const sql = await claim(new DomainError('sql_error', 'relation does not exist', { sqlstate: '42P01' }));
    expect(sql.json).toMatchObject({
      detail: 'relation does not exist',
      status: 'error',
      error: 'relation does not exist',
      sqlstate: '42P01',
    });
  });

  test('a bad playbook is 422 with its diagnostics', async () => {
    const found = {
      severity: 'error',
      code: 'tool_missing',
      message: 'm',
      step: 'end',
      task: null,
      path: 'workflow[2]',
      line: 31,
      column: 5,
      end_line: 1,
    };
    const answer = await claim(new DomainError('playbook_invalid', 'x', { errors: [found] }));
    expect(answer.status).toBe(422);
    expect(answer.json.detail).toEqual({
      message: 'Playbook validation failed',
      errors: [
        { code: 'tool_missing', step: 'end', task: null, path: 'workflow[2]', line: 31, column: 5, message: 'm' },
      ],
    });
  });

  test.each([
    [new UnavailableError('db_unavailable'), 'db_unavailable'],
    [new UnavailableError('pool_saturated'), 'pool_saturated'],
    [new StaleError([1]), 'queue_unavailable'],
    [new DomainError('queue_unavailable', 'The mailbox is full'), 'queue_unavailable'],
    [new DomainError('shutting_down', 'The server is shutting down'), 'shutting_down'],
  ])('%s is 503 %s with Retry-After', async (error, code) => {
    const answer = await claim(error);
    expect(answer.status).toBe(503);
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    expect(answer.json).toMatchObject({ code, detail: { code } });
  });

  test('HT-08 a bug is 500 without a word about itself, and is logged', async () => {
    const bug = new Error('select secret from table');
    const host = testHost(fakeServices({ commands: { get: async () => Promise.reject(bug) } }));
    const answer = await ask(host.app, 'GET', '/api/commands/1', {
      headers: { 'x-request-id': 'r-12345678', traceparent: `00-${TRACE}-b7ad6b7169203331-01` },
    });
    expect(answer.json).toEqual({ detail: 'Internal error', code: 'internal_error', request_id: 'r-12345678' });
    expect(host.lines).toEqual([
      {
        level: 'error',
        message: 'A request failed',
        fields: expect.objectContaining({ request_id: 'r-12345678', trace_id: TRACE, error: bug }),
      },
    ]);
  });

  test('HT-08 a thrown text, and an error before the handler, are bugs too; each is counted, and the next request is served', async () => {
    const metrics = createMeter();
    const failures = async () => {
      const lines = (await metrics.exposition()).split('\n');
      const ours = lines.filter((line) => line.startsWith('svc_http_requests_total') && line.includes('code="500"'));
      return ours.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
    };
    let isBroken = false;
    const identities = {
      identify: async () => {
        if (isBroken) throw new Error('a hook');
        return { actor: 'ann', role: 'admin' as const, email: null, displayName: null, expiresAt: null };
      },
      onRevoked: () => () => {},
    };
    const services = fakeServices({ identities, commands: { get: async () => Promise.reject('oops') } });
    const { app } = testHost(services, { metrics, config: { ...CONFIG, authMode: 'enforce' } });
    const headers = { authorization: 'Bearer a' };
    expect((await ask(app, 'GET', '/api/commands/1', { headers })).status).toBe(500);
    expect(await failures()).toBe(1);
    isBroken = true;
    const hooked = await ask(app, 'GET', '/api/machines', { headers });
    expect([hooked.status, hooked.json.detail]).toEqual([500, 'Internal error']);
    expect(await failures()).toBe(2);
    isBroken = false;
    expect((await ask(app, 'GET', '/api/machines', { headers })).status).toBe(200);
    expect(await failures()).toBe(2);
  });
});

test('1.0 is no integer, and nothing else is wrong with it', async () => {
  const { app } = testHost();
  const body = raw('{"older_than_minutes":1.0}');
  const { json } = await ask(app, 'POST', '/api/executions/cleanup', body);
  expect(json.errors).toEqual(['body.older_than_minutes: must be an integer']);
});

test.each([
  [
    '/api/worker/pool/heartbeat',
    '{"name":"w","commands":[{"command_id":5,"attempt":1.0}]}',
    'body.commands[0].attempt',
  ],
  ['/api/worker/exchange', '{"worker_id":"w","holding":[{"command_id":5,"attempt":1e0}]}', 'body.holding[0].attempt'],
  ['/api/events/batch', '{"execution_id":7,"events":[{"event_type":"a.b","attempt":2.0}]}', 'body.events[0].attempt'],
])('nor is it one in a list of %s', async (url, text, place) => {
  const { app } = testHost();
  const { status, json } = await ask(app, 'POST', url, raw(text));
  expect([status, json.errors]).toEqual([422, [`${place}: must be an integer`]]);
});
