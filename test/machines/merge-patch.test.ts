import { expect, test } from 'vitest';
import { applyPatch, mergePatch } from '../../machines/merge-patch.ts';

test('lists are compared member by member, and a changed one is replaced', () => {
  expect(mergePatch({ a: [1, [2, { b: 3 }]] }, { a: [1, [2, { b: 3 }]] })).toBeNull();
  expect(mergePatch({ a: [1, null] }, { a: [1, 2] })).toEqual({ a: [1, 2] });
  expect(mergePatch({ a: [1] }, { a: [1, 2] })).toEqual({ a: [1, 2] });
  expect(mergePatch({ a: [1] }, { a: { 0: 1 } })).toEqual({ a: { 0: 1 } });
});

test('a map that takes the place of something else is patched from nothing', () => {
  expect(applyPatch({ a: 1, b: 2 }, { a: { c: 3, d: null }, b: null })).toEqual({ a: { c: 3 } });
});
