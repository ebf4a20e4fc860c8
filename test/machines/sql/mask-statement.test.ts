import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { maskStatement } from '../../../machines/sql/mask-statement.ts';

describe('a masked statement', () => {
  test.each([
    ["select * from t where a = 'it''s' and b = 5", "select * from t where a = '***' and b = 0"],
    ["select E'a\\'secret', e'x'", "select '***', '***'"],
    ["select 'a\\' as b, 'secret'", "select '***' as b, '***'"],
    ["select U&'secret', B'1', N'secret'", "select U&'***', B'***', N'***'"],
    ['select $$secret$$, $a$sec$$ret$a$, $1, $2', "select '***', '***', $1, $2"],
    ['select $tag$never closed', "select '***'"],
    ['select 1 -- secret\n, 2', 'select 0   , 0'],
    ['select /* a /* nested */ secret */ 1.5e10', 'select   0'],
    ['select 1 -- secret', 'select 0  '],
    ['select /* never closed', 'select  '],
    ['select "Odd ""name""", t1.c2 from "never closed', 'select "Odd ""name""", t1.c2 from "never closed'],
    ["select 'never closed", "select '***'"],
    ['select a-1, a - -1, a/2, 0xff, 1_000', 'select a-0, a - -0, a/0, 0, 0'],
    ["select namee'secret'", "select name'***'"],
    ['select\n\t  1', 'select 0'],
    ['select ünïcode', 'select ünïcode'],
    ['$', '$'],
  ])('of %j is %j', (statement, masked) => {
    expect(maskStatement(statement, 200)).toBe(masked);
  });

  test('is no longer than asked', () => {
    expect(maskStatement('select a, b, c', 8)).toBe('select a');
    expect(maskStatement(`select '${'x'.repeat(1e6)}' as a`, 200)).toBe("select '***' as a");
  });

  test('never shows what stands between quotes', () => {
    const noise = fc.stringMatching(/^[a-z0-9 '"$\\/*-]{0,20}$/);
    fc.assert(
      fc.property(noise, (inner) => {
        const literal = `'canary${inner.replaceAll("'", "''")}canary'`;
        expect(maskStatement(`select ${literal}, ${literal} from t`, 200)).toBe("select '***', '***' from t");
      }),
    );
  });
});
