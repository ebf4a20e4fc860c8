import { describe, expect, test } from 'vitest';
import { externalise } from '../../actors/externalise.ts';
import type { Json } from '../../machines/json.ts';

const value: Json = { status: 'ok', total: 3, rows: Array.from({ length: 40 }, (_, id) => ({ id })) };
const json = JSON.stringify(value);

describe('a value for the log', () => {
  test('stays in it up to the limit', () => {
    expect(apart(value, json.length)).toBeNull();
    expect(apart('x'.repeat(98), 100)).toBeNull();
    expect(apart(null, 4)).toBeNull();
  });

  test('leaves it beyond the limit, which counts bytes', () => {
    expect(apart(value, json.length - 1)?.row).toEqual({
      ...{ executionId: 41007, resultId: 9, ref: 'callboard://execution/41007/result/export/9', name: 'export' },
      ...{ commandId: 12, scope: 'execution', store: 'db', data: json, bytes: json.length, sha256: 'h' },
      ...{ mediaType: 'application/json', summary: expect.any(Object), expiresAt: null },
    });
    expect(apart('☃'.repeat(40), 100)?.row.bytes).toBe(122);
  });

  test('leaves a summary and a reference behind', () => {
    const stored = apart(value, 100);
    expect(stored?.reference).toEqual({ ref: stored?.row.ref, store: 'db', bytes: json.length, sha256: 'h' });
    expect(stored?.summary).toEqual({
      ...{ status: 'ok', total: 3, rows_count: 40, last: 39 },
      ...{ _ref: stored?.row.ref, _store: 'db', _size_bytes: json.length, _preview: json.slice(0, 1024) },
    });
    expect(stored?.row.summary).toBe(stored?.summary);
  });
});

function apart(data: Json, inlineMaxBytes: number) {
  return externalise(data, {
    executionId: 41007,
    name: 'export',
    commandId: 12,
    inlineMaxBytes,
    select: [{ path: 'rows[-1].id', as: 'last' }],
    nextId: () => 9,
    sha256: () => 'h',
  });
}
