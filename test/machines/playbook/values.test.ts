import { describe, expect, it } from 'vitest';
import type { Json } from '../../../machines/json.ts';
import { Facade } from '../../../machines/playbook/template/facade.ts';
import { NeedPayload, stepValue } from '../../../machines/playbook/values.ts';

const REF = 'callboard://execution/1/result/export/2';
const none = () => undefined;

function facade(value: unknown): Facade {
  if (!(value instanceof Facade)) throw new Error('expected a facade');
  return value;
}

const inline = (value: Json) => facade(stepValue(value, null, none));

describe('an inline step value', () => {
  it('shows its members', () => {
    expect(inline({ n: 1, list: [1, 2] }).member('n')).toBe(1);
    expect(inline({ n: 1 }).member('missing')).toBeUndefined();
  });

  it('answers .data and .result on a map without these keys with the map itself', () => {
    const value = inline({ n: 1 });
    expect(facade(value.member('data')).plain()).toEqual({ n: 1 });
    expect(facade(value.member('result')).plain()).toEqual({ n: 1 });
    expect(inline({ data: 5, result: null }).member('data')).toBe(5);
    expect(inline({ data: 5, result: null }).member('result')).toBeNull();
  });

  it('answers .result on nested maps too, .data only at the top', () => {
    const body = facade(inline({ body: { n: 1 } }).member('body'));
    expect(facade(body.member('result')).plain()).toEqual({ n: 1 });
    expect(body.member('data')).toBeUndefined();
    expect(body.plain()).toEqual({ n: 1 });
  });

  it('answers .result on maps in a list inside it, and not on the list', () => {
    const results = facade(inline({ results: [[{ n: 1 }]] }).member('results'));
    const map = facade(facade(results.member(-1)).member(0));
    expect(facade(map.member('result')).plain()).toEqual({ n: 1 });
    expect([map.member('data'), results.member('data'), results.member('result')]).toEqual(Array(3).fill(undefined));
    expect(results.plain()).toEqual([[{ n: 1 }]]);
  });

  it('answers .data and .result on a list or scalar with the value', () => {
    expect(inline([1, 2]).member('data')).toEqual([1, 2]);
    expect(inline('text').member('result')).toBe('text');
    expect(inline(0).member('data')).toBe(0);
    expect(inline(7).member('other')).toBeUndefined();
  });

  it('gives elements of a list by index, also from its end', () => {
    expect(inline(['a', 'b']).member(0)).toBe('a');
    expect(inline(['a', 'b']).member(-1)).toBe('b');
    expect(facade(inline([{ n: 1 }]).member(0)).plain()).toEqual({ n: 1 });
    expect(inline(['a']).member('length')).toBeUndefined();
  });

  it('never finds inherited names', () => {
    expect(inline({ n: 1 }).member('constructor')).toBeUndefined();
    expect(inline({ n: 1 }).member('__proto__')).toBeUndefined();
  });

  it('stays null where there is no value', () => {
    expect(stepValue(null, null, none)).toBeNull();
  });
});

describe('a stored step value', () => {
  const summary = { count: 3, meta_total: 9, _ref: REF };
  const payload = { count: 3, rows: [{ id: 1 }], meta: { total: 9 } };

  it('answers from its summary without the payload', () => {
    const value = facade(stepValue(summary, REF, none));
    expect(value.member('count')).toBe(3);
    expect(value.member('_ref')).toBe(REF);
  });

  it('has no members until it is there where its summary is no map', () => {
    const value = facade(stepValue('cut short', REF, (ref) => (ref === REF ? payload : undefined)));
    expect(value.member('count')).toBe(3);
    expect(() => facade(stepValue('cut short', REF, none)).member('count')).toThrow(NeedPayload);
  });

  it('asks for the payload for anything else, and as a whole', () => {
    const value = facade(stepValue(summary, REF, none));
    expect(() => value.member('rows')).toThrow(NeedPayload);
    expect(() => value.member('data')).toThrow(NeedPayload);
    expect(() => value.plain()).toThrow(new NeedPayload(REF));
  });

  it('is whole once the payload is there, and keeps what only the summary has', () => {
    const value = facade(stepValue(summary, REF, (ref) => (ref === REF ? payload : undefined)));
    expect(facade(value.member('rows')).plain()).toEqual([{ id: 1 }]);
    expect(value.member('_ref')).toBe(REF);
    expect(value.member('meta_total')).toBe(9);
    expect(value.member('nothing')).toBeUndefined();
    expect(facade(value.member('data')).plain()).toEqual(payload);
    expect(value.plain()).toEqual(payload);
  });

  it('may be a list', () => {
    const value = facade(stepValue({ count: 2, _ref: REF }, REF, () => ['a', 'b']));
    expect(value.member(1)).toBe('b');
    expect(value.member('count')).toBe(2);
    expect(value.member('data')).toEqual(['a', 'b']);
  });
});
