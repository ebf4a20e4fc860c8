import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonMap } from '../../../machines/json.ts';
import { readCatalogDocument } from '../../../machines/playbook/catalog-document.ts';
import { haveSameTools, lifecycleAgent, readToolServer, withTools } from '../../../machines/playbook/tool-server.ts';

const DOCUMENT: JsonMap = {
  kind: 'Mcp',
  metadata: { name: 'k', path: 'mcp/k' },
  spec: { url: ' http://k:1/mcp ', tools: [{ name: 'a' }, 'b'], lifecycle: { deploy: 'ops/deploy', stop: 3 } },
};

test('an entry tells its endpoint and its tools', () => {
  expect(readToolServer(DOCUMENT)).toMatchObject({ endpoint: 'http://k:1/mcp', tools: [{ name: 'a' }] });
  expect(readToolServer({ spec: { endpoint: 'http://e', url: 'http://u' } }).endpoint).toBe('http://e');
  expect(readToolServer({ spec: 3 })).toEqual({ spec: {}, metadata: {}, endpoint: null, tools: [] });
});

test('an action is what the entry declares as text, nothing inherited', () => {
  const { spec } = readToolServer(DOCUMENT);
  expect(lifecycleAgent(spec, 'deploy')).toBe('ops/deploy');
  for (const action of ['stop', 'restart', 'constructor', 'toString']) expect(lifecycleAgent(spec, action)).toBeNull();
});

test('the order of tools and of their keys is no change, anything else is', () => {
  const some = [{ name: 'a', description: 'x' }, { name: 'b' }];
  expect(haveSameTools(some, [{ name: 'b' }, { description: 'x', name: 'a' }])).toBe(true);
  expect(haveSameTools(some, [{ name: 'b' }])).toBe(false);
  expect(haveSameTools(some, [{ name: 'b' }, { name: 'a', description: 'y' }])).toBe(false);
});

describe('a text with other tools', () => {
  const tools = [{ name: 'a', description: 'one\n\n# two\n' }, { name: '-.5' }];
  const block = (indent: string) =>
    ['tools:', '  - name: a', '    description: |', '      one', '', '      # two', "  - name: '-.5'"]
      .map((line) => (line === '' ? '' : indent + line))
      .join('\n');

  function edited(content: string): string {
    const reading = readCatalogDocument(content, { path: 'mcp/k', resourceType: 'mcp' });
    if (!reading.ok) throw new Error(JSON.stringify(reading.errors));
    const { payload } = reading.document;
    const text = withTools(content, payload, tools);
    const again = readCatalogDocument(text, { path: 'mcp/k', resourceType: 'mcp' });
    expect(again).toMatchObject({ ok: true, document: { payload: { ...payload, spec: { tools } } } });
    return text;
  }

  const head = '# Ours\nkind: Mcp\nmetadata: { name: k } # short\n';

  test('keeps comments and order, and what follows', () => {
    const before = `${head}spec:\n    # where\n    url: http://k\n`;
    const after = '\n    # by hand\n    lifecycle: { deploy: ops/deploy }\n# end\n';
    expect(edited(`${before}    tools: # known\n      - name: old\n\n        # of old\n        x: 1\n${after}`)).toBe(
      `${before}${block('    ')}\n${after}`,
    );
    expect(edited(`${before}    tools:\n    - name: old\n    - { name: older }\n${after}`)).toBe(
      `${before}${block('    ')}\n${after}`,
    );
    expect(edited(`${before}    tools: []\n${after}`)).toBe(`${before}${block('    ')}\n${after}`);
  });

  test('has them behind the spec that had none', () => {
    const spec = 'spec:\n  url: http://k\n  lifecycle:\n    deploy: ops/deploy';
    expect(edited(`${head}${spec}`)).toBe(`${head}${spec}\n${block('  ')}\n`);
    expect(edited(`${head}${spec}\n\n# end\nx: 1\n`)).toBe(`${head}${spec}\n${block('  ')}\n\n# end\nx: 1\n`);
  });

  test.each([
    ['in braces', 'spec: { url: http://k, tools: [{ name: old }] }\n'],
    ['in braces over lines', 'spec: {\n  url: http://k,\n  tools: [\n    { name: old }]}\n'],
    ['with an alias to what goes', 'spec:\n  url: http://k\n  tools: &t [{ name: old }]\nx: *t\n'],
    ['an alias', 'x: &s\n  url: http://k\nspec: *s\n'],
    ['empty', 'x: 1\n'],
  ])('is written anew where the spec is %s', (_what, spec) => {
    expect(edited(head + spec)).not.toContain('# Ours');
  });

  test('is written anew where it has no map of that name', () => {
    expect(withTools('spec: later\n', DOCUMENT, [])).toBe(withTools('', DOCUMENT, []));
  });
});

test('a document with other tools reads back as itself with these tools', () => {
  const text = fc
    .string({ unit: 'grapheme', maxLength: 30 })
    .filter((each) => each.isWellFormed() && !each.includes('\0'));
  const awkward = fc.constantFrom(
    'yes',
    '~',
    '1e3',
    '2026-01-01',
    '- a',
    '{{ x }}',
    ' a ',
    'a: b',
    '#',
    "'",
    'x\ny\n',
    '',
  );
  const tool = fc.record({ name: fc.oneof(text, awkward), description: fc.oneof(awkward, text), count: fc.integer() });
  fc.assert(
    fc.property(fc.array(tool, { maxLength: 4 }), (tools) => {
      const reading = readCatalogDocument(withTools('', DOCUMENT, tools), { path: 'mcp/k', resourceType: 'mcp' });
      expect(reading).toMatchObject({ ok: true, document: { kind: 'mcp', path: 'mcp/k' } });
      if (!reading.ok) return;
      expect(reading.document.payload).toEqual({ ...DOCUMENT, spec: { ...Object(DOCUMENT['spec']), tools } });
    }),
    { numRuns: 200 },
  );
});
