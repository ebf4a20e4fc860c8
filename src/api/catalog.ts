/** The catalog: storing versions (api 2.2.1, 2.2.2, 2.2.8 to 2.2.10) and judging texts without storing them (2.2.15). */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import {
  changeBody,
  contentBody,
  diagnosticToWire,
  entry,
  entryToWire,
  playbookAnswer,
  registerAnswer,
  registerBody,
  registerToWire,
  validateAnswer,
  validateBody,
} from '../wire/catalog.ts';
import { catalogPath, idOut } from '../wire/ids.ts';
import { queryText } from '../wire/query-fields.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const CONTENT_BYTES_MAX = 1_048_576;
const tag = 'Catalog';
const playbookId = v.object({ playbook_id: queryText(300) });
const EXAMPLE =
  'apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: greet, path: demo/greet }\nworkflow:\n  - step: start\n    tool: { kind: noop }\n';

export function catalogRoutes({ services }: ApiContext): Route[] {
  const { catalog } = services;

  function register(body: v.InferOutput<typeof registerBody>) {
    return catalog.register({
      content: bounded(body.content),
      resourceType: body.resource_type ?? null,
      path: body.path ?? null,
      ifChanged: body.if_changed ?? false,
    });
  }

  async function found(id: string) {
    const row = await catalog.find(id);
    if (row === null) throw new DomainError('not_found', 'Catalog entry not found');
    return row;
  }

  /** A new version of a path that exists; the kind stays what it was. */
  async function registerUnder(id: string, content: string) {
    const { path, kind } = await found(id);
    return catalog.register({ content: bounded(content), resourceType: kind, path, ifChanged: false });
  }

  return [
    route({
      method: 'POST',
      path: '/api/catalog/register',
      level: 'seed',
      role: ['O'],
      tag,
      summary: 'Store a new version of a catalog entry',
      body: registerBody,
      bodyLimit: 'general',
      answer: registerAnswer,
      codes: ['playbook_invalid'],
      example: { request: { content: EXAMPLE, resource_type: 'Playbook' } },
      handle: async ({ body }) => registerToWire(await register(body)),
    }),
    route({
      method: 'POST',
      path: '/api/catalog/playbook',
      level: 'seed',
      role: ['O'],
      tag,
      summary: 'Store a new version of a playbook',
      body: registerBody,
      bodyLimit: 'general',
      answer: playbookAnswer,
      codes: ['playbook_invalid'],
      example: { request: { content: EXAMPLE, path: 'demo/greet' } },
      handle: async ({ body }) => {
        const made = await register(body);
        const { entry: row } = made;
        return {
          ...registerToWire(made),
          id: row.path,
          name: row.name,
          description: row.description,
          created_at: row.createdAt,
          updated_at: row.updatedAt,
          tasks_count: row.tasksCount,
        };
      },
    }),
    route({
      method: 'PUT',
      path: '/api/catalog/playbook/content',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Store a text as a new version of an existing path',
      query: playbookId,
      body: contentBody,
      example: { request: { content: EXAMPLE } },
      bodyLimit: 'general',
      answer: v.object({
        status: v.literal('success'),
        message: v.string(),
        resource_path: v.string(),
        resource_version: v.number(),
        catalog_id: idOut,
        path: v.string(),
        version: v.number(),
      }),
      codes: ['not_found', 'playbook_invalid'],
      handle: async ({ query, body }) => {
        const made = registerToWire(await registerUnder(query.playbook_id, body.content));
        const { status, message, path, version, catalog_id } = made;
        return { status, message, resource_path: path, resource_version: version, catalog_id, path, version };
      },
    }),
    route({
      method: 'PUT',
      path: '/api/catalog/playbook',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Change an entry: a new text, its status, its meta',
      query: playbookId,
      body: changeBody,
      example: { request: { status: 'archived' } },
      bodyLimit: 'general',
      answer: entry,
      codes: ['not_found', 'playbook_invalid'],
      handle: async ({ query, body }) => {
        const made = body.content == null ? null : await registerUnder(query.playbook_id, body.content);
        const id = made === null ? query.playbook_id : String(made.entry.catalogId);
        const change = { status: body.status ?? null, meta: body.meta ?? null };
        if (change.status === null && change.meta === null) return entryToWire(made?.entry ?? (await found(id)), true);
        return entryToWire(await catalog.update(id, change), true);
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/catalog/playbooks/{id…}',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Archive one version (by id) or all versions (by path)',
      params: v.object({ id: catalogPath }),
      answer: v.object({ status: v.literal('success'), path: v.string(), archived: v.array(idOut) }),
      codes: ['not_found'],
      handle: async ({ params }) => {
        const { path, archived } = await catalog.archive(params.id);
        return { status: 'success', path, archived };
      },
    }),
    route({
      method: 'POST',
      path: '/api/catalog/playbooks/validate',
      level: 'client',
      role: ['V'],
      tag,
      summary: 'Judge a text without storing it',
      body: validateBody,
      bodyLimit: 'general',
      answer: validateAnswer,
      example: { request: { content: EXAMPLE } },
      handle: async ({ body }) => {
        const { valid, diagnostics, path, kind } = await catalog.validate(
          bounded(body.content),
          body.resource_type ?? null,
        );
        const sentences = (severity: string) =>
          diagnostics.filter((each) => each.severity === severity).map(({ message }) => message);
        return {
          valid,
          errors: sentences('error'),
          warnings: sentences('warning'),
          path,
          kind,
          diagnostics: diagnostics.map(diagnosticToWire),
        };
      },
    }),
  ];
}

/** Documents have 1 MiB of text at most (api 1.9). */
function bounded(content: string): string {
  if (Buffer.byteLength(content) <= CONTENT_BYTES_MAX) return content;
  throw new DomainError('payload_too_large', 'The document is larger than 1048576 bytes');
}
