import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import { orderOf, restored, withKeyOrders } from '../../src/store/key-order.ts';
import { event, flush } from '../conformance/rows.ts';

/** What jsonb makes of a value: keys by length in bytes, then by bytes. */
function stored(value: Json): Json {
  if (Array.isArray(value)) return value.map(stored);
  if (typeof value !== 'object' || value === null) return value;
  const map = value as JsonMap;
  const keys = Object.keys(map).sort((a, b) => {
    const [left, right] = [Buffer.from(a), Buffer.from(b)];
    return left.length - right.length || Buffer.compare(left, right);
  });
  return Object.fromEntries(keys.map((key) => [key, stored(map[key] ?? null)]));
}

/** The texts of values before they are stored and after they were read back. */
function ways(...parts: readonly Json[]) {
  const order = orderOf(parts);
  const read = parts.map(stored);
  return { order, before: JSON.stringify(parts), after: JSON.stringify(order === null ? read : restored(read, order)) };
}

describe('the order of keys', () => {
  test('costs nothing where jsonb keeps it', () => {
    for (const value of [{ a: 1, b: { c: 1 }, aa: 2 }, [1, 'x', null], 'text', { only: { only: 1 } }, {}]) {
      expect(orderOf([value])).toBeNull();
    }
  });

  test('is looked for in no event whose type only objects know', () => {
    const events = ['constructor', 'valueof', '__proto__'].map((type, index) => event(1, 1, index + 1, { type }));
    expect(withKeyOrders(flush({ events })).events).toEqual(events);
  });

  test('is told once for all maps with the same keys', () => {
    const rows = Array.from({ length: 50 }, (_, index) => ({ name: 'n', id: index, at: { z: 1, y: 2 } }));
    const { order, before, after } = ways({ rows, count: 50 });
    expect(order).toEqual([
      ['name', 'id', 'at'],
      ['z', 'y'],
    ]);
    expect(after).toBe(before);
  });

  test('is kept by the text where the same keys come in two orders', () => {
    for (const value of [
      [
        { b: 1, a: 2 },
        { a: 1, b: 2 },
      ],
      { x: { long: 1, s: 2 }, y: [{ s: 1, long: 2 }] },
    ]) {
      const { order, before, after } = ways(value, { b: 1, a: 1 });
      expect(typeof order).toBe('string');
      expect(after).toBe(before);
    }
  });

  test('of keys beyond ASCII goes by bytes', () => {
    const { order, before, after } = ways({ zz: 1, é: 2 });
    expect([order, after]).toEqual([null, before]);
    expect(ways({ é: 1, zz: 2 })).toMatchObject({ order: [['é', 'zz']], after: '[{"é":1,"zz":2}]' });
  });

  test('survives for any value', () => {
    const key = fc.oneof(fc.constantFrom('a', 'b', 'id', 'name', '10', '2', 'é', '😀'), fc.string({ maxLength: 3 }));
    const { value } = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom<Json>(null, 1, 'x'),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(
          key.filter((each) => each !== '__proto__'),
          tie('value'),
          { maxKeys: 5, noNullPrototype: true },
        ),
      ),
    }));
    fc.assert(
      fc.property(fc.array(value, { maxLength: 3 }), (parts) => {
        const { before, after } = ways(...parts);
        expect(after).toBe(before);
      }),
      { numRuns: 500 },
    );
  });
});
