/** How templates treat values with members of their own making: when they ask `member`, `plain` and `equals`. */
import { describe, expect, it } from 'vitest';
import { compileCondition } from '../../../machines/playbook/template/compiled.ts';
import { TemplateError } from '../../../machines/playbook/template/errors.ts';
import { Facade } from '../../../machines/playbook/template/facade.ts';
import { holds } from '../../../machines/playbook/template/render.ts';
import { compileTree, renderTree } from '../../../machines/playbook/template/tree.ts';
import { raised, scopeOf, text, value } from './scope.ts';

class MissingPayload extends Error {}

/** A step value: `.data` is the value itself unless it has such a key; anything not held must be fetched first. */
class StepValue extends Facade {
  readonly asked: string[] = [];
  readonly #value: unknown;
  readonly #complete: boolean;

  constructor(held: unknown, complete = true) {
    super();
    this.#value = held;
    this.#complete = complete;
  }

  member(key: string | number): unknown {
    this.asked.push(String(key));
    const map = this.#value;
    if (typeof map === 'object' && map !== null && Object.hasOwn(map, key))
      return Object.entries(map).find(([name]) => name === key)?.[1];
    if (!this.#complete) throw new MissingPayload('fetch first');
    return key === 'data' ? this : undefined;
  }

  plain(): unknown {
    this.asked.push('plain');
    if (!this.#complete) throw new MissingPayload('fetch first');
    return this.#value;
  }
}

class EventName extends Facade {
  override equals(other: unknown): boolean {
    return other === 'call.done' || other === 'step.done';
  }
  member(): unknown {
    return undefined;
  }
  plain(): unknown {
    return 'call.done';
  }
}

const event = { name: new EventName() };

describe('a Facade that stands for a key', () => {
  it.each<[string, unknown, unknown]>([
    ['[1, 2][s]', 1, 2],
    ["'abc'[s]", 2, 'c'],
    ["{'a': 5}[s]", 'a', 5],
    ["{'a': 5}.get(s)", 'a', 5],
    ["{'a': 5} | get(s)", 'a', 5],
    ['[1, 2] | get(s)', 1, 2],
    ["'abc' | get(s)", 1, 'b'],
    ['[[1, 2]] | map(attribute=s) | first', 1, 2],
  ])('%s', (expression, held, expected) => {
    expect(value(expression, { s: new StepValue(held) })).toBe(expected);
  });
});

describe('a Facade', () => {
  it.each<[string, unknown]>([
    ['s.count', 2],
    ['s.data.count', 2],
    ["s['data']['count']", 2],
    ['s.data.data.data.count', 2],
    ['s.nope', undefined],
    ['s[[1]]', undefined],
    ['s.nope is defined', false],
    ['s.data is defined', true],
    ['s is defined', true],
    ['s is mapping', true],
    ['s | length', 2],
    ['s | tojson', '{"count":2,"rows":[1,2]}'],
    ['listed | tojson', '[{"a":1}]'],
    ['[s] | tojson', '[{"count":2,"rows":[1,2]}]'],
    ['s', { count: 2, rows: [1, 2] }],
    ['s.data', { count: 2, rows: [1, 2] }],
    ['[s, 1]', [{ count: 2, rows: [1, 2] }, 1]],
    ["{'a': s.data}", { a: { count: 2, rows: [1, 2] } }],
    ['dict(a=s)', { a: { count: 2, rows: [1, 2] } }],
    ['s.keys()', ['count', 'rows']],
    ["s.get('count')", 2],
    ['s | list', ['count', 'rows']],
    ["'count' in s", true],
    ["s == {'count': 2, 'rows': [1, 2]}", true],
    ["{'count': 2, 'rows': [1, 2]} != s", false],
    ['s == s', true],
    ['s.__proto__', undefined],
    ['s.constructor', undefined],
    ['s.asked', undefined],
    ['(s | default({})).data.count', 2],
    ['(s or none).data.count', 2],
    ['(s if s else none).data.count', 2],
    ['(none or s) ~ ""', '{"count":2,"rows":[1,2]}'],
    ['not s', false],
    ['namespace(v=s)', { v: { count: 2, rows: [1, 2] } }],
    ['namespace(v=s).v.data.count', 2],
    ['[s] | map(attribute="count") | first', 2],
    ['[1, 2][i]', 2],
    ['"abc"[i]', 'b'],
    ['{"b": 3}[k]', 3],
    ['s[0:1] if false else 1', 1],
    ['l[0]', 7],
    ['l.data[1]', 8],
    ['l[1:]', [8]],
    ['l + [9]', [7, 8, 9]],
    ['l | sum', 15],
    ['i + 1', 2],
    ['i * "ab"', 'ab'],
    ['i < 2', true],
    ['-i', -1],
    ['i is even', false],
    ['4 is divisibleby(i)', true],
    ['range(i)', [0]],
  ])('%s', (expression, expected) => {
    const data = {
      s: new StepValue({ count: 2, rows: [1, 2] }),
      listed: [new StepValue({ a: 1 })],
      i: new StepValue(1),
      k: new StepValue('b'),
      l: new ListValue([7, 8]),
    };
    expect(value(expression, data)).toEqual(expected);
  });

  it('is iterated, printed and unpacked as what it stands for', () => {
    const data = { l: new StepValue([[1, 2]]), s: new StepValue('x') };
    expect(text('{% for a, b in l %}{{ a }}{{ b }}{% endfor %}{{ s }}{% set c = s %}{{ c }}', data)).toBe('12xx');
  });

  it('is asked for no more than the template needs', () => {
    const step = new StepValue({ count: 2 }, false);
    expect(value('s.count', { s: step })).toBe(2);
    expect(value('s is defined', { s: step })).toBe(true);
    expect(step.asked).toEqual(['count']);
  });

  it('is not asked when the branch is not taken', () => {
    expect(value('1 if true else s.rows', { s: new StepValue({}, false) })).toBe(1);
    expect(value('true or s.rows', { s: new StepValue({}, false) })).toBe(true);
  });

  it.each([
    's.rows[-1]',
    's | tojson',
    's.rows | default(1)',
    's | default(1)',
    '(s.rows | default([])) | length',
    '[1] | map(attribute=s) | list',
    's == 1',
    '1 in s',
    'not s',
    's ~ "x"',
    's and 1',
    's.rows is defined',
    's is none',
  ])('passes its own error on unchanged: %s', (expression) => {
    expect(raised(() => value(expression, { s: new StepValue({}, false) }))).toBeInstanceOf(MissingPayload);
  });

  it('passes its own error on from statements, trees and conditions', () => {
    const data = { s: new StepValue({}, false) };
    expect(raised(() => text('{% filter upper %}{% for x in s %}{% endfor %}{% endfilter %}', data))).toBeInstanceOf(
      MissingPayload,
    );
    expect(raised(() => renderTree(compileTree({ a: ['{{ s }}'] }), scopeOf(data)))).toBeInstanceOf(MissingPayload);
    expect(raised(() => holds(compileCondition('s.rows'), scopeOf(data)))).toBeInstanceOf(MissingPayload);
  });
});

class ListValue extends Facade {
  readonly #list: readonly unknown[];
  constructor(list: readonly unknown[]) {
    super();
    this.#list = list;
  }
  member(key: string | number): unknown {
    return typeof key === 'number' ? this.#list[key] : key === 'data' ? this : undefined;
  }
  plain(): unknown {
    return this.#list;
  }
}

describe('equality of a Facade’s own', () => {
  it.each<[string, boolean]>([
    ["event.name == 'call.done'", true],
    ["event.name == 'step.done'", true],
    ["'step.done' == event.name", true],
    ["event.name != 'step.done'", false],
    ["event.name != 'call.error'", true],
    ["event.name in ['a', 'step.done']", true],
    ["event.name in ('a', 'b')", false],
    ["event.name not in ['step.done']", false],
    ["'step.done' in [event.name]", true],
    ["event.name is in ['step.done']", true],
    ["event.name is eq 'step.done'", true],
    ["event.name is ne 'step.done'", false],
    ["event.name ~ '' == 'step.done'", false],
    ["(event.name | upper) == 'CALL.DONE'", true],
    ["event.name == 'x' or event.name == 'step.done'", true],
    ["{% set n = event.name %}{{ n == 'step.done' }}", true],
    ["{% for e in ['x', 'step.done'] if e == event.name %}1{% else %}{% endfor %}", true],
  ])('%s is %s', (source, expected) => {
    expect(holds(compileCondition(source), scopeOf({ event }))).toBe(expected);
  });

  it('is its plain text everywhere else', () => {
    expect(value('event.name', { event })).toBe('call.done');
    expect(value('event', { event: { kind: 'x' } })).toEqual({ kind: 'x' });
    expect(text('{{ event.name }}!', { event })).toBe('call.done!');
  });
});

it('raises a TemplateError for its own faults and nothing else’s', () => {
  const scope = {
    lookup: () => {
      throw new MissingPayload('lookup');
    },
  };
  expect(raised(() => holds(compileCondition('x'), scope))).toBeInstanceOf(MissingPayload);
  expect(raised(() => holds(compileCondition('1 / 0'), scope))).toBeInstanceOf(TemplateError);
});
