import { afterAll, describe, expect, it } from 'vitest';
import type { Json, JsonMap } from '../../machines/json.ts';
import { failed, noHost, openTools, succeeded } from './harness.ts';

const tools = openTools({ environment: {} });
afterAll(() => tools[Symbol.asyncDispose]());

const REF = 'callboard://execution/41007/result/export/5';

describe('an artifact task', () => {
  const payloads: Record<string, Json> = { [REF]: { rows: [1, 2] } };
  const stored: [string, Json][] = [];
  const host = {
    ...noHost,
    resolveResult: async (ref: string) => payloads[ref] ?? null,
    putResult: async (name: string, data: Json) => {
      stored.push([name, data]);
      return { ref: REF, store: 'kv', bytes: 9, sha256: 'ab' };
    },
  };
  const artifact = (input: JsonMap, fields: JsonMap = {}) => tools.run('artifact', fields, { input, host });

  it.each([
    ['a reference', { result_ref: REF }, { rows: [1, 2] }],
    ['a reference by its other name', { ref: REF }, { rows: [1, 2] }],
    ['an externalised value that was not resolved', { result_ref: { _ref: REF, _preview: '' } }, { rows: [1, 2] }],
    ['a value that was resolved on the way', { result_ref: { rows: [3] } }, { rows: [3] }],
    ['a list that was resolved on the way', { result_ref: [3] }, [3]],
  ] as [string, JsonMap, Json][])('answers %s with the payload', async (_, input, payload) => {
    expect(succeeded(await artifact(input)).data).toEqual(payload);
  });

  it('fails without a reference', async () => {
    for (const input of [{}, { result_ref: null }, { result_ref: '' }]) {
      expect(failed(await artifact(input)).error).toMatchObject({
        kind: 'missing_reference',
        message: 'artifact get requires result_ref',
      });
    }
    expect(failed(await artifact({ ref: '/etc/passwd' })).error.kind).toBe('missing_reference');
    expect(failed(await artifact({ ref: REF }, { action: 'eat' })).error.kind).toBe('config');
  });

  it('stores what it is given and answers where', async () => {
    const put = await artifact({ data: { a: 1 }, name: 'mine' }, { action: 'PUT' });
    expect(succeeded(put).data).toEqual({ ref: REF, store: 'kv', bytes: 9, sha256: 'ab' });
    await artifact({ data: null }, { action: 'put' });
    expect(stored).toEqual([
      ['mine', { a: 1 }],
      ['a_task', null],
    ]);
    expect(failed(await artifact({}, { action: 'put' })).error.kind).toBe('config');
  });
});
