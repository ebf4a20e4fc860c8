/** How bodies are read: small ones on the spot, large ones in a thread and in pieces, and never too many at once. */

import fc from 'fast-check';
import fastify, { type FastifyInstance } from 'fastify';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import type { Json } from '../../machines/json.ts';
import { cut, putTogether } from '../../src/host/body-pieces.ts';
import { type BodyReaderOptions, readBodies } from '../../src/host/body-reader.ts';
import { createByteBudget } from '../../src/host/byte-budget.ts';
import { createErrorHandler } from '../../src/host/error-handler.ts';
import { jsonBytes } from '../../src/wire/json-size.ts';
import { law } from '../support/arbitraries.ts';
import { leastProcessorTime } from '../support/processor-time.ts';
import { fakeServices, RECEIPT } from './fake-services.ts';
import { type Answer, ask, hostOptions, raw, testHost } from './test-host.ts';

const KIB = 1024;
const MIB = KIB * KIB;

describe('a value in pieces', () => {
  const values = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.jsonValue({ depthSize: 'small' }) as fc.Arbitrary<Json>,
      fc
        .tuple(fc.string({ unit: 'binary', maxLength: 20 }), fc.constantFrom(1, 3_000, 9_000))
        .map(([text, times]) => text.toWellFormed().repeat(times)),
      fc
        .tuple(tie('value'), fc.constantFrom(1, 50, 9_000))
        .map(([value, times]) => (jsonBytes(value, 200) > 200 ? [value, value] : Array<Json>(times).fill(value))),
      fc.dictionary(
        fc.string().filter((key) => key !== '__proto__'),
        tie('value'),
        { maxKeys: 5 },
      ),
    ),
  })).value;

  test('is the same value when it is put together', async () => {
    await fc.assert(
      fc.asyncProperty(values, async (value) => {
        // What comes from a body has been JSON: no -0, and plain maps.
        const json = JSON.parse(JSON.stringify(value)) as Json;
        expect(await putTogether(cut(json))).toStrictEqual(json);
      }),
      law(60),
    );
  });

  test('comes back without keeping the event loop for long', async () => {
    const pieces = cut(Array<Json>(300_000).fill({}));
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    });
    await putTogether(pieces);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(3);
  });
});

test('the size of a value is that of its JSON text, or above the limit as soon as that is known', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const json = JSON.parse(JSON.stringify(value)) as Json;
      expect(jsonBytes(json, 1e9)).toBe(Buffer.byteLength(JSON.stringify(json)));
    }),
    law(300),
  );
  const wide: Json = Array<Json>(1_000_000).fill({ a: [1, 'two'] });
  expect(jsonBytes(wide, 100)).toBeGreaterThan(100);
  const whole = leastProcessorTime(() => jsonBytes(wide, 1e9), 1);
  expect(leastProcessorTime(() => jsonBytes(wide, 100))).toBeLessThan(whole / 10);
});

describe('a budget', () => {
  const never = new AbortController().signal;

  test('is given in the order of asking, and given back once', async () => {
    const budget = createByteBudget(10);
    const order: string[] = [];
    const first = await budget.take(8, never);
    const large = budget.take(5, never).then((release) => {
      order.push('large');
      return release;
    });
    const small = budget.take(2, never).then((release) => {
      order.push('small');
      return release;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual([]);
    first();
    first();
    await Promise.all([large, small]);
    expect(order).toEqual(['large', 'small']);
    (await large)();
    (await small)();
    await expect(budget.take(10, never)).resolves.toBeTypeOf('function');
  });

  test('lets those behind one who leaves go on', async () => {
    const budget = createByteBudget(10);
    await budget.take(6, never);
    const gone = new AbortController();
    const leaver = budget.take(9, gone.signal);
    const next = budget.take(4, never);
    gone.abort(new Error('gone'));
    await expect(leaver).rejects.toThrow('gone');
    await expect(next).resolves.toBeTypeOf('function');
  });
});

describe('a large body', () => {
  const seen: unknown[] = [];
  const { app } = testHost(
    fakeServices({
      executions: {
        start: async ({ workload }) => {
          seen.push(workload);
          return RECEIPT;
        },
      },
    }),
  );
  afterAll(() => app.close());
  const pad = ' '.repeat(300 * KIB);
  const start = (workload: string) =>
    ask(app, 'POST', '/api/execute', raw(`{"path":"demo/greet",${pad}"workload":${workload}}`));

  test('reaches its endpoint as a small one does', async () => {
    const workload = `{"n":1.0,"text":"${'ü€😀'.repeat(20_000)}","rows":[${'{"id":1},'.repeat(20_000)}null],"no":{},"é":[[]]}`;
    const answer = await start(workload);
    expect(answer.status, answer.text).toBe(200);
    expect(seen.splice(0)).toStrictEqual([JSON.parse(workload)]);
  });

  test.each([
    ['{"a":"\\u0000"}', 'validation_error', 'body.workload.a: must not contain U+0000'],
    ['{"a":["\\udc00"]}', 'validation_error', 'body.workload.a[0]: must not contain a lone surrogate'],
    ['{"a":1e999}', 'validation_error', 'body.workload.a: must be a finite number'],
    ['{"__proto__":1}', 'validation_error', 'body.workload.__proto__: is a key that is not allowed'],
    [`${'[{"a":'.repeat(40)}1${'}]'.repeat(40)}`, 'validation_error', 'must not be nested deeper than 64'],
    ['{"a":}', 'invalid_json', 'body: must be JSON'],
    ['{},"priority":1.0', 'validation_error', 'body.priority: must be an integer'],
    ['{},"wait_ms":1.0,"priority":1', 'validation_error', 'body.wait_ms: must be an integer'],
    ['{},"version":2.0', 'validation_error', 'body.version: must be a version'],
    ['{},"parent_execution_id":4.0e3', 'invalid_id', 'body.parent_execution_id: must be an id'],
  ])('%s in it is refused as in a small one', async (workload, code, sentence) => {
    const small = await ask(app, 'POST', '/api/execute', raw(`{"path":"demo/greet","workload":${workload}}`));
    const large = await start(workload);
    for (const answer of [small, large]) {
      expect([answer.status, answer.json.code]).toEqual([422, code]);
      expect(answer.json.detail).toContain(sentence);
    }
    expect(large.json.detail).toBe(small.json.detail);
  });

  const batch = '{"execution_id":1,"events":[{"event_type":"report.note","payload":{"d":[';
  test.each([
    ['small integers', batch, '1,', '1]}}]}', 422],
    ['fractions of zeros', batch, '1.0,', '1]}}]}', 202],
    ['empty lists', batch, '[],', '1]}}]}', 422],
    ['elements of a wrong type', '{"execution_id":1,"events":[', '0,', '0]}', 422],
    ['keys nobody knows', '{"execution_id":1,', '"k":{},', '"events":[]}', 202],
  ])('HT-02 of %s gets a short answer, and others go on meanwhile', async (_name, before, unit, after, status) => {
    const body = before + unit.repeat(Math.ceil((3 * MIB) / unit.length)) + after;
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 2);
    const answer = await ask(app, 'POST', '/api/events/batch', raw(body));
    clearInterval(timer);
    expect(answer.status, answer.text).toBe(status);
    expect(answer.text.length).toBeLessThan(2_000);
    expect(turns).toBeGreaterThan(10);
  });
});

describe('HT-02 many large bodies', () => {
  const apps: FastifyInstance[] = [];
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.close();
  });

  /** Answers a body with its number of keys, once it is let. */
  function holding(options: BodyReaderOptions) {
    const app = fastify({ logger: false, bodyLimit: 64 * MIB });
    apps.push(app);
    app.setErrorHandler(
      createErrorHandler(hostOptions().log, { claimRetryAfterSeconds: 2, stopping: new AbortController().signal }),
    );
    readBodies(app, options);
    const held: (() => void)[] = [];
    app.post('/', async (request) => {
      await new Promise<void>((resolve) => held.push(resolve));
      return { keys: Object.keys(Object(request.body)).length };
    });
    const post = (payload: string): Promise<Answer> => ask(app, 'POST', '/', raw(payload));
    return { post, held };
  }
  const turns = async (count = 200) => {
    for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setTimeout(resolve, 1));
  };

  test('wait for each other, and small ones pass them by', async () => {
    const { post, held } = holding({ inlineMaxBytes: KIB, bytesMax: 5 * KIB });
    const large = `{"x":"${'x'.repeat(3 * KIB)}"}`;
    const answers = [post(large), post(large)];
    while (held.length < 1) await turns(1);
    const small = post('{"a":1,"b":2}');
    while (held.length < 2) await turns(1);
    await turns(100);
    expect(held).toHaveLength(2);
    for (const release of held.splice(0)) release();
    expect((await small).json).toEqual({ keys: 2 });
    while (held.length < 1) await turns(1);
    held[0]?.();
    for (const answer of await Promise.all(answers)) expect(answer.json).toEqual({ keys: 1 });
  });

  test('are refused when their values take more memory than all together may', async () => {
    const { post, held } = holding({ inlineMaxBytes: KIB, heapBytesMax: 100 * KIB });
    const answer = await post(`{"x":[${'[],'.repeat(5 * KIB)}0]}`);
    expect([answer.status, answer.json.code]).toEqual([413, 'payload_too_large']);
    const fits = post(`{"x":"${'x'.repeat(20 * KIB)}"}`);
    while (held.length < 1) await turns(1);
    held[0]?.();
    expect((await fits).status).toBe(200);
  });

  test('are refused when they take too long, and the next one is read', async () => {
    const { post, held } = holding({ inlineMaxBytes: KIB, timeLimitMs: 1 });
    const late = await post(`{"x":[${'[],'.repeat(MIB)}0]}`);
    expect([late.status, late.json.code]).toEqual([408, 'request_timeout']);
    expect(held).toHaveLength(0);
  });
});
