import { describe, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { type CatalogStore, createCatalogService } from '../../actors/catalog-service.ts';
import type { CatalogEntry } from '../../actors/services.ts';
import { readCatalogDocument } from '../../machines/playbook/catalog-document.ts';

describe('what a start request means', () => {
  const rows = [
    entry(1, 'demo/a', 1, 'playbook'),
    entry(2, 'demo/a', 2, 'playbook'),
    entry(3, 'ops/agent', 1, 'agent'),
  ];
  const mixed = [
    entry(4, 'demo/mixed', 1, 'playbook'),
    entry(5, 'demo/mixed', 2, 'agent'),
    entry(6, 'tools/x', 1, 'mcp'),
  ];
  const broken = entry(7, 'demo/broken', 1, 'playbook', 'kind: Playbook\nmetadata: { name: x }\nworkflow: []\n');
  const { catalog } = world([...rows, ...mixed, broken]);

  test.each([
    [{ path: '/demo/a/' }, 2],
    [{ path: 'demo/a', version: 'latest' as const }, 2],
    [{ path: 'demo/a', version: 1 }, 1],
    [{ path: 'demo/a', resourceKind: 'Notebook' }, 2],
    [{ path: 'demo/a', resourceKind: ' PLAYBOOKS ' }, 2],
    [{ catalogId: 1 }, 1],
    [{ catalogId: 1, path: '/demo/a', version: 1 }, 1],
    [{ path: 'ops/agent', resourceKind: 'agents' }, 3],
    [{ path: 'demo/mixed', resourceKind: 'agent' }, 5],
    [{ path: 'demo/mixed', version: 1 }, 4],
  ])('%j is entry %i', async (request, catalogId) => {
    const found = await catalog.executable(request);
    expect(found.entry.catalogId).toBe(catalogId);
    expect(found.playbook.path).toBe(found.entry.path);
  });

  test.each([
    [{}, 'validation_error', 'path or catalog_id is required'],
    [{ path: 'none/here' }, 'not_found', 'Executable catalog entry not found: none/here'],
    [{ path: '../etc' }, 'not_found', 'Executable catalog entry not found: ../etc'],
    [{ path: 'demo/a', version: 3 }, 'not_found', 'Executable catalog entry not found: demo/a'],
    [{ catalogId: 99 }, 'not_found', 'Executable catalog entry not found: catalog_id=99'],
    [{ path: '3' }, 'not_found', 'Executable catalog entry not found: 3'],
    [{ path: 'tools/x' }, 'not_found', 'Executable catalog entry not found: tools/x'],
    [{ catalogId: 6 }, 'not_found', 'Executable catalog entry not found: catalog_id=6'],
    [{ path: 'demo/a', resourceKind: 'agent' }, 'not_found', 'Executable catalog entry not found: demo/a'],
    [{ path: 'tools/x', resourceKind: 'MCP' }, 'kind_not_executable', "Catalog kind 'mcp' is not executable"],
    [{ path: 'demo/a', resourceKind: 'toString' }, 'kind_not_executable', "Catalog kind 'toString' is not executable"],
    [{ path: 'ops/agent' }, 'resource_kind_required', "resource_kind 'agent' is required to execute 'ops/agent'"],
    [
      { catalogId: 3, resourceKind: 'playbook' },
      'resource_kind_required',
      "resource_kind 'agent' is required to execute 'ops/agent'",
    ],
    [{ path: 'demo/mixed' }, 'resource_kind_required', "resource_kind 'agent' is required to execute 'demo/mixed'"],
    [
      { catalogId: 1, path: 'demo/b' },
      'validation_error',
      'path, version and catalog_id do not name the same catalog entry',
    ],
    [
      { catalogId: 1, version: 2 },
      'validation_error',
      'path, version and catalog_id do not name the same catalog entry',
    ],
    [{ path: 'demo/broken' }, 'playbook_invalid', 'Playbook validation failed'],
  ])('%j is refused with %s', async (request, code, message) => {
    await expect(catalog.executable(request)).rejects.toMatchObject({ code, message });
  });

  test('that a stored document no longer passes is told with places', async () => {
    await expect(catalog.executable({ path: 'demo/broken' })).rejects.toMatchObject({
      data: { errors: [{ code: 'workflow_empty', line: 3, step: null }] },
    });
  });
});

describe('a parsed playbook', () => {
  test('is read once for all who ask, also at the same time', async () => {
    const { catalog, reads } = world([entry(1, 'demo/a', 1, 'playbook')]);
    await Promise.all([catalog.playbook(1), catalog.playbook(1), catalog.executable({ path: 'demo/a' })]);
    await catalog.playbook(1);
    expect(reads()).toBe(1);
  });

  test('is forgotten when there is no room, the least used first', async () => {
    const rows = [1, 2, 3].map((id) => entry(id, `demo/p${id}`, 1, 'playbook'));
    const { catalog, reads } = world(rows, { countMax: 2, sizeMax: 1_000_000 });
    for (const id of [1, 2, 1, 3, 1, 2]) await catalog.playbook(id);
    expect(reads()).toBe(4);
    const tiny = world(rows, { countMax: 2, sizeMax: 10 });
    for (const id of [1, 1]) await tiny.catalog.playbook(id);
    expect(tiny.reads()).toBe(2);
  });

  test('that could not be read is read again', async () => {
    const rows = [entry(1, 'demo/a', 1, 'playbook', 'kind: Playbook\n')];
    const { catalog, reads } = world(rows);
    for (const _ of [1, 2]) await expect(catalog.playbook(1)).rejects.toMatchObject({ code: 'playbook_invalid' });
    expect(reads()).toBe(2);
    await expect(catalog.playbook(9)).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('validation', () => {
  test('judges a text and stores nothing', async () => {
    const { catalog } = world([]);
    expect(await catalog.validate(playbook('demo/v'), null)).toEqual({
      valid: true,
      diagnostics: [],
      path: 'demo/v',
      kind: 'playbook',
    });
    expect(
      await catalog.validate('kind: Playbook\nmetadata: { name: x }\nworkflow:\n  - step: start\n', null),
    ).toMatchObject({
      valid: false,
      path: 'x',
      kind: 'playbook',
      diagnostics: [{ severity: 'error', code: 'tool_missing' }, { code: 'api_version' }],
    });
    await expect(
      catalog.register({ content: playbook('a'), resourceType: null, path: 'no path', ifChanged: false }),
    ).rejects.toMatchObject({ code: 'validation_error' });
  });
});

function world(rows: readonly CatalogEntry[], cache = { countMax: 100, sizeMax: 1_000_000 }) {
  let count = 0;
  const unused = () => Promise.reject(new Error('not part of this test'));
  const located = (found: readonly CatalogEntry[]) => found.toSorted((a, b) => b.version - a.version)[0] ?? null;
  const store: CatalogStore = {
    byId: async (id) => rows.find((row) => row.catalogId === id) ?? null,
    locateId: async (id) => rows.find((row) => row.catalogId === id) ?? null,
    locatePath: async (path, version, kinds) =>
      located(
        rows.filter((row) => row.path === path && kinds.includes(row.kind) && (version ?? row.version) === row.version),
      ),
    add: unused,
    version: unused,
    meta: unused,
    ruled: unused,
    newest: unused,
    list: unused,
    count: unused,
    versions: unused,
    archive: unused,
    update: unused,
  };
  const catalog = createCatalogService({
    store,
    read: async (text, options) => {
      count += 1;
      return readCatalogDocument(text, options);
    },
    ids: { next: () => 1, reserve: async () => {} },
    caller: () => OPEN_CALLER,
    onRulesChanged: () => {},
    cache,
  });
  return { catalog, reads: () => count };
}

function entry(catalogId: number, path: string, version: number, kind: string, content = playbook(path)): CatalogEntry {
  const at = '2026-11-20T10:15:02.113Z';
  return {
    ...{ catalogId, path, version, kind, content, name: path, description: null, status: 'active', payload: {} },
    ...{ layout: null, meta: {}, tasksCount: 1, createdBy: null, createdAt: at, updatedAt: at, archivedAt: null },
  };
}

function playbook(path: string): string {
  return `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: p, path: ${path} }\nworkflow:\n  - step: start\n    tool: { kind: noop }\n`;
}
