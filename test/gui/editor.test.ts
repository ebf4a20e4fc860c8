/** What the editor knows without a browser: where one stands in a half-written text, and which words fit there. */
import { describe, expect, test } from 'vitest';
import { KNOWN_KINDS } from '../../machines/playbook/tool-fields.ts';
import { STARTER } from '../../src/gui/editor/starter.ts';
import { keysAt, meaningOf, valuesAt } from '../../src/gui/editor/vocabulary.ts';
import { keyAt, placeAt, stepNames } from '../../src/gui/editor/yaml-place.ts';

/** The place of the mark `|` in a text. */
function at(marked: string) {
  const lines = marked.split('\n');
  const number = lines.findIndex((line) => line.includes('|'));
  const before = lines[number]?.split('|')[0] ?? '';
  return placeAt(
    lines.map((line) => line.replace('|', '')),
    number,
    before,
  );
}

describe('the place in a text', () => {
  test.each([
    ['|', []],
    ['metadata:\n  na|', ['metadata']],
    ['workflow:\n  - st|', ['workflow']],
    ['workflow:\n  - step: a\n    to|', ['workflow']],
    ['workflow:\n  - step: a\n    tool:\n      ki|', ['workflow', 'tool']],
    ['workflow:\n  - step: a\n    next:\n      arcs:\n        - st|', ['workflow', 'next', 'arcs']],
    ['workflow:\n  - step: a\n    next:\n      arcs:\n        - step: b\n          wh|', ['workflow', 'next', 'arcs']],
    ['workflow:\n  - step: a\n    loop:\n      spec:\n        mo|', ['workflow', 'loop', 'spec']],
    ['workflow:\n- step: a\n  to|', ['workflow']],
    ['workflow:\n  - step: a\n    tool: { ki|', ['workflow', 'tool']],
    ['workflow:\n  - step: a\n    next: { arcs: [{ st|', ['workflow', 'next', 'arcs']],
    ['workflow:\n  - step: a\n    loop: { in: [1], spec: { mo|', ['workflow', 'loop', 'spec']],
    ['workflow:\n  - { step: a, to|', ['workflow']],
  ])('%j is below %j', (text, path) => {
    expect(at(text)?.path).toEqual(path);
  });

  test('a comment is no place', () => {
    expect(at('# ki|')).toBeNull();
  });

  test('behind a colon the key is known, and the kind of the tool around it', () => {
    expect(at('workflow:\n  - step: a\n    tool:\n      kind: py|')).toMatchObject({
      key: 'kind',
      word: 'py',
      kind: 'py',
    });
    expect(at('workflow:\n  - step: a\n    tool:\n      kind: http\n      ur|')).toMatchObject({
      key: null,
      kind: 'http',
    });
    expect(at('workflow:\n  - step: a\n    tool:\n      ur|\n      kind: http')).toMatchObject({ kind: 'http' });
  });

  test('the key around a column is found, in block and flow style, and nothing beside it', () => {
    const line = '  - step: a  # kind: x';
    expect(keyAt(line, 5)).toEqual({ key: 'step', from: 4, to: 8 });
    expect(keyAt(line, 11)).toBeNull();
    expect(keyAt('    tool: { kind: noop, result: {} }', 26)).toEqual({ key: 'result', from: 24, to: 30 });
    expect(keyAt('# step: a', 3)).toBeNull();
  });

  test('steps are told from arcs', () => {
    expect(stepNames(STARTER.split('\n'))).toEqual(['start', 'end']);
  });
});

describe('hover documentation and completion details in the editor (row 9)', () => {
  test('a key is explained by its place', () => {
    expect(meaningOf('timeout', ['workflow', 'spec'], null)?.info).toContain('retries');
    expect(meaningOf('timeout', ['workflow', 'tool'], 'http')?.info).toContain('one try');
    expect(meaningOf('url', ['workflow', 'tool'], 'http')).toEqual({
      word: 'url',
      info: 'Address, http or https.',
      detail: 'text',
    });
    expect(meaningOf('url', ['workflow', 'tool'], 'python')).toBeNull();
    expect(meaningOf('my_input', ['workflow', 'tool', 'input'], 'http')).toBeNull();
  });

  test('required keys and closed choices are told', () => {
    expect(meaningOf('step', ['workflow'], null)?.detail).toBe('required, text');
    expect(meaningOf('mode', ['workflow', 'next', 'spec'], null)?.detail).toBe('exclusive | inclusive');
  });

  test('tasks of a pipeline and of the workbook are tools too', () => {
    expect(meaningOf('command', ['workbook', 'tool'], 'shell')?.info).toBe('The command.');
    expect(meaningOf('do', ['workflow', 'tool', 'spec', 'policy', 'rules', 'then'], null)?.info).toContain('retry');
  });
});

describe('the words', () => {
  const words = (list: readonly { readonly word: string }[]) => list.map((each) => each.word);

  test('every kind of tool that the server knows is offered', () => {
    expect(words(valuesAt('kind', ['workflow', 'tool'], []))).toEqual(KNOWN_KINDS);
  });

  test('a tool offers the fields of its kind', () => {
    expect(words(keysAt(['workflow', 'tool'], 'http'))).toContain('url');
    expect(words(keysAt(['workflow', 'tool'], 'python'))).not.toContain('url');
  });

  test('an arc offers the steps there are', () => {
    expect(words(valuesAt('step', ['workflow', 'next', 'arcs'], ['a', 'b']))).toEqual(['a', 'b']);
    expect(valuesAt('step', ['workflow'], ['a'])).toEqual([]);
  });

  test('modes depend on where they stand', () => {
    expect(words(valuesAt('mode', ['workflow', 'loop', 'spec'], []))).toContain('parallel');
    expect(words(valuesAt('mode', ['workflow', 'next', 'spec'], []))).toContain('inclusive');
  });
});
