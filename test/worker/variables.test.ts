import { describe, expect, it } from 'vitest';
import { Writes, withValueAt } from '../../src/worker/variables.ts';

describe('withValueAt', () => {
  it('makes maps on the way, keeps siblings and replaces what is no map', () => {
    expect(withValueAt(undefined, ['a', 'b'], 1)).toEqual({ a: { b: 1 } });
    expect(withValueAt({ a: { c: 2 }, d: 3 }, ['a', 'b'], 1)).toEqual({ a: { b: 1, c: 2 }, d: 3 });
    expect(withValueAt({ a: [1] }, ['a', 'b'], 1)).toEqual({ a: { b: 1 } });
    expect(withValueAt('x', [], 1)).toBe(1);
  });

  it('leaves the given value alone', () => {
    const given = { a: { c: 2 } };
    withValueAt(given, ['a', 'b'], 1);
    expect(given).toEqual({ a: { c: 2 } });
  });
});

describe('the writes of a command', () => {
  it('travel by path, the last one of a path wins', () => {
    const writes = new Writes();
    expect(writes.isEmpty).toBe(true);
    writes.write(['cfg', 'limit'], 1);
    writes.write(['rate'], 2);
    writes.write(['rate'], 3);
    expect(writes.toJson()).toEqual({ 'cfg.limit': 1, rate: 3 });
  });

  it('below a written variable go into its value, above written paths they replace them', () => {
    const writes = new Writes();
    writes.write(['cfg'], { keep: 1 });
    writes.write(['cfg', 'limit'], 5);
    expect(writes.toJson()).toEqual({ cfg: { keep: 1, limit: 5 } });
    writes.write(['a', 'b'], 1);
    writes.write(['a'], 'x');
    expect(writes.toJson()).toEqual({ cfg: { keep: 1, limit: 5 }, a: 'x' });
  });
});
