/** Reading the catalog (api 2.2.3 to 2.2.8, 2.2.11, 2.2.12). */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { CatalogEntry } from '../../actors/services.ts';
import { isMap } from '../../machines/json.ts';
import { readStoredKind } from '../../machines/playbook/catalog-kind.ts';
import { agentsBody, capabilitiesOf, entry, entryToWire, listBody, resourceBody } from '../wire/catalog.ts';
import { described } from '../wire/described.ts';
import { catalogPath, idOut, parseId } from '../wire/ids.ts';
import { cutPage } from '../wire/pagination.ts';
import { queryInteger, queryText } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Catalog';
const LIST_MAX = 5000;

export const queryVersion = v.pipe(
  described(
    v.custom<string>(
      (value) => value === 'latest' || (typeof value === 'string' && parseId(value) !== null),
      "must be a version: an integer of at least 1, or 'latest'",
    ),
    { anyOf: [{ type: 'integer', minimum: 1 }, { const: 'latest' }] },
  ),
  v.transform((value): number | 'latest' => (value === 'latest' ? 'latest' : Number(value))),
);

export function catalogReadRoutes({ services }: ApiContext): Route[] {
  const { catalog } = services;

  async function playbookAt(path: string, version: number | 'latest') {
    const row = await catalog.get(path, version);
    if (row === null) throw new DomainError('not_found', `Playbook '${path}' not found`);
    return entryToWire(row, true);
  }

  return [
    route({
      method: 'GET',
      path: '/api/catalog/playbook/{path…}',
      level: 'seed',
      role: ['V'],
      tag,
      summary: 'One version of a playbook',
      params: v.object({ path: catalogPath }),
      query: v.object({ version: v.optional(queryVersion, 'latest') }),
      answer: entry,
      codes: ['not_found'],
      handle: ({ params, query }) => playbookAt(params.path, query.version),
    }),
    route({
      method: 'GET',
      path: '/api/catalog/playbook/content',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'The text of an entry; without playbook_id: the playbook at the path `content`',
      query: v.object({ playbook_id: v.optional(queryText(300)), version: v.optional(queryVersion, 'latest') }),
      answer: v.union([
        v.object({ content: v.string(), path: v.string(), version: v.number(), catalog_id: idOut }),
        entry,
      ]),
      codes: ['not_found'],
      handle: async ({ query }) => {
        if (query.playbook_id === undefined) return playbookAt('content', query.version);
        const row = await catalog.find(query.playbook_id);
        if (row === null) throw new DomainError('not_found', 'Catalog entry not found');
        return { content: row.content, path: row.path, version: row.version, catalog_id: row.catalogId };
      },
    }),
    route({
      method: 'GET',
      path: '/api/catalog/playbooks',
      level: 'seed',
      role: ['V'],
      tag,
      summary: 'The newest version of every playbook and agent, by path, without text',
      query: v.object({
        q: v.optional(queryText(256)),
        kind: v.optional(queryText(64)),
        limit: v.optional(queryInteger(1, LIST_MAX)),
        after_path: v.optional(queryText(255)),
      }),
      answer: v.array(entry),
      handle: async ({ query, request, reply }) => {
        const limit = query.limit ?? 1000;
        const wanted: Parameters<typeof catalog.list>[0] = {
          kinds: query.kind === undefined || query.kind === '' ? ['playbook', 'agent'] : kindsOf(query.kind),
          limit: limit + 1,
          versions: 'latest',
          includeArchived: false,
          includeContent: false,
          order: 'path',
          ...(query.q === undefined || query.q === '' ? {} : { q: query.q }),
          ...(query.after_path === undefined ? {} : { afterPath: query.after_path }),
        };
        const [found, total] = await Promise.all([catalog.list(wanted), catalog.count(wanted)]);
        reply.header('x-total-count', String(total));
        const { rows, last } = cutPage(found, limit);
        if (last !== null) reply.header('link', nextLink(request.url, { after_path: last.path }));
        return rows.map((row) => entryToWire(row, false));
      },
    }),
    route({
      method: 'POST',
      path: '/api/catalog/list',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'Entries by kind, path prefix and capabilities, newest first',
      body: listBody,
      example: { request: { resource_type: 'playbook', path: 'demo', versions: 'latest' } },
      answer: v.object({ entries: v.array(entry), count: v.number() }),
      handle: async ({ body }) => {
        const includeContent = body.include_content ?? false;
        const rows = await catalog.list({
          limit: body.limit ?? 1000,
          versions: body.versions ?? 'all',
          includeArchived: body.include_archived ?? false,
          includeContent,
          order: 'newest',
          agentOnly: body.agent_only ?? false,
          ...(body.resource_type == null ? {} : { kinds: kindsOf(body.resource_type) }),
          ...prefixOf(body.path),
          ...capabilityFilter(body),
        });
        return { entries: rows.map((row) => entryToWire(row, includeContent)), count: rows.length };
      },
    }),
    route({
      method: 'POST',
      path: '/api/catalog/agents/list',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'The newest version of every agent with all of these capabilities',
      body: agentsBody,
      answer: v.object({ entries: v.array(entry) }),
      handle: async ({ body }) => {
        const rows = await catalog.list({
          limit: LIST_MAX,
          versions: 'latest',
          includeArchived: false,
          includeContent: false,
          order: 'path',
          agentOnly: true,
          ...prefixOf(body.path),
          ...capabilityFilter(body),
        });
        const shown = body.visible_only === true ? rows.filter(isVisible) : rows;
        return { entries: shown.map((row) => entryToWire(row, false)) };
      },
    }),
    route({
      method: 'POST',
      path: '/api/catalog/resource',
      level: 'client',
      role: ['V', 'W'],
      tag,
      summary: 'One entry by id, or by path and version',
      body: resourceBody,
      answer: entry,
      codes: ['not_found'],
      example: { request: { path: 'demo/greet', version: 'latest' } },
      handle: async ({ body }) => {
        const row =
          body.catalog_id == null
            ? await catalog.get(body.path ?? '', body.version ?? 'latest')
            : await catalog.byId(body.catalog_id);
        if (row === null) throw new DomainError('not_found', 'Catalog entry not found');
        return entryToWire(row, true);
      },
    }),
    route({
      method: 'GET',
      path: '/api/catalog/list/{kind}',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'Paths of one kind',
      params: v.object({ kind: queryText(64) }),
      answer: v.array(v.string()),
      handle: async ({ params }) => {
        const rows = await catalog.list({
          kinds: kindsOf(params.kind),
          limit: LIST_MAX,
          versions: 'latest',
          includeArchived: false,
          includeContent: false,
          order: 'path',
        });
        return rows.map((row) => row.path);
      },
    }),
    route({
      method: 'GET',
      path: '/api/catalog/{path…}/versions',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'All versions of a path, newest first',
      params: v.object({ path: catalogPath }),
      answer: v.object({
        path: v.string(),
        versions: v.array(
          v.object({
            catalog_id: idOut,
            version: v.number(),
            created_at: v.string(),
            created_by: v.nullable(v.string()),
            sha256: v.string(),
            archived_at: v.nullable(v.string()),
            executions: v.number(),
          }),
        ),
      }),
      codes: ['not_found'],
      handle: async ({ params }) => {
        const rows = await catalog.versions(params.path);
        if (rows.length === 0) throw new DomainError('not_found', `Playbook '${params.path}' not found`);
        const versions = rows.map(({ entry: row, sha256, executions }) => ({
          catalog_id: row.catalogId,
          version: row.version,
          created_at: row.createdAt,
          created_by: row.createdBy,
          sha256,
          archived_at: row.archivedAt,
          executions,
        }));
        return { path: params.path, versions };
      },
    }),
  ];
}

/** `<same address with other parameters>; rel="next"` (api 1.8); null takes one away. */
export function nextLink(url: string, changes: Readonly<Record<string, string | null>>): string {
  const [path = '/', query = ''] = url.split('?', 2);
  const parameters = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(name);
    else parameters.set(name, value);
  }
  return `<${path}?${parameters.toString()}>; rel="next"`;
}

/** A word that names no kind finds nothing. */
function kindsOf(word: string): readonly string[] {
  return [readStoredKind(word) ?? word.toLowerCase()];
}

function prefixOf(path: string | null | undefined): { pathPrefix?: string } {
  const prefix = (path ?? '').replace(/^\/+/, '');
  return prefix === '' ? {} : { pathPrefix: prefix };
}

function capabilityFilter(body: Parameters<typeof capabilitiesOf>[0]): { capabilities?: readonly string[] } {
  const capabilities = capabilitiesOf(body);
  return capabilities.length === 0 ? {} : { capabilities };
}

function isVisible(row: CatalogEntry): boolean {
  const metadata = row.payload['metadata'];
  const terminal = isMap(metadata) ? metadata['terminal'] : null;
  return isMap(terminal) && terminal['visible'] === true;
}
