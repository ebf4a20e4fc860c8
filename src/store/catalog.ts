/** Rows of `core.catalog`. The text of a version never changes; a trigger holds that, these statements never try. */
import type { CatalogDraft, CatalogFilter, CatalogStore, Located } from '../../actors/catalog-service.ts';
import type { CatalogEntry } from '../../actors/services.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { listingOf } from '../../machines/playbook/catalog-listing.ts';
import { insertAudit } from './audit.ts';
import { lookUp } from './load.ts';
import { onlyRow } from './only-row.ts';
import type { Pipeline } from './pipeline.ts';
import type { ReadPool, Sql } from './pool.ts';

interface EntryRow {
  readonly catalog_id: number;
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  readonly content: string;
  readonly payload: JsonMap;
  readonly layout: Json;
  readonly meta: JsonMap;
  readonly sha256: string;
  readonly created_by: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly archived_at: string | null;
}

interface LocatedRow {
  readonly catalog_id: number;
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  readonly access: Json;
}

const LOCATE_ID = `
  select catalog_id, path, version, kind, meta -> 'access' as access
  from core.catalog where archived_at is null and catalog_id = $1`;
const LOCATE_PATH = `
  select catalog_id, path, version, kind, meta -> 'access' as access
  from core.catalog
  where archived_at is null and path = $1 and ($2::bigint is null or version = $2::bigint) and kind = any ($3::text[])
  order by version desc
  limit 1`;

const HEAD = `
  entry.catalog_id, entry.path, entry.version, entry.kind, entry.payload, entry.layout, entry.meta,
  encode(entry.sha256, 'hex') as sha256, entry.created_by, entry.created_at, entry.updated_at, entry.archived_at`;
const WHOLE = `${HEAD}, entry.content`;
const WITHOUT_CONTENT = `${HEAD}, '' as content`;

/** Every start locates its playbook, so that goes with the engine's own look-ups and a burst does not stand in line for the pool. */
export function createCatalogStore(database: ReadPool, lookups: Pipeline): CatalogStore {
  return {
    add: (draft, ifChanged, audit) =>
      database.transaction(async (tx) => {
        await lockPath(tx, draft.path);
        const newest = await newestAny(tx, draft.path);
        if (ifChanged && newest !== null && (await isSame(tx, newest, draft)))
          return { entry: newest, unchanged: true };
        const entry = await insertVersion(tx, keepingAccess(draft, newest), (newest?.version ?? 0) + 1);
        const detail = { ...audit.detail, catalog_id: entry.catalogId, version: entry.version };
        await insertAudit(tx, { ...audit, detail });
        return { entry, unchanged: false };
      }),

    byId: (catalogId) => entryWhere(database, 'entry.catalog_id = $1', [catalogId]),
    version: (path, version) => entryWhere(database, 'entry.path = $1 and entry.version = $2::bigint', [path, version]),
    newest: (path) =>
      entryWhere(database, 'entry.path = $1 order by (entry.archived_at is null) desc, entry.version desc limit 1', [
        path,
      ]),
    meta: async (catalogId) => {
      const [row] = await database.rows<{ meta: JsonMap }>('select meta from core.catalog where catalog_id = $1', [
        catalogId,
      ]);
      return row?.meta ?? null;
    },
    ruled: () => ruledVersions(database),
    locateId: async (catalogId) => located(await lookUp(lookups, 'catalog_by_id', LOCATE_ID, [catalogId])),
    locatePath: async (path, version, kinds) =>
      located(await lookUp(lookups, 'catalog_by_path', LOCATE_PATH, [path, version, kinds])),
    list: (filter) => listEntries(database, filter),
    count: (filter) => countEntries(database, filter),
    versions: (path) => listVersions(database, path),

    archive: (target, audit) =>
      database.transaction(async (tx) => {
        const archived = await archiveVersions(tx, target);
        await insertAudit(tx, { ...audit, detail: { ...audit.detail, archived } });
        return archived;
      }),

    update: (catalogId, change, audit) =>
      database.transaction(async (tx) => {
        const entry = await changeEntry(tx, catalogId, change);
        if (entry !== null) await insertAudit(tx, audit);
        return entry;
      }),
  };
}

/** Rules about a playbook hold for its next version too, or storing one would lift them. */
function keepingAccess(draft: CatalogDraft, newest: CatalogEntry | null): CatalogDraft {
  const access = newest?.meta?.['access'];
  return access === undefined ? draft : { ...draft, meta: { access, ...draft.meta } };
}

async function lockPath(tx: Sql, path: string): Promise<void> {
  await tx.run(`select pg_advisory_xact_lock(hashtextextended('core.catalog:' || $1, 0))`, [path]);
}

function newestAny(tx: Sql, path: string): Promise<CatalogEntry | null> {
  return entryWhere(tx, 'entry.path = $1 order by entry.version desc limit 1', [path]);
}

/** An archived version is not the same: registering its text again means that it shall be there again. */
async function isSame(tx: Sql, newest: CatalogEntry, draft: CatalogDraft): Promise<boolean> {
  if (newest.status !== 'active' || newest.kind !== draft.kind) return false;
  const answer = await tx.rows<{ same: boolean }>(
    `select sha256 = sha256(convert_to($2, 'UTF8')) as same from core.catalog where catalog_id = $1`,
    [newest.catalogId, draft.content],
  );
  return onlyRow(answer).same;
}

async function insertVersion(tx: Sql, draft: CatalogDraft, version: number): Promise<CatalogEntry> {
  const answer = await tx.rows<EntryRow>(
    `insert into core.catalog as entry (catalog_id, path, version, kind, content, payload, meta, sha256, created_by)
     values ($1, $2, $3, $4, $5, $6::text::jsonb, $7::text::jsonb, sha256(convert_to($5, 'UTF8')), $8)
     returning ${WHOLE}`,
    [
      draft.catalogId,
      draft.path,
      version,
      draft.kind,
      draft.content,
      JSON.stringify(draft.payload),
      JSON.stringify(draft.meta),
      draft.createdBy,
    ],
  );
  return entryOf(onlyRow(answer));
}

async function entryWhere(database: Sql, where: string, values: unknown[]): Promise<CatalogEntry | null> {
  const answer = await database.rows<EntryRow>(`select ${WHOLE} from core.catalog as entry where ${where}`, values);
  const [row] = answer;
  return row === undefined ? null : entryOf(row);
}

function located(rows: readonly LocatedRow[]): Located | null {
  const [row] = rows;
  if (row === undefined) return null;
  return {
    catalogId: row.catalog_id,
    path: row.path,
    version: row.version,
    kind: row.kind,
    meta: row.access === null ? {} : { access: row.access },
  };
}

function ruledVersions(database: Sql): ReturnType<CatalogStore['ruled']> {
  return database.rows<{ catalogId: number; access: Json }>(
    `select catalog_id as "catalogId", meta -> 'access' as access from core.catalog where meta ? 'access'`,
    [],
  );
}

async function listEntries(database: Sql, filter: CatalogFilter): Promise<readonly CatalogEntry[]> {
  const order =
    filter.order === 'newest'
      ? 'entry.created_at desc, entry.catalog_id desc'
      : 'entry.path collate "C", entry.version desc';
  const answer = await database.rows<EntryRow>(
    `select ${filter.includeContent ? WHOLE : WITHOUT_CONTENT} ${MATCHING} order by ${order} limit $10`,
    [...matchingValues(filter), filter.limit],
  );
  return answer.map(entryOf);
}

/** Of all that match, wherever a page begins. */
function countEntries(database: Sql, filter: CatalogFilter): ReturnType<CatalogStore['count']> {
  const { afterPath: _page, ...all } = filter;
  return database.rows<{ access: Json; count: number }>(
    `select entry.meta -> 'access' as access, count(*)::int as count ${MATCHING} group by entry.meta -> 'access'`,
    matchingValues(all),
  );
}

const MATCHING = `
from core.catalog as entry
where ($1 or entry.archived_at is null)
  and ($2 or not exists (
    select from core.catalog as newer
    where newer.path = entry.path and newer.version > entry.version and ($1 or newer.archived_at is null)))
  and ($3::text[] is null or entry.kind = any ($3))
  and ($4::text is null or starts_with(entry.path, $4))
  and ($5::text is null or entry.path collate "C" > $5)
  and ($6::text is null
    or strpos(lower(entry.path), lower($6)) > 0
    or strpos(lower(entry.payload #>> '{metadata,name}'), lower($6)) > 0
    or strpos(lower(entry.payload #>> '{metadata,description}'), lower($6)) > 0)
  and ($7::text is null or entry.meta -> 'capabilities' @> $7::jsonb)
  and (not $8 or entry.kind = 'agent' or entry.meta -> 'agent' = 'true')
  and ($9::text is distinct from 'marked' or entry.payload #> '{metadata,exposes_as_mcp}' = 'true')
  and ($9::text is distinct from 'all' or entry.payload #> '{metadata,exposes_as_mcp}' is distinct from 'false')`;

function matchingValues(filter: CatalogFilter): unknown[] {
  return [
    filter.includeArchived,
    filter.versions === 'all',
    filter.kinds ?? null,
    filter.pathPrefix ?? null,
    filter.afterPath ?? null,
    filter.q ?? null,
    (filter.capabilities ?? []).length === 0 ? null : JSON.stringify(filter.capabilities),
    filter.agentOnly ?? false,
    filter.exposure ?? null,
  ];
}

async function listVersions(database: Sql, path: string): ReturnType<CatalogStore['versions']> {
  const answer = await database.rows<EntryRow & { readonly executions: number }>(
    `select ${WITHOUT_CONTENT},
       (select count(*) from core.execution where execution.catalog_id = entry.catalog_id) as executions
     from core.catalog as entry
     where entry.path = $1
     order by entry.version desc`,
    [path],
  );
  return answer.map((row) => ({ entry: entryOf(row), sha256: row.sha256, executions: row.executions }));
}

async function archiveVersions(tx: Sql, target: { catalogId: number } | { path: string }): Promise<readonly number[]> {
  const [where, value] = 'path' in target ? ['path = $1', target.path] : ['catalog_id = $1', target.catalogId];
  const answer = await tx.rows<{ catalog_id: number; version: number }>(
    `update core.catalog
     set archived_at = clock_timestamp(), updated_at = clock_timestamp()
     where ${where} and archived_at is null
     returning catalog_id, version`,
    [value],
  );
  return answer.sort((a, b) => a.version - b.version).map((row) => row.catalog_id);
}

async function changeEntry(
  tx: Sql,
  catalogId: number,
  change: Parameters<CatalogStore['update']>[1],
): Promise<CatalogEntry | null> {
  const answer = await tx.rows<EntryRow>(
    `update core.catalog as entry
     set archived_at = case $2::text
           when 'active' then null
           when 'archived' then coalesce(archived_at, clock_timestamp())
           else archived_at
         end,
         meta = meta || coalesce($3::text::jsonb, '{}'),
         updated_at = clock_timestamp()
     where catalog_id = $1
     returning ${WHOLE}`,
    [catalogId, change.status, change.meta === null ? null : JSON.stringify(change.meta)],
  );
  const [row] = answer;
  return row === undefined ? null : entryOf(row);
}

function entryOf(row: EntryRow): CatalogEntry {
  return {
    catalogId: row.catalog_id,
    path: row.path,
    version: row.version,
    kind: row.kind,
    ...listingOf(row.path, row.payload),
    status: row.archived_at === null ? 'active' : 'archived',
    content: row.content,
    payload: row.payload,
    layout: row.layout,
    meta: { registered_at: row.created_at, ...row.meta, sha256: row.sha256 },
    createdBy: row.created_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    archivedAt: row.archived_at,
  };
}
