import { describe, expect, it } from 'vitest';
import { parseJson } from '../../src/tools/json-text.ts';
import { checkResult, cleanText, maxResultDepth } from '../../src/tools/sanitize.ts';

function nest(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

describe('checkResult', () => {
  it('lets plain JSON through', () => {
    expect(checkResult({ a: [1, 'x', null, true, { b: '\u{1f600}' }] })).toBeNull();
    expect(checkResult(nest(maxResultDepth))).toBeNull();
  });

  it.each([
    [{ a: ['x\0'] }, /NUL character at \.a\[0\]/],
    [{ 'k\0': 1 }, /key with a NUL/],
    ['\ud800', /half a surrogate/],
    [{ '\udc00': 1 }, /key with half/],
    [nest(maxResultDepth + 1), /deeper than 64/],
    [nest(100_000), /deeper than 64/],
    [[Number.NaN], /not finite at \[0\]/],
    [[undefined], /type undefined/],
    [JSON.parse('{"__proto__": 1}'), /__proto__/],
    [{ constructor: { prototype: 1 } }, /constructor\.prototype/],
  ])('names what cannot be stored (%#)', (value, sentence) => expect(checkResult(value)).toMatch(sentence));

  it('lets a harmless member named constructor through', () => expect(checkResult({ constructor: 'x' })).toBeNull());

  it('makes any text storable', () => expect(cleanText('a\0b\ud800')).toBe('a\ufffdb\ufffd'));
});

describe('parseJson', () => {
  it('keeps whole numbers outside of what is safe as text', () => {
    expect(parseJson('[9007199254740993, 12345678901234567890, 9007199254740992, -9007199254740993]')).toEqual([
      '9007199254740993',
      '12345678901234567890',
      '9007199254740992',
      '-9007199254740993',
    ]);
    expect(parseJson('[9007199254740991, -9007199254740991, 1e300, 0.1234567890123456]')).toEqual([
      2 ** 53 - 1,
      1 - 2 ** 53,
      1e300,
      0.1234567890123456,
    ]);
  });
  it('reads a number beyond the range of doubles as null', () => expect(parseJson('[1e400, 1]')).toEqual([null, 1]));
  it('does not touch prototypes', () => {
    const value = parseJson('{"__proto__": {"polluted": true}, "n": 12345678901234567890}');
    expect(Object.hasOwn(value as object, '__proto__')).toBe(true);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});
