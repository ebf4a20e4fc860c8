/** What the editor knows without a browser: where one stands in a half-written text, and which words fit there. */
import { describe, expect, test } from 'vitest';
import { KNOWN_KINDS } from '../../machines/playbook/tool-fields.ts';
import { STARTER } from '../../src/gui/editor/starter.ts';
import { keysAt, valuesAt } from '../../src/gui/editor/vocabulary.ts';
import { placeAt, stepNames } from '../../src/gui/editor/yaml-place.ts';

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

  test('steps are told from arcs', () => {
    expect(stepNames(STARTER.split('\n'))).toEqual(['start', 'end']);
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
