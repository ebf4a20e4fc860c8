import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../machines/json.ts';
import { writeJson } from '../../src/host/json-slices.ts';
import { turnsDuring } from './turns.ts';

async function expectText(value: Json): Promise<void> {
  const text = JSON.stringify(value);
  const { data, sha256, head } = await writeJson(value);
  expect(new TextDecoder().decode(data) === text, text.slice(0, 200)).toBe(true);
  expect(sha256).toBe(createHash('sha256').update(text).digest('hex'));
  expect(text.startsWith(head)).toBe(true);
  expect(head.length).toBe(Math.min(text.length, 16 * 1024));
}

const LONG = 'ä😀"\\\n'.repeat(40_000);

describe('JSON written in slices', () => {
  test.each<[string, Json]>([
    ['nothing', null],
    ['an empty list', []],
    ['an empty map', {}],
    ['a long text whose characters come in halves', LONG],
    ['a text cut between two halves', `${'x'.repeat(65_535)}😀${'x'.repeat(70_000)}`],
    ['many small rows', Array.from({ length: 20_000 }, (_, id) => ({ id, name: `row ${id}`, none: null }))],
    ['long among short', [1, LONG, 'a', [LONG, []], {}, { b: LONG, c: [2] }, 'z']],
    ['long at both ends', [LONG, 1, LONG]],
    ['a map of many keys', Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k"${at}`, at]))],
    ['maps in maps', { a: { b: { c: Array.from({ length: 30_000 }, (_, at) => at / 3) } }, d: true }],
  ])('has the bytes of JSON.stringify: %s', async (_, value) => expectText(value));

  test('has them for any value with something long in it', async () => {
    const { value } = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom<Json>(null, true, 1.5, 'x', LONG, ''),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(fc.string({ maxLength: 3 }), tie('value'), { maxKeys: 4, noNullPrototype: true }),
      ),
    }));
    await fc.assert(fc.asyncProperty(value, expectText), { numRuns: 40 });
  });

  test('lets others go on meanwhile', async () => {
    const value = Array.from({ length: 200_000 }, (_, id) => ({ id, name: `row ${id}`, text: 'some more of it' }));
    const turns = await turnsDuring(() => writeJson(value));
    expect(turns).toBeGreaterThan(5);
  });
});
