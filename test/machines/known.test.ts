import { expect, test } from 'vitest';
import { known, present } from '../../machines/known.ts';

test('what is there is given back, null too, and what is missing is a defect that shows', () => {
  expect([known(0), known(''), known(null)]).toEqual([0, '', null]);
  expect(present(0)).toBe(0);
  const missing = 'something that must be there is missing';
  expect(() => known(new Map<string, number>().get('a'))).toThrow(missing);
  expect(() => present(undefined)).toThrow(missing);
  expect(() => present(null)).toThrow(missing);
});
