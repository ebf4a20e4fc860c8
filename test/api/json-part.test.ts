/** A part of a JSON text is what reading the whole of it and looking there would give. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../machines/json.ts';
import { partsOfPath, valueAt } from '../../machines/playbook/summary.ts';
import { partOfJson } from '../../src/host/json-part.ts';
import { turnsDuring } from './turns.ts';

async function partOf(value: Json, path: readonly string[]): Promise<string | null> {
  const found = await partOfJson(Buffer.from(JSON.stringify(value)), path);
  if (found === null) return null;
  expect(found.sha256).toBe(createHash('sha256').update(found.data).digest('hex'));
  return new TextDecoder().decode(found.data);
}

async function expectSame(value: Json, path: string): Promise<void> {
  const wanted = valueAt(value, path);
  expect(await partOf(value, partsOfPath(path))).toBe(wanted === undefined ? null : JSON.stringify(wanted));
}

const VALUE: Json = {
  rows: [{ id: 1, name: 'a' }, { id: 2, name: 'b"\\{[,:' }, [], {}, null, -1.5e-7, true],
  'with "quotes" and \\': { 'ü☃': ['x'] },
  '': { 0: 'text' },
  empty: { list: [], map: {} },
  number: 17,
  text: '{"rows":[1]}',
  nothing: null,
  constructor_: 1,
  lists: [[[1], [2, 3]], [[4]]],
};

describe('a part of a JSON text', () => {
  test.each([
    '',
    'rows',
    'rows[0]',
    'rows[0].name',
    'rows[1].name',
    'rows[2]',
    'rows[3]',
    'rows[4]',
    'rows[5]',
    'rows[6]',
    'rows[7]',
    'rows[-1]',
    'rows[-7].id',
    'rows[-8]',
    'rows[-0].id',
    'rows[007]',
    'rows[0003]',
    'rows[99999999999999999999]',
    'rows[-99999999999999999999]',
    'rows.0.id',
    'rows.length',
    'rows[x]',
    'rows[1e0]',
    'with "quotes" and \\',
    'with "quotes" and \\.ü☃[0]',
    'with "quotes" and \\.ü☃[-1]',
    'empty.list[0]',
    'empty.list[-1]',
    'empty.map.a',
    'empty.list',
    'number',
    'number.a',
    'number[0]',
    'text.rows',
    'text[0]',
    'nothing',
    'nothing.a',
    'constructor',
    '__proto__',
    'toString',
    'lists[0][1][1]',
    'lists[1][0][0]',
    'lists[-1][-1][-1]',
    'lists[0][2]',
    'no.such',
    'row',
    'rows2',
  ])('%s', (path) => expectSame(VALUE, path));

  test.each<[Json]>([[null], [true], [0], [-12.5], [''], ['a"'], [[]], [{}], [[null]]])(
    'of %j, whole and beyond',
    async (value) => {
      for (const path of ['', '.', '[]', 'a', '[0]', '[-1]', '[1]']) await expectSame(value, path);
    },
  );

  test('for any value, at any place it has and some it has not', async () => {
    const name = fc.oneof(fc.string({ maxLength: 3 }), fc.constantFrom('a', 'b', '"', '\\', '\\"', '0', '\u0001', '☃'));
    const { value } = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'medium' },
        fc.oneof(fc.constantFrom<Json>(null, true, 0, ''), fc.double({ noNaN: true }), name),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(name, tie('value'), { maxKeys: 4, noNullPrototype: true }),
      ),
    }));
    // Names that a path cannot spell are taken as they are.
    const walked = (whole: Json, path: readonly string[]): Json | undefined =>
      path.reduce<Json | undefined>((found, part) => {
        if (Array.isArray(found)) return /^-?\d+$/.test(part) ? found.at(Number(part)) : undefined;
        const isOwn = typeof found === 'object' && found !== null && Object.hasOwn(found, part);
        return isOwn ? (Reflect.get(found, part) as Json) : undefined;
      }, whole);
    const placesOf = (whole: Json): string[][] => {
      if (Array.isArray(whole))
        return whole.flatMap((member, at) =>
          placesOf(member).flatMap((rest) => [
            [`${at}`, ...rest],
            [`${at - whole.length}`, ...rest],
          ]),
        );
      if (typeof whole !== 'object' || whole === null) return [[]];
      return [[], ...Object.entries(whole).flatMap(([key, member]) => placesOf(member).map((rest) => [key, ...rest]))];
    };
    await fc.assert(
      fc.asyncProperty(value, fc.array(name, { maxLength: 2 }), async (given, more) => {
        // -0 is written as 0.
        const whole = JSON.parse(JSON.stringify(given)) as Json;
        for (const place of [...placesOf(whole), more]) {
          for (const path of [place, [...place, ...more]]) {
            const wanted = walked(whole, path);
            expect(await partOf(whole, path), JSON.stringify(path)).toBe(
              wanted === undefined ? null : JSON.stringify(wanted),
            );
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test.each<[string, Json, string]>([
    ['rows', { rows: Array.from({ length: 200_000 }, (_, id) => ({ id, name: `row ${id}` })), end: [7] }, 'end[0]'],
    ['one long text', { long: '\\"☃'.repeat(4_000_000), end: [7] }, 'end[0]'],
    ['a list from its end', Array.from({ length: 1_500_000 }, (_, at) => at), '[-1499993]'],
  ])('lets others go on meanwhile: %s', async (_, value, path) => {
    const json = Buffer.from(JSON.stringify(value));
    const turns = await turnsDuring(async () => {
      const found = await partOfJson(json, partsOfPath(path));
      expect(new TextDecoder().decode(found?.data)).toBe('7');
    });
    expect(turns).toBeGreaterThan(3);
  });

  test('a large part has the hash of its bytes', async () => {
    const rows = Array.from({ length: 100_000 }, (_, id) => ({ id }));
    expect(await partOf({ rows }, ['rows'])).toBe(JSON.stringify(rows));
  });

  test.each(['{"a":', '{"a"', '{"a":"x', '[1,', '[', '"\\', '{', ''])(
    'ends on a text that was cut: %s',
    async (text) => {
      for (const path of [[], ['a'], ['0'], ['-1'], ['a', '0']]) await partOfJson(Buffer.from(text), path);
    },
  );
});
