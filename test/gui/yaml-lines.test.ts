import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { yamlLines } from '../../src/gui/playbook/yaml-lines.ts';
import { processorTime } from '../support/processor-time.ts';

const FOLDER = new URL('../../examples/', import.meta.url);

/** `key` `"string"` as they are, with the first letter of the kind before them. */
function drawn(text: string): readonly string[] {
  return yamlLines(text).map((parts) => parts.map((part) => `${part.kind[0]}(${part.text})`).join(''));
}

describe('YAML cut up for colours', () => {
  test.each([
    ['name: first', 'k(name)p(:)p( )p(first)'],
    ['  - step: start', 'p(  - )k(step)p(:)p( )p(start)'],
    ['"a b": "c # d" # e', 'k("a b")p(:)p( )s("c # d")p( )c(# e)'],
    ["when: '{{ a }}'", "k(when)p(:)p( )s('{{ a }}')"],
    ['# all: of it', 'c(# all: of it)'],
    ['  - "just a text"', 'p(  - )s("just a text")'],
    ['url: http://host:80/#top', 'k(url)p(:)p( )p(http://host:80/#top)'],
    ['tool: { kind: noop }', 'k(tool)p(:)p( )p({ kind: noop })'],
    ['- - 1', 'p(- - )p(1)'],
    ['', ''],
  ])('%j', (line, expected) => {
    expect(drawn(line)).toEqual([expected]);
  });

  test('code in a block keeps its own colons, and what follows the block has keys again', () => {
    expect(drawn('code: |\n  if x: # y\n\n    pass\nnext: a')).toEqual([
      'k(code)p(:)p( )p(|)',
      'p(  if x: # y)',
      '',
      'p(    pass)',
      'k(next)p(:)p( )p(a)',
    ]);
  });

  test('the block of a list item ends at its dash', () => {
    expect(drawn('- |\n  a: b\n- c: d')).toEqual(['p(- )p(|)', 'p(  a: b)', 'p(- )k(c)p(:)p( )p(d)']);
  });

  test.each(readdirSync(FOLDER).filter((name) => name.endsWith('.yaml')))('nothing of %s is lost', (name) => {
    const text = readFileSync(new URL(name, FOLDER), 'utf8');
    const joined = yamlLines(text).map((parts) => parts.map((part) => part.text).join(''));
    expect(joined.join('\n')).toBe(text);
  });

  test('a line that is hard to read takes no time', () => {
    const spent = processorTime();
    yamlLines(`${'- '.repeat(20_000)}${'"'.repeat(20_000)}${'a '.repeat(20_000)}`);
    expect(spent()).toBeLessThan(500);
  });
});
