/**
 * Hostile JSON at every door of the table (catalogue G): whatever the row, what PostgreSQL or a later reader would choke
 * on is refused with its place, and nothing that was sent changes how objects of this process behave.
 */
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { DomainError } from '../../actors/errors.ts';
import type { Route } from '../../src/api/route.ts';
import { routesOf } from '../../src/host/host.ts';
import { type IntegerPlaces, integerPlacesOf } from '../../src/host/integer-places.ts';
import { fakeServices } from '../api/fake-services.ts';
import { ask, hostOptions, raw, testHost } from '../api/test-host.ts';

const { app, lines } = testHost();
afterAll(() => app.close());
afterEach(() => {
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
});

const routes = routesOf(fakeServices(), hostOptions());
const named = (rows: readonly Route[]) => rows.map((row) => [`${row.method} ${row.path}`, row] as const);
const urlOf = (row: Route, value = '7') => row.path.replaceAll(/\{[^}]+\}/g, value);
const withBody = named(routes.filter((row) => row.body !== undefined && row.anyBody !== true));
const withPath = named(routes.filter((row) => row.path.includes('{')));

describe('IN-01 NUL', () => {
  test.each(withBody)('in a value or a key of the body of %s is 422 with its path', async (_name, row) => {
    for (const [text, place] of [
      ['{"zz":{"k":["a\\u0000b"]}}', 'body.zz.k[0]'],
      ['{"zz":{"k\\u0000":1}}', 'body.zz.k?'],
    ] as const) {
      const answer = await ask(app, row.method, urlOf(row), raw(text));
      expect([answer.status, answer.json.code]).toEqual([422, 'validation_error']);
      expect(answer.json.detail).toContain(place);
    }
  });

  test.each(withPath)('in the path of %s is 404', async (_name, row) => {
    const answer = await ask(app, row.method, urlOf(row, 'a%00b'), row.method === 'GET' ? {} : { payload: {} });
    expect([answer.status, answer.json.code]).toEqual([404, 'not_found']);
  });

  test('in an idempotency key is 422', async () => {
    const answer = await ask(app, 'POST', '/api/execute', raw('{"path":"a/b","idempotency_key":"a\\u0000"}'));
    expect(answer.status).toBe(422);
  });
});

describe('IN-03 text that is no text', () => {
  const bytes = (...middle: number[]) => Buffer.from([...Buffer.from('{"zz":"'), ...middle, ...Buffer.from('"}')]);
  test.each([
    ['a stray byte', bytes(0xff), 'invalid_json'],
    ['an overlong slash', bytes(0xc0, 0xaf), 'invalid_json'],
    ['a surrogate in UTF-8', bytes(0xed, 0xa0, 0x80), 'invalid_json'],
    ['a cut sequence', bytes(0xe2, 0x82), 'invalid_json'],
    ['beyond the last code point', bytes(0xf5, 0x80, 0x80, 0x80), 'invalid_json'],
    ['UTF-16', Buffer.from('{"zz":1}', 'utf16le'), 'invalid_json'],
    ['half a pair, escaped', Buffer.from('{"zz":"\\ud83d"}'), 'validation_error'],
    ['a pair the wrong way round', Buffer.from('{"zz":"\\ude00\\ud83d"}'), 'validation_error'],
  ])('%s is 422 at every door', async (_name, body, code) => {
    for (const [, row] of withBody) {
      const answer = await ask(app, row.method, urlOf(row), raw(body));
      expect([answer.status, answer.json.code], row.path).toEqual([422, code]);
    }
  });
});

describe('IN-04 depth', () => {
  const nested = (key: string, depth: number) => `{"${key}":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
  test.each(withBody)('65, 1,000 and 100,000 levels are 422 for %s', async (_name, row) => {
    for (const depth of [65, 1_000, 100_000]) {
      const answer = await ask(app, row.method, urlOf(row), raw(nested('zz', depth)));
      expect([answer.status, answer.json.code]).toEqual([422, 'validation_error']);
      expect(answer.json.detail).toContain('must not be nested deeper than 64');
      expect(answer.text.length).toBeLessThan(1_000);
    }
  });

  test.each([
    ['/api/execute', '{"path":"demo/greet","workload":', '}'],
    ['/api/events', '{"execution_id":7,"event_type":"report.note","payload":', '}'],
    ['/api/credentials', '{"name":"deep","data":', '}'],
  ])('63 levels and no more than the envelope are taken by %s', async (url, before, after) => {
    const answer = await ask(app, 'POST', url, raw(`${before}${nested('k', 62)}${after}`));
    expect(answer.status, answer.text).toBe(200);
  });
});

describe('IN-05 names of machinery as keys', () => {
  test.each(withBody)('__proto__ is refused by %s, however it is spelled', async (_name, row) => {
    for (const key of ['__proto__', '\\u005f_proto__', '__proto\\u005f_']) {
      const answer = await ask(app, row.method, urlOf(row), raw(`{"zz":[{"${key}":{"polluted":true}}]}`));
      expect([answer.status, answer.json.detail]).toEqual([422, 'body.zz[0].__proto__: is a key that is not allowed']);
    }
  });

  test('others are plain keys', async () => {
    const seen: unknown[] = [];
    const host = testHost(
      fakeServices({
        executions: {
          recordEvent: async (event) => {
            seen.push(event.payload);
            throw new DomainError('not_found', 'Execution 7 not found');
          },
        },
      }),
    );
    const payload =
      '{"constructor":{"prototype":{"polluted":1}},"prototype":2,"toString":3,"hasOwnProperty":4,"valueOf":5}';
    await ask(
      host.app,
      'POST',
      '/api/events',
      raw(`{"execution_id":7,"event_type":"report.note","payload":${payload}}`),
    );
    expect(JSON.stringify(seen)).toBe(`[${payload}]`);
    await host.app.close();
  });
});

describe('IN-07 integers', () => {
  /** Names of the integers at the top of a body; deeper ones stand in lists that need more than a number. */
  const integersOf = (places: IntegerPlaces | null) =>
    Object.entries(places?.members ?? {}).flatMap(([key, inner]) => (inner.integer === true ? [key] : []));
  const cases = withBody.flatMap(([name, row]) =>
    // A body of variables may be the map of values itself, and then every name is theirs.
    (row.path === '/api/vars/{execution_id}' ? [] : integersOf(integerPlacesOf(row.body))).map(
      (key) => [`${name} ${key}`, row, key] as const,
    ),
  );

  test('are found in the schemas', () => {
    expect(cases.length).toBeGreaterThan(20);
  });

  test.each(cases)('%s is refused as true, 1.0, 1e3, text that is none, a list or a map', async (_name, row, key) => {
    for (const value of [
      'true',
      'false',
      '1.0',
      '1e3',
      '"1e3"',
      '""',
      '" 5"',
      '"0x5"',
      '[]',
      '[1]',
      '{}',
      '9007199254740993',
    ]) {
      const answer = await ask(app, row.method, urlOf(row), raw(`{"${key}":${value}}`));
      expect([answer.status, value]).toEqual([422, value]);
      const errors: readonly string[] = answer.json.errors;
      expect(
        errors.some((error) => error.startsWith(`body.${key}: `)),
        `${value}: ${errors}`,
      ).toBe(true);
    }
  });
});

describe('IN-14 numbers', () => {
  const seen: unknown[] = [];
  const host = testHost(
    fakeServices({
      executions: {
        recordEvent: async (event) => {
          seen.push(event.payload['n']);
          throw new DomainError('not_found', 'Execution 7 not found');
        },
      },
    }),
  );
  afterAll(() => host.app.close());
  const send = (n: string) =>
    ask(host.app, 'POST', '/api/events', raw(`{"execution_id":7,"event_type":"report.note","payload":{"n":${n}}}`));

  test.each(['1e400', '-1e400', '[1, 1e309]', `1${'0'.repeat(400)}`])('%s is not finite and 422', async (n) => {
    const answer = await send(n);
    expect([answer.status, answer.json.code]).toEqual([422, 'validation_error']);
  });

  test.each([
    ['0.30000000000000004', 0.30000000000000004],
    ['1e-400', 0],
    ['123456789012345678901234567890', 1.2345678901234568e29],
    ['5e-324', 5e-324],
    ['1.7976931348623157e308', Number.MAX_VALUE],
  ])('%s is the double it stands for', async (n, value) => {
    await send(n);
    expect(seen.splice(0)).toEqual([value]);
  });

  test.each(['NaN', 'Infinity', '-Infinity', '0x10', '01', '+1', '.5', '5.', '1_000'])('%s is no JSON', async (n) => {
    expect((await send(n)).json.code).toBe('invalid_json');
  });
});
