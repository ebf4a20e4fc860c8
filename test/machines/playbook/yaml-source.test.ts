import { YAMLException } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import { LineIndex, nodeOf, type YamlNode } from '../../../machines/playbook/yaml-node.ts';
import { parserProblem, readYaml, YAML_LIMITS } from '../../../machines/playbook/yaml-source.ts';
import { processorTime } from '../../support/processor-time.ts';

function json(text: string): unknown {
  const reading = readYaml(text);
  if (!reading.ok) throw new Error(reading.problems.map(({ message }) => message).join('\n'));
  return reading.root.json;
}
function problems(text: string): string[] {
  const reading = readYaml(text);
  return reading.ok ? [] : reading.problems.map(({ message }) => message);
}
/** The text each value of a map spans. */
function spans(text: string): string[] {
  const reading = readYaml(text);
  if (!reading.ok || reading.root.kind !== 'map') throw new Error('not a map');
  return reading.root.entries.map(({ value }) => reading.text.slice(value.at.start, value.at.end));
}

describe('values', () => {
  it('IN-11 follow the core schema of YAML 1.2', () => {
    expect(
      json('{ a: 1, b: 1.5, c: true, d: null, e: ~, f: yes, g: 0x10, h: 0o7, i: 1e3, j: 012, k: "1", l: on }'),
    ).toEqual({
      a: 1,
      b: 1.5,
      c: true,
      d: null,
      e: null,
      f: 'yes',
      g: 16,
      h: 7,
      i: 1000,
      j: 12,
      k: '1',
      l: 'on',
    });
  });

  it('IN-11 take explicit core tags and no others', () => {
    expect(json('{ a: !!str 1, b: !!int "7", c: ! 2, d: !!map { x: 1 }, e: !!seq [1] }')).toEqual({
      a: '1',
      b: 7,
      c: '2',
      d: { x: 1 },
      e: [1],
    });
    expect(problems('a: !!binary aGk=')).toEqual(['unknown tag !!binary']);
    expect(problems('a: !!int x')).toEqual(["'x' is not a value of tag !!int"]);
    expect(problems('a: !shape { x: 1 }')).toEqual(['unknown tag !shape']);
  });

  it('have keys as they are spelled', () => {
    expect(json('1: a\ntrue: b\n: c\n')).toEqual({ '1': 'a', true: 'b', null: 'c' });
  });

  it('IN-09 do not merge `<<`, which the core schema does not know', () => {
    expect(json('a: &x { k: 1 }\nb: { <<: *x }\n')).toEqual({ a: { k: 1 }, b: { '<<': { k: 1 } } });
  });

  it('are the same with a byte order mark and with CRLF', () => {
    expect(json('\uFEFFa: 1\r\nb: |\r\n  x\r\n  y\r\n')).toEqual({ a: 1, b: 'x\ny\n' });
  });
});

describe('places', () => {
  it('span scalars with their quotes, and block scalars from their header', () => {
    expect(spans('a: one\nb: "two"\nc: \'three\'\nd: |2-\n  four\ne: > # note\n  five\nf:\n')).toEqual([
      'one',
      '"two"',
      "'three'",
      '|2-\n  four\n',
      '> # note\n  five\n',
      'f',
    ]);
  });

  it('span the first scalar of a collection', () => {
    expect(spans('a:\n  key: value\nb: [x, y]\nc: {}\n')).toEqual(['key', '[x', '{']);
  });

  it('count lines and columns from one', () => {
    const lines = new LineIndex('ab\ncd\n\ne');
    expect([0, 1, 3, 5, 6, 7].map((offset) => lines.position(offset))).toEqual([
      { line: 1, column: 1 },
      { line: 1, column: 2 },
      { line: 2, column: 1 },
      { line: 2, column: 3 },
      { line: 3, column: 1 },
      { line: 4, column: 1 },
    ]);
  });

  it('of a made-up value are where it is needed', () => {
    const at = { start: 3, end: 5 };
    const node: YamlNode = nodeOf(at, { a: [1, null] });
    expect(node).toMatchObject({
      kind: 'map',
      at,
      json: { a: [1, null] },
      entries: [{ key: 'a', keyAt: at, value: { kind: 'list' } }],
    });
  });
});

describe('what the parser throws', () => {
  it('is a problem of the text, whatever it is', () => {
    expect(parserProblem('a: b', new RangeError('too deep'))).toEqual({
      message: 'the text cannot be read as YAML',
      at: { start: 0, end: 0 },
    });
    expect(parserProblem('a: b', new YAMLException('odd'))).toMatchObject({ message: 'odd', at: { start: 0 } });
  });

  it('a second document needs no marker of its own', () => {
    expect(problems('a: 1\n...\nb: 2\n')).toEqual(['only one document is allowed']);
  });
});

describe('hostile texts', () => {
  /** Of processor time, and generous. A quadratic reading would take minutes. */
  const SOON_MS = 5_000;

  function quickly(text: string): string[] {
    const spent = processorTime();
    const found = problems(text);
    expect(spent()).toBeLessThan(SOON_MS);
    return found;
  }

  it('are measured in bytes before they are read', () => {
    const tooLarge = [`the text is larger than ${YAML_LIMITS.bytes} bytes`];
    expect(quickly(`a: ${'x'.repeat(YAML_LIMITS.bytes)}`)).toEqual(tooLarge);
    expect(quickly(`a: ${'é'.repeat(YAML_LIMITS.bytes / 2)}`)).toEqual(tooLarge);
    expect(quickly(`a: ${'€'.repeat(YAML_LIMITS.bytes / 3)}`)).toEqual(tooLarge);
    expect(quickly(`a: ${'😀'.repeat(YAML_LIMITS.bytes / 4)}`)).toEqual(tooLarge);
    expect(quickly(`a: ${'😀'.repeat(YAML_LIMITS.bytes / 4 - 1)}`)).toEqual([]);
  });

  it.each([
    ['flow list', `[${'1,'.repeat(500_000)}]`],
    ['block list', '- 1\n'.repeat(250_000)],
    ['map', Array.from({ length: 80_000 }, (_, index) => `k${index}: 1`).join('\n')],
    ['quoted text', `a: "${'\\x41'.repeat(200_000)}"`],
    ['blank lines', `${'\n'.repeat(1_000_000)}a: 1`],
    ['folded lines', `a: b\n${'  c\n'.repeat(200_000)}`],
  ])('of a megabyte are read: %s', (_name, text) => {
    expect(quickly(text)).toEqual([]);
  });

  it.each(['[', '{', '- ', '? ', '[a: ', ': '])('nested ten thousand deep are refused: %j', (bracket) => {
    const [message = ''] = quickly(bracket.repeat(10_000));
    expect(message).toContain('nesting is deeper than 64 levels');
  });

  it('IN-04 nest up to sixty-four levels', () => {
    const nested = (depth: number): string => `${'['.repeat(depth)}x${']'.repeat(depth)}`;
    expect(problems(nested(64))).toEqual([]);
    expect(problems(nested(65))).toEqual(['nesting is deeper than 64 levels']);
  });

  it('IN-09 cannot nest deeper by aliases', () => {
    const chain = Array.from(
      { length: 70 },
      (_, index) => `a${index}: &a${index} ${index === 0 ? '[x]' : `[*a${index - 1}]`}\n`,
    );
    expect(quickly(chain.join(''))).toEqual(['nesting is deeper than 64 levels']);
  });

  it('IN-09 cannot grow by aliases', () => {
    const bomb = Array.from({ length: 20 }, (_, index) => {
      const value = index === 0 ? '"lol"' : `*a${index - 1}`;
      return `a${index}: &a${index} [${Array(10).fill(value).join(', ')}]\n`;
    });
    expect(quickly(bomb.join(''))).toEqual(['aliases expand to more than 4 MiB']);
  });

  it('IN-09 use at most a thousand aliases', () => {
    const uses = (count: number): string => `a: &a 1\nb: [${'*a, '.repeat(count)}]\n`;
    expect(quickly(uses(1000))).toEqual([]);
    expect(quickly(uses(1001))).toEqual(['more than 1000 aliases']);
  });

  it('IN-09 cannot contain themselves', () => {
    expect(problems('a: &a [*a]')).toEqual(["alias 'a' refers to the value it is part of"]);
  });

  it('IN-05 cannot touch prototypes', () => {
    expect(problems('a: { "__proto__": { polluted: true } }')).toEqual(["the key '__proto__' is not allowed"]);
    expect(json('constructor: 1\nprototype: 2\ntoString: 3\n')).toEqual({ constructor: 1, prototype: 2, toString: 3 });
  });

  it('IN-01 hold no NUL and no half characters, written or escaped', () => {
    expect(problems('a: \0')).toEqual(['NUL characters are not allowed']);
    expect(problems('a: "\\0"')).toEqual(['NUL characters are not allowed']);
    expect(problems('a: \ud800')).toEqual(['the text is not valid Unicode (lone surrogate)']);
    expect(problems('a: "\\ud800"')).toEqual(['the text is not valid Unicode (lone surrogate)']);
  });

  it('IN-11 cannot indent with tabs', () => {
    expect(problems('a:\n\tb: 1\n')).toHaveLength(1);
  });

  it('have at most a hundred problems', () => {
    expect(problems('a: 1\n'.repeat(1000))).toHaveLength(100);
  });

  it('have keys that are text', () => {
    expect(problems('? [a]\n: 1\n')).toEqual(['a map key must be text']);
    const hint = '; quote values that start with a template, such as key: "{{ value }}"';
    expect(problems('a: {{ b }}\n')).toEqual([`a map key must be text${hint}`]);
    expect(problems('a: {{ b }} c\n')).toEqual([`bad indentation of a mapping entry${hint}`]);
    expect(problems('a: {% if x %}\n')[0]).toContain(hint);
  });
});
