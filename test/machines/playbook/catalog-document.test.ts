import { describe, expect, test } from 'vitest';
import { decodeContent, readCatalogDocument } from '../../../machines/playbook/catalog-document.ts';
import { listingOf, metaOf } from '../../../machines/playbook/catalog-listing.ts';
import { lastSegment, readCatalogPath } from '../../../machines/playbook/catalog-path.ts';
import { readReference, writeReference } from '../../../machines/playbook/reference.ts';

const none = { path: null, resourceType: null };

describe('a registered text', () => {
  test('is a playbook under the path of its metadata', () => {
    const reading = readCatalogDocument(playbook('name: greet, path: /demo/greet/'), none);
    expect(reading).toMatchObject({
      ok: true,
      document: { kind: 'playbook', path: 'demo/greet', playbook: { path: 'demo/greet', name: 'greet' } },
    });
  });

  test('is kept under the path of the request, and becomes an agent when asked', () => {
    const text = playbook('name: greet, path: demo/greet');
    expect(readCatalogDocument(text, { path: 'other/place', resourceType: 'Agents' })).toMatchObject({
      ok: true,
      document: { kind: 'agent', path: 'other/place', playbook: { kind: 'agent', path: 'other/place' } },
    });
  });

  test('of a kind that does not run is a map and nothing more', () => {
    const text = 'kind: ModelContextProtocol\nmetadata: { name: tools }\nspec: { endpoint: "http://x" }\n';
    expect(readCatalogDocument(text, none)).toMatchObject({
      ok: true,
      document: { kind: 'mcp', path: 'tools', playbook: null, payload: { spec: { endpoint: 'http://x' } } },
    });
    expect(readCatalogDocument('facts: []\n', { path: 'm/one', resourceType: 'memory' })).toMatchObject({
      ok: true,
      document: { kind: 'memory', path: 'm/one' },
    });
  });

  test.each(['../etc', 'a//b', 'a b', 'a/../b', `${'a'.repeat(256)}`, 'ä', `${'a/'.repeat(17)}a`, '.a'])(
    'is refused under the path %s, with the place',
    (path) => {
      const reading = readCatalogDocument(playbook(`name: x, path: ${JSON.stringify(path)}`), none);
      expect(reading).toMatchObject({
        ok: false,
        path: null,
        errors: [{ code: 'metadata', path: 'metadata', line: 2 }],
      });
    },
  );

  test('is refused under a bad path of the request, which is nowhere in it', () => {
    const reading = readCatalogDocument('kind: Memory\n', { path: 'no path', resourceType: null });
    expect(reading).toMatchObject({
      ok: false,
      errors: [{ code: 'metadata', line: 1, message: expect.stringContaining("'no path'") }],
    });
  });

  test('may come as strict base64 of a map', () => {
    const text = playbook('name: greet');
    const base64 = Buffer.from(text).toString('base64');
    expect(decodeContent(base64)).toBe(text);
    const notMaps = [
      Buffer.from('- a\n').toString('base64'),
      Buffer.from([0xff, 0xfe, 0xfd]).toString('base64'),
      Buffer.from('a: [').toString('base64'),
      'AB==CD==',
      'A===',
      '',
      `${base64}\n`,
    ];
    for (const other of notMaps) expect(decodeContent(other)).toBe(other);
  });
});

describe('a listing', () => {
  test('names a document that does not, and counts its steps', () => {
    expect(listingOf('demo/greet', {})).toEqual({ name: 'greet', description: null, tasksCount: 0 });
    const payload = { metadata: { name: 'n', description: 'd' }, workflow: [{}, {}] };
    expect(listingOf('greet', payload)).toEqual({ name: 'n', description: 'd', tasksCount: 2 });
    expect(listingOf('a', { metadata: 5, workflow: 'x' })).toEqual({ name: 'a', description: null, tasksCount: 0 });
  });

  test('unites the capabilities of metadata and terminal', () => {
    const terminal = { visible: true, scopes: ['read', 5], capabilities: ['k8s', 'mcp'] };
    expect(metaOf({ metadata: { agent: true, capabilities: 'mcp', terminal } })).toEqual({
      agent: true,
      capabilities: ['mcp', 'k8s'],
      terminal,
      terminal_visible: true,
      terminal_scopes: ['read'],
    });
    expect(metaOf({})).toEqual({
      agent: false,
      capabilities: [],
      terminal: null,
      terminal_visible: false,
      terminal_scopes: [],
    });
  });
});

describe('a catalog path', () => {
  test('loses its outer slashes only', () => {
    expect(readCatalogPath('//demo/greet_1.v-2/')).toBe('demo/greet_1.v-2');
    expect(lastSegment('demo/greet')).toBe('greet');
    expect(lastSegment('greet')).toBe('greet');
  });

  test.each(['', '/', 'a/../b', './a', 'a\\b', 'a\0b', '-a', 'a/.b', 'a'.repeat(256), '/'.repeat(5000)])(
    'is not %j',
    (text) => {
      expect(readCatalogPath(text)).toBeNull();
    },
  );
});

describe('a reference', () => {
  test('comes back from its text, whatever the name', () => {
    for (const name of ['export', 'a/b', '☃ %2F', '.']) {
      const reference = { executionId: 41007, name, resultId: 9 };
      expect(readReference(writeReference(reference))).toEqual(reference);
    }
  });

  test.each([
    'callboard://execution/0/result/a/1',
    'callboard://execution/041/result/a/1',
    'callboard://execution/9999999999999999/result/a/1',
    'callboard://execution/1/result//1',
    'callboard://execution/1/result/%zz/1',
    'callboard://execution/1/result/a/1/',
    ' callboard://execution/1/result/a/1',
  ])('is not %s', (text) => {
    expect(readReference(text)).toBeNull();
  });
});

function playbook(metadata: string): string {
  return `kind: Playbook\nmetadata: { ${metadata} }\nworkflow:\n  - step: start\n    tool: { kind: noop }\n`;
}
