import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OPEN_CALLER } from '../../actors/audit.ts';
import { type CatalogPorts, createCatalogService } from '../../actors/catalog-service.ts';
import type { CatalogService } from '../../actors/services.ts';
import { readCatalogDocument } from '../../machines/playbook/catalog-document.ts';
import { createCatalogStore } from '../../src/store/catalog.ts';
import { createDatabase, type Database } from '../../src/store/pool.ts';
import { queryRows, quiet, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let postgres: TestPostgres;
let database: Database;
let catalog: CatalogService;
let lastId = 1000;
let news = 0;

beforeAll(async () => {
  postgres = await startTestPostgres();
  const pool = { poolMin: 0, poolMax: 8, acquireTimeoutSeconds: 5, waitingMax: 100 };
  database = createDatabase({ url: postgres.url, listenUrl: postgres.url, ...pool }, quiet);
  const ports: CatalogPorts = {
    store: createCatalogStore(database.reads, database.hot.lookups),
    read: async (text, options) => readCatalogDocument(text, options),
    ids: { next: () => ++lastId, reserve: async () => {} },
    caller: () => ({ ...OPEN_CALLER, actor: 'ann', requestId: 'r-test-0001' }),
    onRulesChanged: () => {
      news += 1;
    },
  };
  catalog = createCatalogService(ports);
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

describe('versions', () => {
  test('count up per path and stay readable', async () => {
    const one = await register('demo/count', 'first');
    const two = await register('demo/count', 'second');
    expect([one.entry.version, two.entry.version]).toEqual([1, 2]);
    expect((await catalog.get('/demo/count/', 'latest'))?.catalogId).toBe(two.entry.catalogId);
    expect((await catalog.get('demo/count', 1))?.content).toContain('first');
    expect(await catalog.get('demo/count', 3)).toBeNull();
    expect(await catalog.byId(one.entry.catalogId)).toEqual(one.entry);
  });

  test('that nobody can have reached are not there', async () => {
    await register('demo/far', 'first');
    expect(await catalog.get('demo/far', Number.MAX_SAFE_INTEGER)).toBeNull();
    await expect(catalog.executable({ path: 'demo/far', version: 2_147_483_648 })).rejects.toThrowError(
      'Executable catalog entry not found: demo/far',
    );
  });

  test('of twenty registrations at once have no gap and no double', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, (_, index) => register('demo/race', `text ${index}`)));
    expect(made.map(({ entry }) => entry.version).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
  });

  test('keep the text byte for byte, and the whole document', async () => {
    const content = `# stays\r\n${playbook('demo/bytes', 'wörld ☃')}\n# end`;
    const { entry } = await catalog.register({ content, resourceType: null, path: null, ifChanged: false });
    expect(entry.content).toBe(content);
    expect(entry).toMatchObject({
      kind: 'playbook',
      name: 'bytes',
      description: 'wörld ☃',
      tasksCount: 1,
      status: 'active',
      createdBy: 'ann',
      payload: { metadata: { path: 'demo/bytes' } },
      meta: { agent: false, capabilities: [], sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect(entry.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(entry.meta['registered_at']).toBe(entry.createdAt);
  });

  test('cannot be changed behind the service', async () => {
    const { entry } = await register('demo/fixed', 'a');
    const change = queryRows(postgres.url, `update core.catalog set content = 'x' where catalog_id = $1`, [
      entry.catalogId,
    ]);
    await expect(change).rejects.toThrowError(/immutable/);
  });

  test('are not added for the same text when asked so', async () => {
    const one = await register('demo/same', 'a');
    const same = await register('demo/same', 'a', { ifChanged: true });
    expect(same).toMatchObject({ unchanged: true, entry: { catalogId: one.entry.catalogId } });
    expect(await register('demo/same', 'b', { ifChanged: true })).toMatchObject({
      unchanged: false,
      entry: { version: 2 },
    });
    expect(await register('demo/same', 'b')).toMatchObject({ unchanged: false, entry: { version: 3 } });
    expect(await register('demo/same', 'b', { ifChanged: true, resourceType: 'agent' })).toMatchObject({
      unchanged: false,
      entry: { version: 4, kind: 'agent' },
    });
  });

  test('tell their hash and how often they ran', async () => {
    await register('demo/listed', 'a');
    await register('demo/listed', 'b');
    const versions = await catalog.versions('demo/listed');
    expect(versions.map(({ entry, executions }) => [entry.version, executions])).toEqual([
      [2, 0],
      [1, 0],
    ]);
    await expect(catalog.versions('demo/none')).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('archiving', () => {
  test('hides all versions of a path and is undone for one', async () => {
    const one = await register('demo/old', 'a');
    const two = await register('demo/old', 'b');
    const ids = [one.entry.catalogId, two.entry.catalogId];
    expect(await catalog.archive('demo/old')).toEqual({ path: 'demo/old', archived: ids });
    expect(await paths({ pathPrefix: 'demo/old' })).toEqual([]);
    await expect(catalog.executable({ path: 'demo/old' })).rejects.toThrowError(
      'Executable catalog entry not found: demo/old',
    );
    await expect(catalog.executable({ catalogId: ids[0] ?? 0 })).rejects.toThrowError(`catalog_id=${ids[0]}`);
    expect(await catalog.get('demo/old', 'latest')).toMatchObject({ version: 2, status: 'archived' });
    await catalog.update(String(ids[0]), { status: 'active', meta: { note: 'back' } });
    expect(await catalog.get('demo/old', 'latest')).toMatchObject({
      version: 1,
      status: 'active',
      meta: { note: 'back', agent: false },
    });
    expect((await catalog.executable({ path: 'demo/old' })).entry.catalogId).toBe(ids[0]);
  });

  test('of one version by its id leaves the others', async () => {
    const one = await register('demo/one', 'a');
    const two = await register('demo/one', 'b');
    expect(await catalog.archive(String(two.entry.catalogId))).toEqual({
      path: 'demo/one',
      archived: [two.entry.catalogId],
    });
    expect((await catalog.executable({ path: 'demo/one' })).entry.catalogId).toBe(one.entry.catalogId);
    const page = {
      ...ALL,
      pathPrefix: 'demo/one',
      versions: 'all',
      includeArchived: true,
      limit: 1,
      afterPath: 'z',
    } as const;
    expect(await catalog.count(page)).toBe((await catalog.list({ ...page, limit: 99, afterPath: 'a' })).length);
    expect(await catalog.list({ ...ALL, pathPrefix: 'demo/one', versions: 'all', includeArchived: true })).toHaveLength(
      2,
    );
    await expect(catalog.archive('demo/nowhere')).rejects.toMatchObject({ code: 'not_found' });
  });

  test('makes the same text a new version again', async () => {
    await register('demo/again', 'a');
    await catalog.archive('demo/again');
    expect(await register('demo/again', 'a', { ifChanged: true })).toMatchObject({
      unchanged: false,
      entry: { version: 2 },
    });
  });
});

test('changes that rules are part of are told, and only those', async () => {
  const before = news;
  const told = () => news - before;
  await register('demo/ruled', 'first');
  expect(told()).toBe(0);
  await catalog.update('demo/ruled', { status: null, meta: { access: { view: ['ann'] } } });
  expect(told()).toBe(1);
  await register('demo/ruled', 'first', { ifChanged: true });
  expect(told()).toBe(1);
  const { entry } = await register('demo/ruled', 'second');
  expect(entry.meta['access']).toEqual({ view: ['ann'] });
  expect(told()).toBe(2);
  await catalog.archive(String(entry.catalogId));
  expect(told()).toBe(3);
});

describe('lists', () => {
  test('are filtered by kind, text and what an agent can do', async () => {
    const agent = `metadata: { name: ops, path: list/ops, agent: true, capabilities: [mcp], terminal: { capabilities: kubernetes, visible: true, scopes: [read] } }`;
    await catalog.register({ content: body(agent), resourceType: 'agent', path: null, ifChanged: false });
    await register('list/b', 'needle_here');
    await register('list/a', 'other');
    await catalog.register({
      content: 'kind: MCP\nmetadata: { name: tools, path: list/tools }\n',
      resourceType: null,
      path: null,
      ifChanged: false,
    });
    const prefix = { pathPrefix: 'list/' };
    expect(await paths(prefix)).toEqual(['list/a', 'list/b', 'list/ops', 'list/tools']);
    expect(await paths({ ...prefix, kinds: ['playbook', 'agent'] })).toEqual(['list/a', 'list/b', 'list/ops']);
    expect(await paths({ ...prefix, q: 'NEEDLE_' })).toEqual(['list/b']);
    expect(await paths({ ...prefix, q: '%' })).toEqual([]);
    expect(await paths({ ...prefix, capabilities: ['kubernetes', 'mcp'] })).toEqual(['list/ops']);
    expect(await paths({ ...prefix, capabilities: ['kubernetes', 'no'] })).toEqual([]);
    expect(await paths({ ...prefix, agentOnly: true })).toEqual(['list/ops']);
    expect(await paths({ ...prefix, afterPath: 'list/b', limit: 1 })).toEqual(['list/ops']);
    expect(await paths({ ...prefix, order: 'newest' })).toEqual(['list/tools', 'list/a', 'list/b', 'list/ops']);
  });
});

describe('the audit trail', () => {
  test('has a row for each registration and archiving, none for a refused one', async () => {
    const { entry } = await register('demo/audited', 'a');
    await expect(register('demo/audited', 'a: [')).rejects.toMatchObject({ code: 'playbook_invalid' });
    await catalog.archive('demo/audited');
    const rows = await queryRows(
      postgres.url,
      `select actor, action, outcome, request_id, detail from core.audit where target = 'demo/audited' order by at`,
    );
    expect(rows).toEqual([
      {
        actor: 'ann',
        action: 'catalog.register',
        outcome: 'ok',
        request_id: 'r-test-0001',
        detail: { kind: 'playbook', version: 1, catalog_id: entry.catalogId },
      },
      {
        actor: 'ann',
        action: 'catalog.archive',
        outcome: 'ok',
        request_id: 'r-test-0001',
        detail: { archived: [entry.catalogId] },
      },
    ]);
  });
});

const ALL = { limit: 1000, versions: 'latest', includeArchived: false, includeContent: false } as const;

async function paths(filter: Partial<Parameters<CatalogService['list']>[0]>): Promise<string[]> {
  return (await catalog.list({ ...ALL, ...filter })).map((entry) => entry.path);
}

function register(path: string, description: string, more: { ifChanged?: boolean; resourceType?: string } = {}) {
  const content = playbook(path, description);
  return catalog.register({
    content,
    resourceType: more.resourceType ?? null,
    path: null,
    ifChanged: more.ifChanged ?? false,
  });
}

function playbook(path: string, description: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return body(`metadata: { name: ${name}, path: ${path}, description: ${description} }`);
}

function body(metadata: string): string {
  return `apiVersion: callboard/v2\nkind: Playbook\n${metadata}\nworkflow:\n  - step: start\n    tool: { kind: noop }\n`;
}

test('a burst of starts finds its playbook, however few connections the pool has', async () => {
  const { entry } = await register('demo/burst', 'only');
  const ask = () => catalog.executable({ path: 'demo/burst' });
  await ask();
  const found = await Promise.all(Array.from({ length: 400 }, ask));
  expect(new Set(found.map((each) => each.entry.catalogId))).toEqual(new Set([entry.catalogId]));
});
