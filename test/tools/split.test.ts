import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { splitStatements } from '../../src/tools/postgres/split.ts';

describe('splitting SQL text', () => {
  it.each([
    ['select 1', ['select 1']],
    ['select 1;', ['select 1']],
    [' select 1 ; select 2 ', ['select 1', 'select 2']],
    ['', []],
    [';;; ;', []],
    ['-- only a comment', []],
    ['/* only */ ; -- comments', []],
    ["select ';'", ["select ';'"]],
    ["select 'it''s; fine'; select 2", ["select 'it''s; fine'", 'select 2']],
    ["select 'a\\'; select 2", ["select 'a\\'", 'select 2']],
    ["select E'a\\'; b'; select 2", ["select E'a\\'; b'", 'select 2']],
    ["select e'\\\\'; select 2", ["select e'\\\\'", 'select 2']],
    ["select name'a\\'; select 2", ["select name'a\\'", 'select 2']],
    ["select U&'d\\0061;'; select 2", ["select U&'d\\0061;'", 'select 2']],
    ['select "a;b"; select 2', ['select "a;b"', 'select 2']],
    ['select "a""; b"; select 2', ['select "a""; b"', 'select 2']],
    ['select $$a;b$$; select 2', ['select $$a;b$$', 'select 2']],
    ['do $x$ begin; $$ ; $y$ ; $x$; select 2', ['do $x$ begin; $$ ; $y$ ; $x$', 'select 2']],
    ['select $1; select $2', ['select $1', 'select $2']],
    ['select a$b$c; select $b$;$b$', ['select a$b$c', 'select $b$;$b$']],
    ['select 1 -- ; no\n; select 2', ['select 1 -- ; no', 'select 2']],
    ['select 1 -- ; no\r; select 2', ['select 1 -- ; no', 'select 2']],
    ['select 1 /* ; /* ; */ ; */; select 2', ['select 1 /* ; /* ; */ ; */', 'select 2']],
    ['select 1::text; select a::b::c', ['select 1::text', 'select a::b::c']],
    [
      '-- a comment; with a semicolon\ncreate table t (a int);',
      ['-- a comment; with a semicolon\ncreate table t (a int)'],
    ],
    ["select '/*'; select '*/'", ["select '/*'", "select '*/'"]],
    ["select '--'; select 2", ["select '--'", 'select 2']],
    ['select $$ unended ; text', ['select $$ unended ; text']],
    ["select 'unended ; text", ["select 'unended ; text"]],
    ['select /* unended ; text', ['select /* unended ; text']],
    ['select 5-- x;\n-3; select 2', ['select 5-- x;\n-3', 'select 2']],
    ['select 1 - -1; select 4/2', ['select 1 - -1', 'select 4/2']],
    ['begin; select 1; end; select 2', ['begin', 'select 1', 'end', 'select 2']],
    ['select \'ü;\'; select "ß;"; select $ä$;$ä$', ["select 'ü;'", 'select "ß;"', 'select $ä$;$ä$']],
  ])('splits %j', (sql, statements) => expect(splitStatements(sql)).toEqual(statements));

  it('keeps the body of an SQL function together', () => {
    const body =
      'create or replace function f(a int) returns int begin atomic select case when a = 1 then 2 end; select 2; end';
    expect(splitStatements(`${body}; select f(1)`)).toEqual([body, 'select f(1)']);
  });

  it('never loses or reorders text', () => {
    const piece = fc.constantFrom(
      "'",
      '"',
      '$$',
      '$a$',
      ';',
      '--',
      '\n',
      '/*',
      '*/',
      'E',
      'a',
      ' ',
      '\\',
      '1',
      '::',
      '(',
      'é',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const sql = pieces.join('');
        let at = 0;
        for (const statement of splitStatements(sql)) {
          const found = sql.indexOf(statement, at);
          if (found < 0) return false;
          at = found + statement.length;
        }
        return true;
      }),
    );
  });

  it('splits a megabyte in linear time', () => {
    const sql = "insert into t values ('a;b');\n".repeat(35_000);
    const startedAt = performance.now();
    expect(splitStatements(sql)).toHaveLength(35_000);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});
