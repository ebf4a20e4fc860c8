/** The *CatalogEntry* object (api 3.1) and the bodies of the catalog's doors (2.2). */
import * as v from 'valibot';
import type { CatalogEntry } from '../../actors/services.ts';
import type { Diagnostic } from '../../machines/playbook/document.ts';
import { flag, integer, json, list, map, maybe, text, word } from './fields.ts';
import { catalogPath, id, idOut } from './ids.ts';
import { version } from './start.ts';

/** Text of a document, or base64 of it; its size is checked by the route (413). */
const content = v.string('must be text');
const kindWord = text(64, 1);
const prefix = text(255);

export const registerBody = v.object({
  content,
  resource_type: maybe(text(64)),
  path: maybe(catalogPath),
  if_changed: maybe(flag),
});
export const validateBody = v.object({ content, resource_type: maybe(text(64)) });
export const contentBody = v.object({ content });

const capabilities = { capability: maybe(text(256, 1)), capabilities: maybe(list(text(256, 1), 64)) };

export const listBody = v.object({
  resource_type: maybe(kindWord),
  path: maybe(prefix),
  agent_only: maybe(flag),
  ...capabilities,
  versions: maybe(word('all', 'latest')),
  include_content: maybe(flag),
  include_archived: maybe(flag),
  limit: maybe(integer(1, 5000)),
});
export const agentsBody = v.object({ path: maybe(prefix), ...capabilities, visible_only: maybe(flag) });

export const resourceBody = v.pipe(
  v.object({ catalog_id: maybe(id), path: maybe(catalogPath), version: maybe(version) }),
  v.check((body) => body.catalog_id != null || body.path != null, 'needs catalog_id or path'),
);

export const changeBody = v.object({
  content: maybe(content),
  status: maybe(word('active', 'archived')),
  meta: maybe(map),
});

/** The capabilities a request names, in either field. */
export function capabilitiesOf(body: {
  readonly capability?: string | null | undefined;
  readonly capabilities?: readonly string[] | null | undefined;
}): readonly string[] {
  return [...(body.capability == null ? [] : [body.capability]), ...(body.capabilities ?? [])];
}

export const entry = v.object({
  catalog_id: idOut,
  id: v.string(),
  path: v.string(),
  version: v.number(),
  kind: v.string(),
  name: v.string(),
  description: v.nullable(v.string()),
  status: v.picklist(['active', 'archived']),
  content: v.optional(v.string()),
  payload: map,
  layout: json,
  meta: map,
  tasks_count: v.number(),
  created_by: v.nullable(v.string()),
  created_at: v.string(),
  updated_at: v.string(),
  archived_at: v.nullable(v.string()),
});
export type Entry = v.InferOutput<typeof entry>;

export function entryToWire(row: CatalogEntry, withContent: boolean): Entry {
  return {
    catalog_id: row.catalogId,
    id: row.path,
    path: row.path,
    version: row.version,
    kind: row.kind,
    name: row.name,
    description: row.description,
    status: row.status,
    ...(withContent ? { content: row.content } : {}),
    payload: row.payload,
    layout: row.layout,
    meta: row.meta,
    tasks_count: row.tasksCount,
    created_by: row.createdBy,
    created_at: row.createdAt,
    updated_at: row.updatedAt,
    archived_at: row.archivedAt,
  };
}

export const diagnostic = v.object({
  severity: v.picklist(['error', 'warning']),
  code: v.string(),
  message: v.string(),
  step: v.nullable(v.string()),
  task: v.nullable(v.string()),
  path: v.string(),
  line: v.number(),
  column: v.number(),
  end_line: v.number(),
  end_column: v.number(),
});
export type DiagnosticWire = v.InferOutput<typeof diagnostic>;

export function diagnosticToWire(found: Diagnostic): DiagnosticWire {
  return {
    severity: found.severity,
    code: found.code,
    message: found.message,
    step: found.step,
    task: found.task,
    path: found.path,
    line: found.line,
    column: found.column,
    end_line: found.endLine,
    end_column: found.endColumn,
  };
}

const registered = {
  status: v.literal('success'),
  message: v.string(),
  path: v.string(),
  version: v.number(),
  catalog_id: idOut,
  kind: v.string(),
  unchanged: v.boolean(),
  warnings: v.array(diagnostic),
};
export const registerAnswer = v.object(registered);
export const playbookAnswer = v.object({
  ...registered,
  id: v.string(),
  name: v.string(),
  description: v.nullable(v.string()),
  created_at: v.string(),
  updated_at: v.string(),
  tasks_count: v.number(),
});

export function registerToWire(made: {
  readonly entry: CatalogEntry;
  readonly unchanged: boolean;
  readonly warnings: readonly Diagnostic[];
}): v.InferOutput<typeof registerAnswer> {
  const { entry: row, unchanged } = made;
  return {
    status: 'success',
    message: unchanged
      ? `'${row.path}' version ${row.version} is unchanged`
      : `Registered '${row.path}' version ${row.version}`,
    path: row.path,
    version: row.version,
    catalog_id: row.catalogId,
    kind: row.kind,
    unchanged,
    warnings: made.warnings.map(diagnosticToWire),
  };
}

export const validateAnswer = v.object({
  valid: v.boolean(),
  errors: v.array(v.string()),
  warnings: v.array(v.string()),
  path: v.nullable(v.string()),
  kind: v.nullable(v.string()),
  diagnostics: v.array(diagnostic),
});
