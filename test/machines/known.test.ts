import { expect, test } from 'vitest';
import { known } from '../../machines/known.ts';

test('what is there is given back, null too, and what is missing is a defect that shows', () => {
  expect([known(0), known(''), known(null)]).toEqual([0, '', null]);
  expect(() => known(new Map<string, number>().get('a'))).toThrow('something that must be there is missing');
});
