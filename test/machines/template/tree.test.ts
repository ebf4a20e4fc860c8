/** Whole values with templates inside (language 8.1 and 8.5). */
import { describe, expect, it } from 'vitest';
import { TemplateError, TemplateSyntaxError } from '../../../machines/playbook/template/errors.ts';
import { compileTree, renderTree } from '../../../machines/playbook/template/tree.ts';
import { raised, scopeOf } from './scope.ts';

const scope = scopeOf({ n: 7, name: 'key', rows: [1, 2], nul: null });

describe('a tree', () => {
  it('keeps types, renders keys and leaves the rest alone', () => {
    const tree = compileTree({
      number: '{{ n }}',
      list: ['{{ rows }}', 'plain', 3, null, { deep: '{{ missing }}' }],
      '{{ name }}_{{ n }}': 'v',
      'a {% b': true,
      text: 'n={{ n }}',
    });
    expect(renderTree(tree, scope)).toEqual({
      number: 7,
      list: [[1, 2], 'plain', 3, null, { deep: null }],
      key_7: 'v',
      'a {% b': true,
      text: 'n=7',
    });
  });

  it('renders text fields as text', () => {
    const paths: string[][] = [];
    const tree = compileTree({ url: '{{ n }}', headers: [{ x: '{{ n }}' }], json: '{{ n }}' }, (path) => {
      paths.push([...path]);
      return path[0] === 'url' || path[0] === 'headers' ? 'text' : 'value';
    });
    expect(renderTree(tree, scope)).toEqual({ url: '7', headers: [{ x: '7' }], json: 7 });
    expect(paths).toEqual([['url'], ['headers', '0', 'x'], ['json']]);
  });

  it('leaves null where a text may be left out', () => {
    const headers = {
      a: '{{ nul }}',
      b: '{{ missing }}',
      c: 'x{{ nul }}',
      d: ' {{ n }} ',
      e: '{% if nul %}x{% endif %}',
    };
    const tree = compileTree(headers, () => 'optional text');
    expect(renderTree(tree, scope)).toEqual({ a: null, b: null, c: 'x', d: ' 7 ', e: '' });
    expect(
      renderTree(
        compileTree(headers, () => 'text'),
        scope,
      ),
    ).toMatchObject({ a: '', b: '' });
  });

  it('is returned as it is when it holds no template', () => {
    const value = { a: [1, { b: 'text' }], c: null };
    expect(renderTree(compileTree(value), scope)).toBe(value);
    expect(renderTree(compileTree('text'), scope)).toBe('text');
    expect(renderTree(compileTree(null), scope)).toBeNull();
  });

  it('keeps the parts that hold no template', () => {
    const still = { big: [1, 2, 3] };
    const rendered = renderTree(compileTree({ still, moving: '{{ n }}' }), scope);
    expect(rendered).toHaveProperty('still', still);
    expect(rendered !== null && typeof rendered === 'object' && 'still' in rendered && rendered.still).toBe(still);
  });

  it('may be a single string', () => {
    expect(renderTree(compileTree('{{ rows }}'), scope)).toEqual([1, 2]);
    expect(
      renderTree(
        compileTree('{{ rows }}', () => 'text'),
        scope,
      ),
    ).toBe('[1,2]');
  });

  it('knows what it asks for', () => {
    const tree = compileTree({ '{{ k.x }}': ['{{ a.b }}', { c: '{{ a.c }}{{ a.b }}' }] });
    expect(tree.roots).toEqual(['k', 'a']);
    expect(tree.members).toEqual(['k.x', 'a.b', 'a.c']);
  });

  it('says where a syntax error is', () => {
    const error = raised(() => compileTree({ a: [{ b: 'ok' }, { b: '{{ 1 + }}' }] }));
    expect(error).toBeInstanceOf(TemplateSyntaxError);
    expect(error).toMatchObject({ at: ['a', 1, 'b'], excerpt: '1 +', offset: 7 });
    expect(raised(() => compileTree({ '{{ x | nope }}': 1 }))).toMatchObject({ at: ['{{ x | nope }}'] });
  });

  it('never writes a prototype', () => {
    const hostile = JSON.parse('{"__proto__": "{{ n }}"}');
    expect(raised(() => renderTree(compileTree(hostile), scope))).toBeInstanceOf(TemplateError);
    const key = compileTree({ "{{ '__proto__' }}": 1 });
    expect(raised(() => renderTree(key, scope))).toBeInstanceOf(TemplateError);
  });

  it('takes only what compileTree made', () => {
    expect(() => renderTree({ roots: [], members: [] }, scope)).toThrow(TypeError);
  });
});
