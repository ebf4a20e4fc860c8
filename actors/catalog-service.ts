/**
 * The catalog: documents by path and version, immutable once stored. Versions are counted under a lock on the path, so
 * two registrations at once become two versions, never one. Playbooks are parsed once per catalog id and kept; because a
 * version never changes, nothing has to be forgotten for correctness, only for room.
 */

import {
  accessRefusal,
  accessRuleProblems,
  accessRulesOf,
  mayAccess,
  type Permission,
  TOKEN_ROLES,
} from '../machines/access.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import type { CatalogDocument, CatalogReading, ReadingOptions } from '../machines/playbook/catalog-document.ts';
import { isExecutable, readStoredKind, type StoredKind } from '../machines/playbook/catalog-kind.ts';
import { metaOf } from '../machines/playbook/catalog-listing.ts';
import { readCatalogPath } from '../machines/playbook/catalog-path.ts';
import { toWire } from '../machines/playbook/diagnostics.ts';
import type { Diagnostic, Playbook } from '../machines/playbook/document.ts';
import { type AuditRow, type CurrentCaller, OPEN_CALLER } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Ids } from './ports.ts';
import { Recent } from './recent.ts';
import type { CatalogEntry, CatalogService } from './services.ts';

export type CatalogFilter = Parameters<CatalogService['list']>[0];

/** Where an entry is, without its text. Archived versions are never located. */
export interface Located {
  readonly catalogId: number;
  readonly path: string;
  readonly version: number;
  readonly kind: string;
  /** May change after the version was stored, unlike everything else. */
  readonly meta: JsonMap;
}

export interface CatalogDraft {
  readonly catalogId: number;
  readonly path: string;
  readonly kind: string;
  readonly content: string;
  readonly payload: JsonMap;
  readonly meta: JsonMap;
  readonly createdBy: string | null;
}

/** The rows behind the service. `Versions` of a path count up under a lock held to the end of the transaction. */
export interface CatalogStore {
  /** Stores the next version, or returns the newest one when `ifChanged` and it is active with the same text and kind. */
  add(draft: CatalogDraft, ifChanged: boolean, audit: AuditRow): Promise<{ entry: CatalogEntry; unchanged: boolean }>;
  byId(catalogId: number): Promise<CatalogEntry | null>;
  version(path: string, version: number): Promise<CatalogEntry | null>;
  /** The newest active version, else the newest archived one. */
  newest(path: string): Promise<CatalogEntry | null>;
  /** The `meta` of a version, archived or not; null when there is none. */
  meta(catalogId: number): Promise<JsonMap | null>;
  /** Every version that has a `meta.access`, archived or not. */
  ruled(): Promise<readonly { readonly catalogId: number; readonly access: Json }[]>;
  locateId(catalogId: number): Promise<Located | null>;
  /** Newest of these kinds when no version is given. */
  locatePath(path: string, version: number | null, kinds: readonly string[]): Promise<Located | null>;
  list(filter: CatalogFilter): Promise<readonly CatalogEntry[]>;
  /** How many match, whatever the page, by the rules they have (`meta.access`, null for none). */
  count(filter: CatalogFilter): Promise<readonly { readonly access: Json; readonly count: number }[]>;
  versions(path: string): Promise<readonly { entry: CatalogEntry; sha256: string; executions: number }[]>;
  /** Archives what is active among them; returns their ids, oldest version first. */
  archive(target: { catalogId: number } | { path: string }, audit: AuditRow): Promise<readonly number[]>;
  update(
    catalogId: number,
    change: { status: 'active' | 'archived' | null; meta: JsonMap | null },
    audit: AuditRow,
  ): Promise<CatalogEntry | null>;
}

export interface CatalogPorts {
  readonly store: CatalogStore;
  /** Reads a document, off the event loop where it is large. */
  readonly read: (text: string, options: ReadingOptions) => Promise<CatalogReading>;
  readonly ids: Ids;
  readonly caller: CurrentCaller;
  /** After the commit of a change that rules about a playbook are part of (api 8.8.5). */
  readonly onRulesChanged: () => void;
  /** Parsed playbooks kept: how many, and how many characters of text they may have together. */
  readonly cache?: { readonly countMax: number; readonly sizeMax: number };
}

interface Loaded {
  readonly entry: CatalogEntry;
  readonly playbook: Playbook;
}

export function createCatalogService(ports: CatalogPorts): CatalogService {
  const { store, read, ids, caller } = ports;
  const parsed = new Recent<number, Promise<Loaded>>(ports.cache ?? { countMax: 512, sizeMax: 16 * 1024 * 1024 });

  async function auditOf(action: string, target: string, detail: JsonMap): Promise<AuditRow> {
    await ids.reserve(1);
    return { ...caller(), auditId: ids.next(), action, target, outcome: 'ok', detail };
  }

  /** By the rules of the entry (api 8.8.5). Outside a request and in open mode the caller is an admin. */
  function allows(entry: Pick<CatalogEntry, 'meta'>, permission: Permission): boolean {
    const { actor: subject, role: name } = caller();
    const role = TOKEN_ROLES.find((each) => each === name);
    return role !== undefined && mayAccess(accessRulesOf(entry.meta), { role, subject }, permission);
  }

  /** Throws forbidden. */
  function permitted<E extends Pick<CatalogEntry, 'meta'>>(entry: E, permission: Permission): E {
    if (allows(entry, permission)) return entry;
    const role = TOKEN_ROLES.find((each) => each === caller().role) ?? 'viewer';
    throw new DomainError('forbidden', accessRefusal(role, permission));
  }

  function viewed(entry: CatalogEntry | null): CatalogEntry | null {
    return entry === null ? null : permitted(entry, 'view');
  }

  /** Pages by path go on behind what the caller may not see; other orders have one page only. */
  async function visible(filter: CatalogFilter): Promise<readonly CatalogEntry[]> {
    const seen: CatalogEntry[] = [];
    for (let afterPath = filter.afterPath; ; ) {
      const rows = await store.list(afterPath === undefined ? filter : { ...filter, afterPath });
      seen.push(...rows.filter((row) => allows(row, 'view')));
      const last = rows.at(-1);
      const isWhole = seen.length >= filter.limit || rows.length < filter.limit || last === undefined;
      if (isWhole || filter.order === 'newest' || filter.versions === 'all') return seen.slice(0, filter.limit);
      afterPath = last.path;
    }
  }

  async function find(id: string): Promise<CatalogEntry | null> {
    const byId = isId(id) ? await store.byId(Number(id)) : null;
    if (byId !== null) return byId;
    const path = readCatalogPath(id);
    return path === null ? null : store.newest(path);
  }

  async function load(catalogId: number): Promise<Loaded> {
    const entry = await store.byId(catalogId);
    if (entry === null) throw new DomainError('not_found', 'Catalog entry not found');
    // Only what was stored is repeated: the path and the kind are settled, whatever the text says.
    const reading = await read(entry.content, { path: entry.path, resourceType: entry.kind });
    if (!reading.ok) throw invalid(reading.errors);
    const { playbook } = reading.document;
    if (playbook === null) throw notExecutable(entry.kind);
    return { entry, playbook };
  }

  /** Concurrent callers share one load; a failed one is not kept. */
  function loaded(catalogId: number): Promise<Loaded> {
    const kept = parsed.get(catalogId);
    if (kept !== undefined) return kept;
    const loading = load(catalogId);
    parsed.put(catalogId, loading, 0);
    loading.then(
      ({ entry }) => parsed.put(catalogId, loading, entry.content.length),
      () => parsed.delete(catalogId),
    );
    return loading;
  }

  async function locate(request: Parameters<CatalogService['executable']>[0]): Promise<Located> {
    const wanted = readResourceKind(request.resourceKind ?? 'playbook');
    if (wanted === null || !isExecutable(wanted)) throw notExecutable(wanted ?? `${request.resourceKind}`);
    const version = request.version === undefined || request.version === 'latest' ? null : request.version;
    const found =
      request.catalogId === undefined
        ? await locateByPath(request.path, version, wanted)
        : await locateById(request.catalogId, request.path, version);
    const described = request.catalogId === undefined ? `${request.path}` : `catalog_id=${request.catalogId}`;
    if (found?.kind === 'agent' && wanted === 'playbook') {
      throw new DomainError('resource_kind_required', `resource_kind 'agent' is required to execute '${found.path}'`);
    }
    if (found === null || found.kind !== wanted) {
      throw new DomainError('not_found', `Executable catalog entry not found: ${described}`);
    }
    return found;
  }

  async function locateByPath(
    given: string | undefined,
    version: number | null,
    wanted: 'playbook' | 'agent',
  ): Promise<Located | null> {
    if (given === undefined) throw new DomainError('validation_error', 'path or catalog_id is required');
    const path = readCatalogPath(given);
    // A newer agent must not silently fall back to an older playbook, so a playbook is looked for among both.
    return path === null
      ? null
      : store.locatePath(path, version, wanted === 'agent' ? ['agent'] : ['playbook', 'agent']);
  }

  async function locateById(
    catalogId: number,
    given: string | undefined,
    version: number | null,
  ): Promise<Located | null> {
    const found = await store.locateId(catalogId);
    if (found === null) return null;
    const agrees =
      (given === undefined || readCatalogPath(given) === found.path) && (version ?? found.version) === found.version;
    if (agrees) return found;
    throw new DomainError('validation_error', 'path, version and catalog_id do not name the same catalog entry');
  }

  return {
    async register({ content, resourceType, path, ifChanged }) {
      const given = path === null ? null : readCatalogPath(path);
      if (path !== null && given === null) throw new DomainError('validation_error', 'path is not a catalog path');
      const reading = await read(content, { path: given, resourceType });
      if (!reading.ok) throw invalid(reading.errors);
      await ids.reserve(2);
      const { actor } = caller();
      const draft = draftOf(ids.next(), reading.document, actor === OPEN_CALLER.actor ? null : actor);
      const newest = await store.newest(draft.path);
      if (newest !== null) permitted(newest, 'modify');
      const audit = await auditOf('catalog.register', draft.path, { kind: draft.kind });
      const added = await store.add(draft, ifChanged, audit);
      if (!added.unchanged && hasRules(added.entry)) ports.onRulesChanged();
      return { ...added, warnings: reading.document.warnings };
    },

    async get(given, version) {
      const path = readCatalogPath(given);
      if (path === null) return null;
      return viewed(await (version === 'latest' ? store.newest(path) : store.version(path, version)));
    },

    byId: async (catalogId) => viewed(await store.byId(catalogId)),
    find: async (id) => viewed(await find(id)),
    list: visible,

    async count(filter) {
      const groups = await store.count(filter);
      const seen = groups.filter(({ access }) => allows({ meta: access === null ? {} : { access } }, 'view'));
      return seen.reduce((sum, { count }) => sum + count, 0);
    },

    async versions(given) {
      const path = readCatalogPath(given);
      const found = path === null ? [] : await store.versions(path);
      const [newest] = found;
      if (newest === undefined) throw new DomainError('not_found', `Playbook '${given}' not found`);
      permitted(newest.entry, 'view');
      return found;
    },

    async archive(id) {
      const entry = await find(id);
      if (entry === null) throw new DomainError('not_found', 'Catalog entry not found');
      permitted(entry, 'modify');
      const one = isId(id) && Number(id) === entry.catalogId;
      const audit = await auditOf('catalog.archive', entry.path, one ? { catalog_id: entry.catalogId } : {});
      const archived = await store.archive(one ? { catalogId: entry.catalogId } : { path: entry.path }, audit);
      // Without it another version is the newest, and that one's rules count for the path.
      ports.onRulesChanged();
      return { path: entry.path, archived };
    },

    async update(id, change) {
      const problems = accessRuleProblems(change.meta?.['access']);
      if (problems.length > 0) throw new DomainError('validation_error', problems.join('; '), { errors: problems });
      const entry = await find(id);
      if (entry !== null) permitted(entry, 'modify');
      const action = change.status === 'archived' ? 'catalog.archive' : 'catalog.register';
      const audit = await auditOf(action, entry?.path ?? id, {
        catalog_id: entry?.catalogId ?? null,
        status: change.status,
      });
      const updated = entry === null ? null : await store.update(entry.catalogId, change, audit);
      if (updated === null) throw new DomainError('not_found', 'Catalog entry not found');
      ports.onRulesChanged();
      return updated;
    },

    read: (content, resourceType) => read(content, { path: null, resourceType }),

    async validate(content, resourceType) {
      const reading = await read(content, { path: null, resourceType });
      if (!reading.ok) {
        const { errors, warnings, path, kind } = reading;
        return { valid: false, diagnostics: [...errors, ...warnings], path, kind };
      }
      const { path, kind, warnings } = reading.document;
      return { valid: true, diagnostics: warnings, path, kind };
    },

    async executable(request) {
      const { catalogId, meta } = await locate(request);
      permitted({ meta }, request.purpose ?? 'execute');
      return loaded(catalogId);
    },

    async permit(catalogId, permission) {
      permitted({ meta: (await store.meta(catalogId)) ?? {} }, permission);
    },

    async accessRules(given) {
      if (typeof given === 'number') return accessRulesOf((await store.meta(given)) ?? undefined);
      const path = readCatalogPath(given);
      return accessRulesOf((path === null ? null : await store.newest(path))?.meta);
    },

    async ruled() {
      const rows = await store.ruled();
      return rows.map(({ catalogId, access }) => ({ catalogId, rules: accessRulesOf({ access }) }));
    },

    playbook: (catalogId) => loaded(catalogId),
  };
}

function draftOf(catalogId: number, document: CatalogDocument, createdBy: string | null): CatalogDraft {
  const { path, kind, content, payload } = document;
  return { catalogId, path, kind, content, payload, meta: metaOf(payload), createdBy };
}

function hasRules({ meta }: CatalogEntry): boolean {
  return meta['access'] !== undefined;
}

/** What `resource_kind` means, in any spelling of api 1.6. */
export function readResourceKind(word: string): StoredKind | null {
  return word.trim().toLowerCase() === 'notebook' ? 'playbook' : readStoredKind(word);
}

function isId(text: string): boolean {
  return /^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(Number(text));
}

function invalid(errors: readonly Diagnostic[]): DomainError {
  return new DomainError('playbook_invalid', 'Playbook validation failed', { errors: errors.map(toWire) });
}

function notExecutable(kind: string): DomainError {
  return new DomainError('kind_not_executable', `Catalog kind '${kind.slice(0, 100)}' is not executable`);
}
