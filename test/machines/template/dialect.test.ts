/** Rules of language 8 that Jinja2 does not decide: typed results, printing, undefined and null, conditions, refusals. */
import { describe, expect, it } from 'vitest';
import { compileCondition, compileTemplate } from '../../../machines/playbook/template/compiled.ts';
import { TemplateError, TemplateSyntaxError } from '../../../machines/playbook/template/errors.ts';
import { printValue } from '../../../machines/playbook/template/printing.ts';
import {
  evaluateNative,
  holds,
  isTruthy,
  renderText,
  renderValue,
} from '../../../machines/playbook/template/render.ts';
import { raised, scopeOf, text, value } from './scope.ts';

const empty = scopeOf({});

describe('a value field (language 8.5)', () => {
  const data = { n: 7, s: '42', list: [1, 2], nul: null, t: true, v: '1.10' };
  it.each<[string, unknown]>([
    ['no template here: 12', 'no template here: 12'],
    ['12', '12'],
    ['{{ n }}', 7],
    ['  {{ n }}\n', 7],
    ['{{ s }}', '42'],
    ['{{ list }}', [1, 2]],
    ['{{ nul }}', null],
    ['{{ missing }}', null],
    ['{{ n | string }}', '7'],
    ['{{ list | tojson }}', '[1,2]'],
    ['{{- n -}}', 7],
    ['{{ n }}{{ n }}', 77],
    ['{{ n }}.5', 7.5],
    ['{{ n }}.50', '7.50'],
    ['00{{ n }}', '007'],
    ['-{{ n }}', -7],
    ['{{ v }}{{ "" }}', '1.10'],
    ['1234567890123456789{{ n }}', '12345678901234567897'],
    ['{{ t }}{{ "" }}', true],
    ['{% if n %}true{% endif %}', true],
    ['{% if n %}False{% endif %}', false],
    ['{% if n %}null{% endif %}', 'null'],
    ['[{{ n }}, 2]', [7, 2]],
    ['{"a": {{ n }}}', { a: 7 }],
    ['[{{ n }}', '[7'],
    ['{{ n }} of {{ list | length }}', '7 of 2'],
    ['{{ n }}{# no longer one expression #}', 7],
    ['Infinity{{ "" }}', 'Infinity'],
    ['1e400{{ "" }}', '1e400'],
    ['[1e400{{ "" }}]', '[1e400]'],
    [' {{ n }}{{ n }} ', 77],
    ['{{ [missing, {"a": missing}] }}', [null, { a: null }]],
  ])('%j is %j', (source, expected) => {
    expect(renderValue(compileTemplate(source), scopeOf(data))).toEqual(expected);
  });

  it('keeps undefined when the caller asks for it', () => {
    expect(evaluateNative(compileTemplate('{{ missing }}'), empty)).toBeUndefined();
  });
});

describe('a text field (language 8.5)', () => {
  it.each<[string, string]>([
    ['{{ n }}', '7'],
    [' {{ n }} ', ' 7 '],
    ['{{ n }}\n\n', '7\n'],
    ['{{ missing }}', ''],
    ['plain\n', 'plain\n'],
    ['{{ m }}', '{"b":1,"a":[true,null]}'],
  ])('%j prints %j', (source, expected) => {
    const data = { n: 7, m: { b: 1, a: [true, null] } };
    expect(renderText(compileTemplate(source), scopeOf(data))).toBe(expected);
  });
});

describe('printing (language 8.6)', () => {
  it.each<[unknown, string]>([
    ['a', 'a'],
    [7, '7'],
    [7.0, '7'],
    [0.1, '0.1'],
    [true, 'True'],
    [false, 'False'],
    [null, ''],
    [undefined, ''],
    [[true, null, 'x'], '[true,null,"x"]'],
    [{ z: 1, a: 'é' }, '{"z":1,"a":"é"}'],
  ])('%j as %j', (input, expected) => {
    expect(printValue(input)).toBe(expected);
  });
});

describe('undefined and null (language 8.7)', () => {
  it.each<[string, unknown]>([
    ['a.b.c', undefined],
    ['nul.b', undefined],
    ['nul[0]', undefined],
    ['a[1:2]', undefined],
    ['a | length', 0],
    ['nul | length', 0],
    ['1 in a', false],
    ['1 not in nul', true],
    ['a == none', true],
    ['nul == a', true],
    ['nul is defined', true],
    ['a is defined', false],
    ['a < 1', false],
    ['1 >= nul', false],
    ['nul | default(3)', 3],
    ['0 | default(3)', 0],
    ['0 | default(3, true)', 3],
    ['a | default', ''],
    ['a | tojson', 'null'],
    ['a | upper', ''],
    ['a | sum', 0],
    ['a | join(",")', ''],
    ['nul | list', []],
    ["'1' == 1", false],
    ['true == 1', true],
    ['[1, {"a": [2]}] == [1.0, {"a": [2]}]', true],
    ['10 / 4', 2.5],
    ['8 / 4', 2],
    ['page.items', 3],
    ['page["items"]', 3],
    ['page.items() | length', 1],
    ['list.length', undefined],
    ['true if none else "x"', 'x'],
    ['r/2', 4],
    ['r/2/2', 2],
  ])('%s', (expression, expected) => {
    expect(value(expression, { nul: null, page: { items: 3 }, list: [1], r: 8 })).toEqual(expected);
  });

  it.each([
    'a + 1',
    'none + 1',
    "'a' + 1",
    '1 + [1]',
    '[1] - [1]',
    "'a' * 'b'",
    "'a' * 1.5",
    '1 / 0',
    '1 // 0',
    '1 % 0',
    '0 ** -1',
    '1e308 * 10',
    '(-8) ** 0.5',
    "'a'.nope()",
    'a.upper()',
    'x()',
    'x.y.z()',
    '(1)()',
    "'a' < 1",
    '[1] < {}',
    '{} < {}',
    '1 in 1',
    '1 in "a"',
    '5 | list',
    "'not json' | fromjson",
    "'1e400' | fromjson",
    "'%' | b64decode",
    "'/w==' | b64decode",
    '[none, 1] | sort',
    '[1, "a"] | max',
    "'%d' % 'x'",
    "'{0.a}'.format({'a': 1})",
    "'{'.format(1)",
    '[1].pop()',
    '{}.update()',
    "[1, 2] | map('int', nosuch=1)",
    '[1] | batch(0)',
    '[1] | slice(0)',
    '[1][::0]',
    '5[1:2]',
    "'a'['b']()",
    'range()',
    'range(1, 2, 0)',
    'range(1.5)',
    'dict([1])',
    'cycler()',
    "{'__proto__': 1}",
    'dict(__proto__=1)',
    "'x' | center(10) | truncate(1)",
    "'x' | wordwrap(0)",
    "1 | round(1, 'up')",
    "'a' | replace(1)(2)",
    "'a'.upper(1)",
    "'a'.split(nope=1)",
    'cycler(1).nope()',
    'cycler(1)()',
    'joiner().nope()',
    "'a'.center(5, 'xy')",
    "'a'.strip(1)",
    "'a'.split('')",
    "'a'.split(1)",
    "'a'.partition('')",
    "'a'.join([1])",
    "'a' | truncate('x')",
    "'x' | filesizeformat",
    '[1] | groupby',
    '[1] | map',
    '[1] | map(1)',
    '[1] | select(1)',
    "{} | dictsort(by='x')",
    '5 | items',
    "'a' | items",
    '[1] | urlencode',
    "'%y' % 1",
    "'%(a)s' % 1",
    "'%d' % (1, 2)",
    "'%.200f' % 1",
    "'%200000d' % 1",
    "'{:d}'.format('x')",
    "'{:s}'.format(1)",
    "'{:q}'.format(1)",
    "'{::}'.format(1)",
    "'{a}'.format(1)",
    "'%c' % -1",
    "'x' is divisibleby 2",
    '4 is divisibleby 0',
    'true + [1]',
    "[1, 'a'] | sort",
    "{'a': 1} | sum",
    '{[1]: 2}',
    '1 | round(1000)',
  ])('%s raises', (expression) => {
    const error = raised(() => value(expression));
    expect(error).toBeInstanceOf(TemplateError);
    expect(error).toMatchObject({ code: 'TEMPLATE_ERROR', expression });
  });

  it.each([
    ['nothing.here()', "an undefined value has no method 'here'"],
    ['none.upper()', "null has no method 'upper'"],
    ['nothing()', 'an undefined value cannot be called'],
    ['[1].push(2)', "a list has no method 'push'"],
    ['3[1:]', 'a number cannot be sliced'],
  ])('an error of %s is a sentence', (expression, sentence) => {
    expect(raised(() => value(expression))).toMatchObject({ message: expect.stringContaining(sentence) });
  });

  it('quotes the expression and never a value', () => {
    const error = raised(() => text('x {{ 1 }} {{ token + 1 }}', { token: 's3cret' }));
    expect(error?.message).toBe('\'+\' cannot be used on text and number in "token + 1"');
  });
});

describe('filters beyond Jinja2 (language 8.9)', () => {
  it.each<[string, unknown]>([
    ["'é😀' | b64encode", 'w6nwn5iA'],
    ["'w6nwn5iA' | b64decode", 'é😀'],
    ["'YQ' | b64decode", 'a'],
    ["'' | b64encode", ''],
    ['\'{"a": [1, null]}\' | fromjson', { a: [1, null] }],
    ["{'a': 1} | get('a')", 1],
    ["{'a': 1} | get('b')", null],
    ["{'a': 1} | get('b', 2)", 2],
    ['[1, 2] | get(1)', 2],
    ["'a,b' | split(',')", ['a', 'b']],
    ["' a  b ' | split", ['a', 'b']],
    ["'a,b,c' | split(',', 1)", ['a', 'b,c']],
    ["'a,b,c' | split(sep=',', max=1)", ['a', 'b,c']],
    ["{'a': 1, 'b': 2} | keys", ['a', 'b']],
    ["{'a': 1, 'b': 2} | values", [1, 2]],
    ["{'a': 1} | items", [['a', 1]]],
    ["{'a': 1} | attr('a')", 1],
    ["{'a': 1} | attr('constructor')", undefined],
    ["'abc' | len", 3],
    ["'abc' | count", 3],
    ['[1] | tojson(2)', '[\n  1\n]'],
    ["{'a': {'b': []}} | tojson(indent=2)", '{\n  "a": {\n    "b": []\n  }\n}'],
    ["'<a>' | tojson", '"<a>"'],
    ["'x' | float", 0],
    ["'-3.9' | int", -3],
    ['[] | int', 0],
    ["'nan' | float(1)", 1],
    ["'9' * 400 | int(5)", '9'.repeat(400)],
    ['2.5 | round', 2],
    ['-0.5 | round', -0],
    ['1e22 | round(2)', 1e22],
    ['[3, 1, 2] | sort | reverse', [3, 2, 1]],
    ['1500 | filesizeformat', '1.5 kB'],
    ["'a' | safe", 'a'],
    ['(1, 2) is sequence', true],
    ["'a\\nb' | indent", 'a\n    b'],
    ["'a,b,c'.split(sep=',', maxsplit=1)", ['a', 'b,c']],
    ["'a'.center(fillchar='*', width=3)", '*a*'],
    ["{'a': 1}.get('b', default=2)", 2],
    ["'1' | int(0, 1)", 1],
    ["'zz' | int(7, 36)", 1295],
    ["'12' | int(7, 99)", 12],
    ["'1e30' | filesizeformat", '1000000.0 YB'],
    ['0 | filesizeformat', '0 Bytes'],
    ['cycler(1, 2)', [1, 2]],
    ["joiner('-')", '-'],
    ["'%e' % 0", '0.000000e+00'],
    ["'%g' % 0", '0'],
    ["'%E %G' % (1.5, 0.00001)", '1.500000E+00 1E-05'],
    ["'%d' % 1e21", '1000000000000000000000'],
    ["'%.1f' % 1e21", '1000000000000000000000.0'],
    ["'%d' % true", '1'],
    ["'%-5d|' % 3", '3    |'],
    ["'%.3d' % 7", '007'],
    ["'%#x' % 255", '0xff'],
    ["'%(a)d%%' % {'a': 5}", '5%'],
    ["'%s and %s' % [1, 2]", '1 and 2'],
    ["'%r' % [1, 'a']", '[1,"a"]'],
    ["'%c' % 'x'", 'x'],
    ["'{:b} {:o} {:X} {:E}'.format(5, 8, 255, 1.5)", '101 10 FF 1.500000E+00'],
    ["'{:=+6d}'.format(5)", '+    5'],
    ["'{:<6}|{:^6}|'.format(5, 5)", '5     |  5   |'],
    ["'{!s:>4}'.format(5)", '   5'],
    ["'{:s}'.format('x')", 'x'],
    ["'{}'.format(none)", ''],
    ["'it''s' | replace(none, 'x')", 'xixtxsx'],
    [
      '[[2, 1], [1, 9], [1, 2]] | sort',
      [
        [1, 2],
        [1, 9],
        [2, 1],
      ],
    ],
    ["[{'a': [1]}, {'a': [1]}] | unique", [{ a: [1] }]],
    ["[1, true, '1', none, missing] | unique", [1, '1', null]],
    ["'b' > 'a' > 'A'", true],
    ["'😀' > 'ﬀ'", true],
    ['[true, 0] | sort', [0, true]],
    ['[1, 2, 3].index(3, 1)', 2],
    ["'abcabc'.find('b', -3)", 4],
    ["'😀a😀'.find('a')", 1],
    ["'abc'.startswith(['x', 'ab'])", true],
    ["'a' ~ 1.50 ~ [1]", 'a1.5[1]'],
    ["{'b': 1}.b is defined and {}.b is undefined", true],
    ['[3][true]', undefined],
    ["'x'[none]", undefined],
    ["{'a': 1}[[1]]", undefined],
    ["'a-b c' | title", 'A-B C'],
    ["'AbC' | string | upper | lower", 'abc'],
    ['(none, missing) | list | tojson', '[null,null]'],
    ["'<i>&#65;&#x42;&nope;&lt;' | striptags", 'AB&nope;<'],
    ["('k', 'v') | join('=')", 'k=v'],
    ['[1, 2, 3, 4] | batch(3, none)', [[1, 2, 3], [4]]],
    ["{'a': 1} | first", 'a'],
    ['[] | first is undefined', true],
    ["'' | first is undefined", true],
    ["{'a': 1, 'b': 2} | last", 'b'],
    ['5 | default(missing)', 5],
    ["2.5 | round(1, 'ceil')", 2.5],
    ['1234.5 | round(-2)', 1200],
    ['-1250 | round(-2)', -1200],
  ])('%s', (expression, expected) => {
    expect(value(expression)).toEqual(expected);
  });
});

describe('conditions (language 8.8)', () => {
  it.each<[string | boolean, boolean]>([
    [true, true],
    [false, false],
    ['n > 3', true],
    ['{{ n > 3 }}', true],
    ['missing', false],
    ['nul', false],
    ['zero', false],
    ['word', false],
    ["'Off '", false],
    ["'[]'", false],
    ["'0.0'", true],
    ["'yes'", true],
    ['[]', false],
    ['[0]', true],
    ['{}', false],
    ["n == 7 and {'a': {'b': 1}}.a.b", true],
    ['{{ n }} {{ n }}', true],
    ['{% if n %}no{% endif %}', false],
    ["{% if 'false' %}1{% endif %}", true],
    ['true', true],
    ["'}' ~ '}'", true],
  ])('%j is %j', (source, expected) => {
    const scope = scopeOf({ n: 7, nul: null, zero: 0, word: 'No' });
    expect(holds(compileCondition(source), scope)).toBe(expected);
  });

  it.each(['', '  ', 'a }} b', 'a b', 'a = 1', '{{ a', 'a {# c #}'])('%j is refused', (source) => {
    expect(() => compileCondition(source)).toThrow(TemplateSyntaxError);
  });

  it('says where a bare expression is wrong', () => {
    expect(raised(() => compileCondition('ab | nope'))).toMatchObject({
      offset: 5,
      reason: "unknown filter 'nope'",
      excerpt: 'ab | nope',
    });
  });

  it('takes only what the compilers made', () => {
    const stranger = { source: 'x', form: 'plain', roots: [], members: [] } as const;
    expect(() => renderText(stranger, empty)).toThrow(TypeError);
    expect(() => holds(stranger, empty)).toThrow(TypeError);
  });

  it('knows the truth of values that are not text', () => {
    expect([1, true, [0], { a: 0 }, 'x'].every(isTruthy)).toBe(true);
    expect([0, false, [], {}, '', null, undefined, ' NULL '].some(isTruthy)).toBe(false);
  });
});

describe('what a template asks for', () => {
  it.each<[string, string[], string[]]>([
    ['{{ workload.a.b }} {{ steps["fetch"].data }}', ['workload', 'steps'], ['workload.a', 'steps.fetch']],
    ['{% for x in rows %}{{ x.id }}{{ y }}{{ loop.index }}{% endfor %}', ['rows', 'y'], []],
    ['{% set a = b %}{{ a }}', ['b'], []],
    ['{% if c %}{% set a = 1 %}{% endif %}{{ a }}', ['c', 'a'], []],
    ['{% with a = b %}{{ a }}{% endwith %}{{ a }}', ['b', 'a'], []],
    ['{{ range(3) }}{{ dict(a=b) }}', ['b'], []],
    ['{{ keychain[name].token }}', ['keychain', 'name'], []],
    ["{{ event.name == 'x' }}", ['event'], ['event.name']],
    ["{{ ctx.get('k') }}", ['ctx'], []],
    ['{{ x }}{% for x in x %}{{ x }}{% endfor %}', ['x'], []],
    ['no template', [], []],
    ["{{ 'keychain.a' }}{% raw %}{{ keychain.b }}{% endraw %}{# {{ keychain.c }} #}", [], []],
  ])('%s', (source, roots, members) => {
    const template = compileTemplate(source);
    expect(template.roots).toEqual(roots);
    expect(template.members).toEqual(members);
  });
});

describe('what registration refuses', () => {
  it.each<[string, string]>([
    ['{{ 1 + }}', 'expected an expression'],
    ["{{ 'x' | frobnicate }}", "unknown filter 'frobnicate'"],
    ['{{ x is weird }}', "unknown test 'weird'"],
    ['{{ x is not weird }}', "unknown test 'weird'"],
    ["{{ x | map('weird') }}", "unknown filter 'weird'"],
    ["{{ x | select('weird') }}", "unknown test 'weird'"],
    ["{{ x | selectattr('a', 'weird') }}", "unknown test 'weird'"],
    ['{{', 'unexpected end'],
    ['{{ a', "expected '}}'"],
    ['{% if a %}', 'expected elif, else, or endif, got end'],
    ['{% for a in b %}', 'unexpected end'],
    ['{% endif %}', "unknown tag 'endif'"],
    ['{% include "a" %}', "'include' is not supported"],
    ['{% import "a" as b %}', "'import' is not supported"],
    ['{% from "a" import b %}', "'from' is not supported"],
    ['{% extends "a" %}', "'extends' is not supported"],
    ['{% block a %}{% endblock %}', "'block' is not supported"],
    ['{% macro a() %}{% endmacro %}', "'macro' is not supported"],
    ['{% call a() %}{% endcall %}', "'call' is not supported"],
    ['{% do a %}', "'do' is not supported"],
    ['{% switch a %}{% endswitch %}', "unknown tag 'switch'"],
    ['{% asyncEach a in b %}{% endeach %}', "unknown tag 'asyncEach'"],
    ['{{ caller() }}', "'caller' is not supported"],
    ['{{ r/^(a+)+$/.test("a") }}', "unexpected character '^'"],
    ['{{ r/x/.constructor }}', 'expected an expression'],
    ['{{ a === b }}', 'expected an expression'],
    ['{{ "a }}', 'text is not closed'],
    ['{# a {{ b }}', 'comment is not closed'],
    ['{% raw %}{{ a }}', "'raw' is not closed"],
    ['{{ a b }}', "expected '}}'"],
    ['{{ (a] }}', "unexpected ']'"],
    ['{{ a[] }}', 'index is not valid'],
    ['{{ a[1:2:3:4] }}', 'index is not valid'],
    ['{{ a.1x }}', 'number is not valid'],
    ['{{ 1e999 }}', 'number is too large'],
    ["{{ '\\ud8' }}", 'escape is not valid'],
    ['{% set true = 1 %}', "cannot assign to 'true'"],
    ['{% set a.b.c = 1 %}', "expected '%}' to end the 'set' tag"],
    ['{% set a, b %}x{% endset %}', "'set' needs a value"],
    ['{% for a in b recursive %}{% endfor %}', "'recursive' is not supported"],
    ['{{ f(a=1, 2) }}', 'positional argument after a named one'],
    ['{{ f(a=1, a=2) }}', "argument 'a' is given twice"],
    ['{{ f(1=2) }}', 'argument name is not valid'],
    ["{{ a | replace('a', 'b', 1, 2) }}", "filter 'replace' has too many arguments"],
    ["{{ a | replace('a', old='b') }}", "filter 'replace' cannot take the argument 'old'"],
    ['{{ a | trim(nope=1) }}', "filter 'trim' cannot take the argument 'nope'"],
    ['{{ a is defined(1) }}', "test 'defined' takes no argument"],
    ['{{ a is divisibleby }}', 'expected an expression'],
    ['{{ not }}', 'expected an expression'],
    ['{{ a not b }}', "expected 'in', got 'b'"],
    ['{{ a. }}', "expected a name after '.'"],
    ['{{ a ; b }}', "unexpected character ';'"],
    ['{% %}', 'a tag needs a name'],
    ['{{ 1, 2 }}', "expected '}}'"],
  ])('%s', (source, reason) => {
    const error = raised(() => compileTemplate(source));
    expect(error).toBeInstanceOf(TemplateSyntaxError);
    expect(error).toHaveProperty('reason', reason);
  });

  it('says what, where and in which tag', () => {
    expect(raised(() => compileTemplate('first {{ ok }} then {{ x | nope }} {{ y }}'))).toMatchObject({
      reason: "unknown filter 'nope'",
      excerpt: 'x | nope',
      offset: 27,
      message: 'unknown filter \'nope\' in "x | nope"',
    });
  });
});

describe('statements that raise', () => {
  it.each([
    '{% for a, b in [[1]] %}{% endfor %}',
    '{% set a, b = 5 %}',
    '{% set a = {} %}{% set a.b = 1 %}',
    '{% for a in 5 %}{% endfor %}',
    '{% for a in [1] %}{{ loop() }}{% endfor %}',
    '{% for a in [1] %}{{ loop.nope() }}{% endfor %}',
    '{% for a in [1] %}{{ loop.cycle() }}{% endfor %}',
  ])('%s', (source) => {
    expect(raised(() => text(source))).toMatchObject({ name: 'TemplateError', code: 'TEMPLATE_ERROR' });
  });

  it('not when nothing of it is reached', () => {
    expect(text('{% for a in [] %}{{ 1 / 0 }}{% endfor %}{% if false %}{{ 1 / 0 }}{% endif %}ok')).toBe('ok');
  });
});

describe('objects only templates have', () => {
  it.each([
    ["{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.reset() }}{{ c.next() }}{{ c.nope }}", 'aa'],
    ["{% set ns = namespace(j=joiner('-')) %}{{ ns.j() }}a{{ ns.j() }}b", 'a-b'],
    ['{% for x in [5] %}{% set ns = namespace(l=loop) %}{{ (ns | tojson | fromjson).l.length }}{% endfor %}', '1'],
    ['{% set ns = namespace({"a": 1}, b=2) %}{% set ns.c = 3 %}{{ ns }}', '{"a":1,"b":2,"c":3}'],
    [
      '{% for x in [5] %}{{ loop }}{% endfor %}',
      '{"index":1,"index0":0,"revindex":1,"revindex0":0,"first":true,"last":true,"length":1}',
    ],
    ['{% for x in [5] %}{{ loop.nope }}{% endfor %}|', '|'],
    ['{% if missing %}{% elif true %}b{% endif %}{% if false %}{% endif %}', 'b'],
  ])('%s', (source, expected) => {
    expect(text(source)).toBe(expected);
  });
});

describe('TP-03 data that looks like a template', () => {
  it('is printed as it is, never evaluated', () => {
    expect(text('{{ a }}!', { a: '{{ b }}', b: 'no' })).toBe('{{ b }}!');
    expect(value('a', { a: '{{ b }}', b: 'no' })).toBe('{{ b }}');
  });
});
