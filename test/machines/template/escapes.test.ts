/**
 * Ways out of a template, every class that ran code on nunjucks and some of Python's. Each gives undefined, plain data
 * or an error, and a canary that any reached host function would trip stays untouched.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { TemplateError, TemplateSyntaxError } from '../../../machines/playbook/template/errors.ts';
import { raised, text, value } from './scope.ts';

const CODE = "globalThis.__escaped = true; return 'ran'";
const data = {
  workload: { l: [1, 2], s: 'text', m: { a: 1 }, constructor_: 1 },
  hostile: JSON.parse('{"__proto__": {"polluted": true}, "constructor": "mine", "prototype": 5}'),
  f: () => 'ran',
  wrapped: { f: () => 'ran', nested: [() => 'ran'] },
};

afterEach(() => {
  expect(globalThis).not.toHaveProperty('__escaped');
  expect(Object.prototype).not.toHaveProperty('polluted');
});

describe('TP-01 a member that is not data is undefined', () => {
  it.each([
    'range.constructor',
    'cycler.constructor',
    'joiner.constructor',
    "''.constructor",
    "''.__class__",
    "''.__proto__",
    "''.length",
    '(1).constructor',
    'true.constructor',
    '[].constructor',
    '[].length',
    '[].map',
    "[]['__proto__']",
    '{}.constructor',
    '{}.__proto__',
    '{}.hasOwnProperty',
    'workload.constructor',
    'workload.constructor.constructor',
    'workload.__proto__',
    'workload.__proto__.toString.constructor',
    'workload.l.constructor',
    'workload.l.map',
    'workload.m.__proto__.polluted',
    "workload['__proto__']",
    "workload['__pro' + 'to__']",
    "workload[['__proto__'] | join]",
    "workload['__otorp__' | reverse]",
    "workload['__xproto__' | replace('x', '')]",
    "workload[['constructor']]",
    "range[['constructor']]",
    "workload.m | attr('__proto__')",
    "workload.m | attr('constructor')",
    "workload.m | get('__proto__')",
    "workload.m.get('__proto__', none) | default('none', true) == 'none' or none.x",
    "('x' | safe).constructor",
    "[workload] | map(attribute='__proto__.toString') | first",
    "[workload] | map(attribute='constructor.constructor') | first",
    'cycler(1).constructor',
    'joiner().constructor',
    'namespace().constructor',
    'namespace(a=1).__proto__',
    'process',
    'globalThis',
    'global',
    'require',
    'module',
    'self',
    'this',
    'env',
    'constructor',
    '__proto__',
    'toString',
    'f',
    'wrapped.f',
    'wrapped.nested[0]',
    'hostile.__proto__',
    'hostile.polluted',
    'workload.m.__defineGetter__',
  ])('%s', (expression) => {
    const found = value(expression, data);
    if (expression.includes(' or none.x')) expect(found).toBe(true);
    else expect(found ?? null).toBeNull();
  });
});

describe('TP-01 an own member named like machinery is only data', () => {
  it.each<[string, unknown]>([
    ['hostile.constructor', 'mine'],
    ['hostile.prototype', 5],
    ["'constructor' in hostile", true],
    ["'__proto__' in hostile", false],
    ["'constructor' in workload.m", false],
    ['hostile | keys', ['constructor', 'prototype']],
    ['hostile | tojson', '{"constructor":"mine","prototype":5}'],
    ['hostile.items() | length', 2],
    ['dict(hostile)', { constructor: 'mine', prototype: 5 }],
  ])('%s', (expression, expected) => {
    expect(value(expression, data)).toEqual(expected);
  });
});

describe('TP-01 a call of anything that is not in the tables is refused', () => {
  it.each([
    `range.constructor("${CODE}")()`,
    `cycler.constructor("${CODE}")()`,
    `cycler(1).constructor("${CODE}")()`,
    `cycler(1).next.constructor("${CODE}")()`,
    `joiner().constructor("${CODE}")()`,
    `joiner.constructor("${CODE}")()`,
    `"x".sub.constructor("${CODE}")()`,
    `"x".at.constructor("${CODE}")()`,
    `"x".constructor.constructor("${CODE}")()`,
    `[].map.constructor("${CODE}")()`,
    `workload.l.map.constructor("${CODE}")()`,
    `workload.constructor.constructor("${CODE}")()`,
    `workload.s.constructor.constructor("${CODE}")()`,
    `range["const" + "ructor"]("${CODE}")()`,
    `range[["const", "ructor"] | join]("${CODE}")()`,
    `range["xonstructor" | replace("x", "c")]("${CODE}")()`,
    `range["rotcurtsnoc" | reverse]("${CODE}")()`,
    `range[["constructor"]]("${CODE}")()`,
    `("x" | safe).constructor.constructor("${CODE}")()`,
    `workload.__proto__.toString.constructor("${CODE}")()`,
    `([] | sum("constructor")).constructor("${CODE}")()`,
    `[1] | map("constructor") | first`,
    `[1] | map(attribute="constructor.constructor") | first("${CODE}")`,
    `workload.m.get.constructor("${CODE}")()`,
    `dict.constructor("${CODE}")()`,
    `namespace.constructor("${CODE}")()`,
    `"".__class__.__mro__[1].__subclasses__()`,
    `self.__init__.__globals__`,
    `caller.constructor("${CODE}")()`,
    `caller("${CODE}")`,
    'f()',
    'wrapped.f()',
    'wrapped.nested[0]()',
    'workload.m.hasOwnProperty("a")',
    'workload.m.toString()',
    'workload.m.valueOf()',
    'workload.m.__defineGetter__("a", range)',
    'workload.l.push(1)',
    'workload.l.concat([1])',
    '"a".repeat(5)',
    '"a".replaceAll("a", "b")',
    '"{0.__class__}".format(1)',
    '"{0[__class__]}".format(1)',
    '"%(__class__)s" % 1',
    'r/x/.constructor',
    'r/x/.test("x")',
    `eval("${CODE}")`,
    `Function("${CODE}")()`,
    `setTimeout("${CODE}")`,
    'import("fs")',
    'require("fs")',
    'process.exit(1)',
  ])('%s', (expression) => {
    const error = raised(() => {
      const found = value(expression, data);
      if (found !== undefined) throw new Error(`reached ${String(found)}`);
      throw new TemplateError('TEMPLATE_ERROR', 'undefined', expression);
    });
    expect(error instanceof TemplateError || error instanceof TemplateSyntaxError).toBe(true);
  });
});

describe('TP-01 a statement gives no way out either', () => {
  it.each([
    `{% set f = range.constructor %}{{ f("${CODE}")() }}`,
    `{% set f = "x".sub %}{{ f.constructor("${CODE}")() }}`,
    `{% for x in [1] %}{{ loop.constructor("${CODE}")() }}{% endfor %}`,
    `{% for x in [1] %}{{ loop.cycle.constructor("${CODE}")() }}{% endfor %}`,
    `{% for x in [1] %}{{ loop.call("x") }}{% endfor %}`,
    `{% for x in [1] %}{{ loop.member("x") }}{% endfor %}`,
    `{% macro m() %}{% endmacro %}{{ m.constructor("${CODE}")() }}`,
    `{% call m() %}{% endcall %}`,
    `{% set ns = namespace() %}{% set ns.__proto__ = 1 %}`,
    `{% set ns = namespace() %}{% set ns.constructor = 1 %}{{ ns.constructor() }}`,
    `{% set ns = namespace() %}{{ ns.assign("a", 1) }}`,
    `{% set workload.m = 1 %}`,
    `{% set x = workload %}{% set x.m = 1 %}`,
    `{% include "/etc/passwd" %}`,
    `{% import "/etc/passwd" as x %}`,
    `{% extends "/etc/passwd" %}`,
    `{% with f = range %}{{ f.constructor("${CODE}")() }}{% endwith %}`,
    `{% filter constructor %}x{% endfilter %}`,
    `{% set __proto__ = 1 %}{{ __proto__.constructor("${CODE}")() }}`,
  ])('%s', (source) => {
    const error = raised(() => text(source, data));
    expect(error instanceof TemplateError || error instanceof TemplateSyntaxError).toBe(true);
  });

  it('leaves the data it was given alone', () => {
    const before = JSON.stringify(data.workload);
    text(
      '{% set x = workload.l %}{% set y = x + [9] %}{{ workload.l | sort(reverse=true) }}{{ workload.l | reverse }}',
      data,
    );
    expect(JSON.stringify(data.workload)).toBe(before);
  });
});
