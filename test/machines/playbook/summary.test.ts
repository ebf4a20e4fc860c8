import { describe, expect, it } from 'vitest';
import type { Json } from '../../../machines/json.ts';
import { cutToBytes, type Selection, summarise, valueAt, withSelected } from '../../../machines/playbook/summary.ts';

const REF = 'callboard://execution/1/result/export/2';

function summaryOf(value: Json, select: readonly Selection[] = [], previewMaxBytes = 20) {
  const json = JSON.stringify(value);
  return summarise(value, json, { ref: REF, store: 'kv', bytes: json.length, select, previewMaxBytes });
}

describe('summarise', () => {
  it('never hides a member of the value behind a count of its own', () => {
    expect(summaryOf({ rows_count: 'mine', rows: [{ id: 1 }] })).toMatchObject({ rows_count: 'mine' });
  });

  it('finds the value itself at a path of nothing', () => {
    expect(valueAt({ a: 1 }, '.')).toEqual({ a: 1 });
  });

  it('keeps small scalars and short lists of scalars, counts other lists, flattens scalars of nested maps', () => {
    const value = {
      status: 'ok',
      nothing: null,
      long: 'x'.repeat(1001),
      tags: ['a', 'b'],
      many: Array.from({ length: 11 }, (_, index) => index),
      rows: [{ id: 1 }],
      meta: { total: 9, deep: { n: 1 }, list: [1] },
    };
    expect(summaryOf(value)).toEqual({
      status: 'ok',
      nothing: null,
      tags: ['a', 'b'],
      many_count: 11,
      rows_count: 1,
      meta_total: 9,
      _ref: REF,
      _store: 'kv',
      _size_bytes: JSON.stringify(value).length,
      _preview: '{"status":"ok","noth',
    });
  });

  it('keeps what the author selected, under its name', () => {
    const value = { meta: { total: 9 }, rows: [{ id: 7 }] };
    const select = [
      { path: 'meta.total', as: 'total' },
      { path: 'rows[0].id', as: 'id' },
      { path: 'rows[9].id', as: 'none' },
    ];
    const summary = summaryOf(value, select);
    expect(summary).toMatchObject({ total: 9, id: 7 });
    expect(summary).not.toHaveProperty('none');
  });

  it('has only the underscore members for what is not a map, and the count of a list', () => {
    expect(Object.keys(summaryOf('x'.repeat(50)))).toEqual(['_ref', '_store', '_size_bytes', '_preview']);
    expect(summaryOf([1, 2, 3])).toMatchObject({ count: 3, _ref: REF });
  });
});

describe('withSelected', () => {
  it('adds selected fields to a map where the key is absent', () => {
    const select = [{ path: 'meta.total', as: 'total' }];
    expect(withSelected({ meta: { total: 9 } }, select)).toEqual({ meta: { total: 9 }, total: 9 });
    expect(withSelected({ meta: { total: 9 }, total: 1 }, select)).toEqual({ meta: { total: 9 }, total: 1 });
    expect(withSelected([1], select)).toEqual([1]);
    expect(withSelected({ a: 1 }, [])).toEqual({ a: 1 });
  });
});

describe('valueAt', () => {
  it('follows names and indexes, own members only', () => {
    expect(valueAt({ rows: [{ id: 1 }, { id: 2 }] }, 'rows[-1].id')).toBe(2);
    expect(valueAt({ a: 1 }, 'a.b')).toBeUndefined();
    expect(valueAt({ a: 1 }, 'constructor')).toBeUndefined();
    expect(valueAt([5], 'x')).toBeUndefined();
  });
});

describe('cutToBytes', () => {
  it('cuts at whole characters', () => {
    expect(cutToBytes('abc', 100)).toBe('abc');
    expect(cutToBytes('aéb', 2)).toBe('a');
    expect(cutToBytes('aéb', 3)).toBe('aé');
    expect(cutToBytes('漢字', 5)).toBe('漢');
    expect(cutToBytes('😀x', 3)).toBe('');
    expect(cutToBytes('😀x', 5)).toBe('😀x');
  });
});
