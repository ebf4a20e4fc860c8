/** Edges of what Python and Jinja2 do, and where this dialect stops (language 8.9 to 8.12). */
import { describe, expect, it, test } from 'vitest';
import { compileWithBudget } from '../../../machines/playbook/template/budget.ts';
import { compileTemplate } from '../../../machines/playbook/template/compiled.ts';
import { syntaxErrorIn, TemplateSyntaxError } from '../../../machines/playbook/template/errors.ts';
import { renderText, renderValue } from '../../../machines/playbook/template/render.ts';
import { DEFAULT_LIMITS } from '../../../machines/playbook/template/run.ts';
import { raised, scopeOf, text, value } from './scope.ts';

describe('formats', () => {
  it.each<[string, unknown]>([
    ["'%.*f' % (2, 3.14159)", '3.14'],
    ["'{:d}'.format(true)", '1'],
    ["'{:.3}'.format(3.14159)", '3.14'],
    ["'{:#X}'.format(255)", '0XFF'],
    ["'{:#o}'.format(8)", '0o10'],
    ["'{:#b}'.format(5)", '0b101'],
    ["'{:f}'.format(1.5)", '1.500000'],
    ["'{:%}'.format(0.5)", '50.000000%'],
    ["'{:.0f}'.format(1e22)", '10000000000000000000000'],
    ["'{!r}'.format(\"it's\")", '"it\'s"'],
  ])('%s', (expression, expected) => {
    expect(value(expression)).toBe(expected);
  });
});

describe('numbers in texts', () => {
  it.each<[string, unknown]>([
    ["'-5' | int", -5],
    ["'-0' | int", 0],
    ["('9' * 399) | int(7)", 7],
    ["'7' | int(0, 'x')", 7],
    ["'12' | int(0, 0)", 12],
    ["'0b1' | int(0, 16)", 177],
    ["'1e999' | float(5)", 5],
    ['false | float', 0],
  ])('%s', (expression, expected) => {
    expect(value(expression)).toBe(expected);
  });
});

describe('texts', () => {
  it.each<[string, unknown]>([
    ["'ab' * true", 'ab'],
    ["'' | capitalize", ''],
    ["'abc' | center(2)", 'abc'],
    ["'ab' < 'abc'", true],
    ['"it\'s (b)" | urlencode', 'it%27s%20%28b%29'],
    ["'  a '.lstrip()", 'a '],
    ["'  a '.rstrip()", '  a'],
    ["'aXa'.replace('a', 'b', 0)", 'aXa'],
    ["'ab'.replace('', '-', 2)", '-a-b'],
    ["'ab'.replace('', '-', 9)", '-a-b-'],
    ["'abc'.replace('', '-', 2)", '-a-bc'],
    ["'a b'.rsplit()", ['a', 'b']],
    ["'abcb'.find('b', 0, -1)", 1],
    ["'abc'.find('a', 3, 1)", -1],
    ["'abc'.startswith('ab', none, 2)", true],
    ["'abc'.removeprefix('x')", 'abc'],
    ["'abc'.removesuffix('x')", 'abc'],
    ["'&#0; &#xD800; &#65; &nope; &amp;' | striptags", '&#0; &#xD800; A &nope; &'],
    ["'😀😀😀😀' | truncate(3, true, '…', 0)", '😀😀…'],
    ["'aa-bb cc' | wordwrap(4, false, '|', false)", 'aa-bb|cc'],
    ["'Pj4-Pz8_' | b64decode", '>>>???'],
    ["'\\U0001F600'", '😀'],
    ["'a\\qb'", 'a\\qb'],
  ])('%s', (expression, expected) => {
    expect(value(expression)).toEqual(expected);
  });
});

describe('lists and maps', () => {
  it.each<[string, unknown]>([
    ["[['a', 'b']] | map('map', 'upper')", [['A', 'B']]],
    ["['aa'] | map('replace', 'a', 'b', count=1)", ['ba']],
    ["{'a': 1}.keys()", ['a']],
    ['[1] == {}', false],
    ["1 in {'1': 2}", true],
    ["2 in {'1': 2}", false],
    ['[1] < [1, 2]', true],
    ['nope | keys', []],
    ['{"a": 1} == {"a": 1, "b": 2}', false],
    ['[] * 2', []],
    ['[1] * 0', []],
    ['{} == [1]', false],
    ["[{'t': [2, 1]}, {'t': [1, 2]}] | map(attribute='t.1')", [1, 2]],
    ["[{'m': {'0': 'z'}}] | map(attribute='m.0')", ['z']],
    ["([{'a': 1}] | groupby('a') | first).nope is defined", false],
  ])('%s', (expression, expected) => {
    expect(value(expression)).toEqual(expected);
  });
});

describe('what raises', () => {
  it.each([
    "['a'] | map('upper', nope=1)",
    "'AAAAA' | b64decode",
    "'abcd' | truncate(3, true, 5)",
    '[1].index(2)',
    "'ab' * none",
    "'ab' * 'x'",
  ])('%s', (expression) => {
    expect(raised(() => value(expression))).toMatchObject({ name: 'TemplateError', code: 'TEMPLATE_ERROR' });
  });

  it('lists that differ only far inside have no order that is looked for so deep', () => {
    const nested = (depth: number, tail: readonly number[]): unknown =>
      depth === 0 ? [] : [nested(depth - 1, tail), ...tail];
    const lists = [nested(1_000, []), nested(1_000, [1])];
    expect(raised(() => value('lists | sort', { lists }))).toMatchObject({ code: 'TEMPLATE_LIMIT' });
  });

  it('a text that reads as JSON and is too long for what is left of the steps', () => {
    const template = compileTemplate('{{ s }}{{ s }}');
    const data = scopeOf({ s: `[${'1,'.repeat(20_000)}1]` });
    expect(raised(() => renderText(template, data, { ...DEFAULT_LIMITS, steps: 1_500 }))).toBeNull();
    expect(raised(() => renderValue(template, data, { ...DEFAULT_LIMITS, steps: 1_500 }))).toMatchObject({
      code: 'TEMPLATE_LIMIT',
    });
  });

  it('a value that is built too deep', () => {
    let deep: unknown = [];
    for (let depth = 0; depth < 3_000; depth += 1) deep = [deep];
    expect(raised(() => value('[deep]', { deep }))).toMatchObject({ code: 'TEMPLATE_LIMIT' });
  });
});

describe('statements', () => {
  it.each<[string, string]>([
    ['{% set x %}{% endset %}[{{ x }}]', '[]'],
    ["{% for i in [1, 2] %}{% if i == 2 %}{% set x = i %}{% endif %}{{ x | default('-') }}{% endfor %}", '-2'],
  ])('%s', (source, expected) => {
    expect(text(source)).toBe(expected);
  });

  it.each<[string, unknown]>([
    ['{{ 1 }}{% set b = 2 %}{{ b }}', 12],
    ['{% if true %}false{% endif %}', false],
  ])('%s as a value', (source, expected) => {
    expect(renderValue(compileTemplate(source), scopeOf({}))).toBe(expected);
  });

  it.each<[string, string]>([
    ['{{ [1,', 'unexpected end'],
    ['{{ x[1', 'unexpected end'],
    ['{% for', 'unexpected end'],
    ['{{ 1 is divisibleby() }}', 'one argument'],
    ['{{ 1 is odd(3) }}', 'no argument'],
    ['{{ 1 is divisibleby(num=2) }}', 'no named arguments'],
    ['{% set a[b] = 1 %}', "to end the 'set' tag"],
    ['{% set a() = 1 %}', "to end the 'set' tag"],
    ['{% set a.b.c = 1 %}', "'set' tag"],
    ['{% set 5 = 1 %}', 'expected'],
  ])('%s is refused', (source, reason) => {
    expect(() => compileTemplate(source)).toThrow(reason);
  });
});

describe('a strict run', () => {
  const strict = { ...DEFAULT_LIMITS, strict: true };

  it.each(['{{ nope }}', '{{ nope | upper }}', 'a {{ nope }}', '{% for x in nope %}{% endfor %}'])(
    'refuses %s',
    (source) => {
      expect(() => renderValue(compileTemplate(source), scopeOf({}), strict)).toThrow('undefined');
    },
  );

  it('still takes a default for what is missing', () => {
    expect(renderValue(compileTemplate('{{ nope | default(1) }}'), scopeOf({}), strict)).toBe(1);
  });
});

describe('data from outside', () => {
  it('a number beyond all bounds is null where it is written as JSON', () => {
    expect(value('list | tojson', { list: JSON.parse('[1e999]') })).toBe('[null]');
  });

  it('a member named __proto__ does not reach what a template builds', () => {
    expect(value('[m]', { m: JSON.parse('{"a": 1, "__proto__": {"b": 2}}') })).toEqual([{ a: 1 }]);
  });
});

describe('a value with one budget', () => {
  const rendered = (template: Parameters<typeof compileWithBudget>[0], limits = DEFAULT_LIMITS) =>
    compileWithBudget(template).render(scopeOf({ n: 2, k: 'key', p: '__proto__' }), limits);

  it('is rendered throughout, with typed values and keys as text', () => {
    expect(rendered({ a: ['{{ n }}', 'plain', 1, null, true], '{{ k }}-x': '{{ n }}!' })).toEqual({
      a: [2, 'plain', 1, null, true],
      'key-x': '2!',
    });
  });

  it('tells the roots of all its templates', () => {
    expect([...compileWithBudget({ '{{ a }}': ['{{ b.c }}', '{{ a }}'] }).roots].sort()).toEqual(['a', 'b']);
  });

  it('is refused with the place of what cannot be read', () => {
    const error = raised(() => compileWithBudget({ a: [1, '{{ n + }}'] }));
    expect(error).toMatchObject({ name: 'TemplateSyntaxError', at: ['a', 1] });
  });

  it('never has a key named __proto__', () => {
    expect(() => rendered({ '{{ p }}': 1 })).toThrow("'__proto__' cannot be a key");
  });

  it('may use its bytes once, not once for each template', () => {
    const limits = { ...DEFAULT_LIMITS, outputBytes: 30 };
    const ten = "{{ 'x' * 10 }}";
    expect(rendered([ten, ten], limits)).toHaveLength(2);
    expect(raised(() => rendered([ten, ten, ten], limits))).toMatchObject({ code: 'TEMPLATE_LIMIT' });
    expect(raised(() => rendered(["{{ 'x' * 40 }}"], limits))).toMatchObject({ code: 'TEMPLATE_LIMIT' });
    expect(raised(() => rendered(["{{ ['x'] * 9 }}", "{{ ['x'] * 9 }}"], limits))).toMatchObject({
      code: 'TEMPLATE_LIMIT',
    });
  });

  it('ends when its time is over, however small each template is', () => {
    let now = 0;
    const limits = { ...DEFAULT_LIMITS, until: 5, now: () => (now += 2) };
    expect(raised(() => rendered(Array(20).fill('{{ n }}'), limits))).toMatchObject({
      code: 'TEMPLATE_LIMIT',
      message: expect.stringContaining('the templates together take too long'),
    });
  });
});

test('a run without a time of its own ends at the instant it is given', () => {
  const { timeoutMs: _, ...limits } = DEFAULT_LIMITS;
  const template = compileTemplate('{% for i in range(100000) %}x{% endfor %}');
  const error = raised(() => renderText(template, scopeOf({}), { ...limits, now: () => 7, until: 6 } as never));
  expect(error).toMatchObject({ code: 'TEMPLATE_LIMIT' });
});

test('only an error of the source is told as one', () => {
  const defect = new RangeError('stack');
  expect(() => syntaxErrorIn(defect)).toThrow(defect);
  const error = new TemplateSyntaxError('no', 'x', 0);
  expect(syntaxErrorIn(error)).toBe(error);
});
