import { describe, expect, test } from 'vitest';
import { DomainError } from '../../actors/errors.ts';
import type { StartRequest } from '../../actors/services.ts';
import { createToolServerService, type ToolListing } from '../../actors/tool-servers.ts';
import type { JsonMap } from '../../machines/json.ts';
import { readCatalogDocument } from '../../machines/playbook/catalog-document.ts';
import { catalogEntry, RECEIPT } from '../api/fake-services.ts';

const TOOLS = [{ name: 'pods_list', inputSchema: { type: 'object' } }, { name: 'pods_log' }];

const CONTENT = 'kind: Mcp\nmetadata: { name: k8s } # ours\nspec:\n  url: http://k\n';

function world(
  spec: JsonMap,
  listing: ToolListing = { ok: true, tools: TOOLS },
  rows: Record<string, string> = {},
  content = '',
  refusal: Error | null = null,
) {
  const started: StartRequest[] = [];
  const registered: { content: string; path: string | null }[] = [];
  let newest = '';
  const asked: string[] = [];
  const server = catalogEntry({
    path: 'mcp/k8s',
    version: 2,
    kind: 'mcp',
    content,
    payload: { kind: 'Mcp', metadata: { name: 'k8s' }, spec },
  });
  const service = createToolServerService({
    catalog: {
      get: async (path, version) => {
        if (path === 'mcp/k8s') return version === 'latest' || version === 2 ? server : null;
        const kind = rows[path];
        return kind === undefined
          ? null
          : catalogEntry({ path, kind, status: kind === 'gone' ? 'archived' : 'active' });
      },
      register: async ({ content, path, ifChanged }) => {
        if (refusal !== null) throw refusal;
        const unchanged = ifChanged && content === newest;
        newest = content;
        registered.push({ content, path });
        return { entry: { ...server, version: 3 }, unchanged, warnings: [] };
      },
    },
    executions: {
      start: async (request) => {
        started.push(request);
        return RECEIPT;
      },
    },
    listTools: async (endpoint) => {
      asked.push(endpoint);
      return listing;
    },
  });
  return { service, started, registered, asked };
}

const DEPLOY = { path: 'mcp/k8s', version: 'latest', action: 'deploy', overrides: {}, idempotencyKey: null } as const;

describe('an action', () => {
  const spec = { url: 'http://k', lifecycle: { deploy: 'ops/deploy', drainall: 'ops/drain' } };

  test('starts the agent with the resource and the verb under the overrides', async () => {
    const { service, started } = world(spec);
    const receipt = await service.lifecycle({ ...DEPLOY, overrides: { namespace: 'ops' }, idempotencyKey: 'k1' });
    expect(receipt).toEqual({
      verb: 'deploy',
      path: 'mcp/k8s',
      version: 2,
      agentPath: 'ops/deploy',
      executionId: RECEIPT.executionId,
    });
    const mcp_resource = { path: 'mcp/k8s', version: 2, spec, metadata: { name: 'k8s' } };
    expect(started).toEqual([
      {
        path: 'ops/deploy',
        resourceKind: 'agent',
        workload: { namespace: 'ops', mcp_resource, verb: 'deploy' },
        idempotencyKey: 'k1',
      },
    ]);
  });

  test('may be any name the entry declares, and the server may be named alone', async () => {
    const { service, started } = world(spec);
    await service.lifecycle({ ...DEPLOY, path: 'k8s', action: 'drainall' });
    expect(started[0]).toMatchObject({ path: 'ops/drain', workload: { verb: 'drainall' } });
  });

  test('runs a plain playbook as one', async () => {
    const { service, started } = world(spec, undefined, { 'ops/deploy': 'playbook' });
    await service.lifecycle(DEPLOY);
    expect(started[0]?.resourceKind).toBe('playbook');
  });

  test.each([
    [{ ...DEPLOY, path: 'mcp/none' }, 'not_found'],
    [{ ...DEPLOY, version: 9 }, 'not_found'],
    [{ ...DEPLOY, path: 'old/one' }, 'not_found'],
    [{ ...DEPLOY, path: 'demo/greet' }, 'validation_error'],
    [{ ...DEPLOY, action: 'restart' }, 'validation_error'],
    [{ ...DEPLOY, action: 'constructor' }, 'validation_error'],
    [{ ...DEPLOY, overrides: { verb: 'x' } }, 'validation_error'],
    [{ ...DEPLOY, overrides: { mcp_resource: null } }, 'validation_error'],
    [{ ...DEPLOY, overrides: { ctx: { verb: 'x' } } }, 'validation_error'],
  ])('%j is %s, and nothing starts', async (request, code) => {
    const { service, started } = world(spec, undefined, { 'demo/greet': 'playbook', 'old/one': 'gone' });
    await expect(service.lifecycle(request)).rejects.toMatchObject({ code });
    expect(started).toEqual([]);
  });
});

describe('discovery', () => {
  const wanted = { path: 'mcp/k8s', version: 'latest', force: false } as const;

  test('asks the server itself and stores what is new', async () => {
    const { service, registered, asked } = world({ url: 'http://k/mcp', lifecycle: {} });
    expect(await service.discover(wanted)).toEqual({
      strategy: 'direct',
      isNew: true,
      path: 'mcp/k8s',
      versionBefore: 2,
      versionAfter: 3,
      toolsBefore: 0,
      toolsAfter: 2,
    });
    expect(asked).toEqual(['http://k/mcp']);
    const reading = readCatalogDocument(registered[0]?.content ?? '', { path: null, resourceType: null });
    expect(reading).toMatchObject({ ok: true, document: { payload: { spec: { url: 'http://k/mcp', tools: TOOLS } } } });
    expect(registered[0]?.path).toBe('mcp/k8s');
  });

  test('stores nothing when nothing changed, unless it must', async () => {
    const { service, registered } = world({ url: 'http://k/mcp', tools: [...TOOLS].reverse() });
    expect(await service.discover(wanted)).toMatchObject({ isNew: false, versionBefore: 2, versionAfter: 2 });
    expect(registered).toEqual([]);
    expect(await service.discover({ ...wanted, force: true })).toMatchObject({ isNew: true, versionAfter: 3 });
  });

  test('leaves it to the agent where one is declared', async () => {
    const { service, started, asked } = world({ url: 'http://k', lifecycle: { discover: 'ops/discover' } });
    expect(await service.discover(wanted)).toMatchObject({ strategy: 'agent', receipt: { verb: 'discover' } });
    expect(started[0]).toMatchObject({ path: 'ops/discover', workload: { verb: 'discover' } });
    expect(asked).toEqual([]);
  });

  test.each([
    ['denied', 'egress_denied'],
    ['timeout', 'upstream_timeout'],
    ['failed', 'upstream_failed'],
  ] as const)('that is %s is refused with %s', async (reason, code) => {
    const { service, registered } = world({ url: 'http://k' }, { ok: false, reason, sentence: 'Why' });
    await expect(service.discover(wanted)).rejects.toMatchObject({ code, message: 'Why' });
    expect(registered).toEqual([]);
  });

  test('stores one version where two ask at once, unless it must', async () => {
    const { service } = world({ url: 'http://k' });
    expect(await service.discover(wanted)).toMatchObject({ isNew: true, versionAfter: 3 });
    expect(await service.discover(wanted)).toMatchObject({ isNew: false, versionAfter: 3 });
    expect(await service.discover({ ...wanted, force: true })).toMatchObject({ isNew: true });
  });

  test('keeps the text of the entry around its tools', async () => {
    const { service, registered } = world({ url: 'http://k' }, undefined, {}, CONTENT);
    await service.discover(wanted);
    expect(registered[0]?.content.startsWith(CONTENT)).toBe(true);
  });

  test('blames the server for a list that the catalog cannot hold', async () => {
    const { service } = world({ url: 'http://k' }, undefined, {}, CONTENT, new DomainError('playbook_invalid', 'no'));
    await expect(service.discover(wanted)).rejects.toMatchObject({ code: 'upstream_failed' });
    const down = world({ url: 'http://k' }, undefined, {}, CONTENT, new DomainError('db_unavailable', 'no'));
    await expect(down.service.discover(wanted)).rejects.toMatchObject({ code: 'db_unavailable' });
  });

  test('needs an address', async () => {
    await expect(world({}).service.discover(wanted)).rejects.toMatchObject({ code: 'validation_error' });
  });
});
