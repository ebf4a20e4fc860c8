import fc from 'fast-check';
import { expect, test } from 'vitest';
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
      const reading = readCatalogDocument(withTools(DOCUMENT, tools), { path: 'mcp/k', resourceType: 'mcp' });
      expect(reading).toMatchObject({ ok: true, document: { kind: 'mcp', path: 'mcp/k' } });
      if (!reading.ok) return;
      expect(reading.document.payload).toEqual({ ...DOCUMENT, spec: { ...Object(DOCUMENT['spec']), tools } });
    }),
    { numRuns: 200 },
  );
});
