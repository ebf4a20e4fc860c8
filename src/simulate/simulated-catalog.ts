/**
 * The catalog of a simulation: the document that is simulated, children whose results are scripted, and whatever else
 * a child call names, fetched from outside once. Nothing is ever stored.
 */
import { DomainError, type RefusalCode } from '../../actors/errors.ts';
import type { CatalogEntry, CatalogService } from '../../actors/services.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { readCatalogDocument } from '../../machines/playbook/catalog-document.ts';
import { toWire } from '../../machines/playbook/diagnostics.ts';
import type { Diagnostic, Playbook } from '../../machines/playbook/document.ts';
import type { DocumentAnswer, DocumentQuery, SimulatedDocument } from '../../machines/simulation.ts';
import { ERRORS } from '../errors.ts';

/** Where the playbooks of children come from. */
export type Library = (query: DocumentQuery) => Promise<DocumentAnswer>;

export interface SimulatedPlaybook {
  readonly entry: CatalogEntry;
  readonly playbook: Playbook;
  readonly warnings: readonly Diagnostic[];
}

/** Ids of what is stored nowhere; real ones begin above. */
const ROOT_ID = 1;
const SCRIPTED_FROM = 2;

/** Throws DomainError (playbook_invalid, kind_not_executable). */
export function readSimulated(document: SimulatedDocument): SimulatedPlaybook {
  const reading = readCatalogDocument(document.content, { path: document.path, resourceType: null });
  if (!reading.ok) {
    throw new DomainError('playbook_invalid', 'Playbook validation failed', { errors: reading.errors.map(toWire) });
  }
  const { playbook, kind, path, payload, warnings } = reading.document;
  if (playbook === null) throw new DomainError('kind_not_executable', `Catalog kind '${kind}' is not executable`);
  const catalogId = document.catalogId ?? ROOT_ID;
  return { playbook, warnings, entry: entryOf(catalogId, { ...playbook, path }, document, payload) };
}

export class SimulatedCatalog {
  readonly root: SimulatedPlaybook;
  readonly #library: Library;
  readonly #known = new Map<number, SimulatedPlaybook>();
  /** Results of scripted children by catalog id. */
  readonly #scripted = new Map<number, Json>();
  readonly #scriptedIds = new Map<string, number>();
  readonly #byQuery = new Map<string, SimulatedPlaybook>();

  constructor(root: SimulatedPlaybook, children: JsonMap, library: Library) {
    this.root = root;
    this.#library = library;
    this.#known.set(root.entry.catalogId, root);
    Object.entries(children).forEach(([path, result], index) => {
      const catalogId = -(SCRIPTED_FROM + index);
      this.#scripted.set(catalogId, result);
      this.#scriptedIds.set(path, catalogId);
      this.#known.set(catalogId, scriptedChild(catalogId, path));
    });
  }

  /** The result of the only step of a scripted child. */
  scriptedResult(catalogId: number): { readonly result: Json } | null {
    const result = this.#scripted.get(catalogId);
    return result === undefined ? null : { result };
  }

  /** As the engine sees it: it starts executions and finds their playbooks. `outside` is how the library is waited for. */
  service(outside: <T>(question: Promise<T>) => Promise<T>): CatalogService {
    const refuse = (): never => {
      throw new Error('a simulation only starts executions');
    };
    const known = (catalogId: number): SimulatedPlaybook => {
      const found = this.#known.get(catalogId);
      if (found === undefined) throw new DomainError('not_found', `Catalog entry not found: ${catalogId}`);
      return found;
    };
    return {
      register: refuse,
      get: refuse,
      list: refuse,
      count: refuse,
      versions: refuse,
      archive: refuse,
      update: refuse,
      find: refuse,
      read: refuse,
      validate: refuse,
      permit: refuse,
      accessRules: refuse,
      ruled: refuse,
      byId: async (catalogId) => known(catalogId).entry,
      playbook: async (catalogId) => known(catalogId),
      executable: (query) => this.#executable(query, outside),
    };
  }

  /** What is asked of the library is only this, whatever else the start of an execution says. */
  async #executable(
    { path, catalogId, version, resourceKind }: DocumentQuery,
    outside: <T>(question: Promise<T>) => Promise<T>,
  ): Promise<SimulatedPlaybook> {
    if (catalogId !== undefined) {
      const known = this.#known.get(catalogId);
      if (known !== undefined) return known;
    } else if (path !== undefined) {
      const scripted = this.#known.get(this.#scriptedIds.get(path) ?? 0);
      if (scripted !== undefined) return scripted;
      if (path === this.root.entry.path && isVersionOf(this.root, version)) return this.root;
    }
    const query: DocumentQuery = {
      ...(path === undefined ? {} : { path }),
      ...(catalogId === undefined ? {} : { catalogId }),
      ...(version === undefined ? {} : { version }),
      ...(resourceKind === undefined ? {} : { resourceKind }),
    };
    const key = JSON.stringify(query);
    const known = this.#byQuery.get(key);
    if (known !== undefined) return known;
    const answer = await outside(this.#library(query));
    if ('refused' in answer) throw new DomainError(codeOf(answer.refused.code), answer.refused.message);
    const found = readSimulated(answer.found);
    this.#known.set(found.entry.catalogId, found);
    this.#byQuery.set(key, found);
    return found;
  }
}

function isVersionOf(root: SimulatedPlaybook, version: number | 'latest' | undefined): boolean {
  return version === undefined || version === 'latest' || version === root.entry.version;
}

function codeOf(code: string): RefusalCode {
  // The table has a row for every code of a refusal, and an answer carries one of them.
  return Object.hasOwn(ERRORS, code) ? (code as RefusalCode) : 'not_found';
}

/** One step, whose try the script answers. */
function scriptedChild(catalogId: number, path: string): SimulatedPlaybook {
  const content = JSON.stringify({
    apiVersion: 'callboard/v2',
    kind: 'Playbook',
    metadata: { name: 'scripted', path },
    workflow: [{ step: 'scripted', tool: { kind: 'noop' } }],
  });
  return readSimulated({ content, path, version: 1, catalogId });
}

function entryOf(
  catalogId: number,
  { path, kind, name, steps }: Playbook,
  { content, version }: SimulatedDocument,
  payload: JsonMap,
): CatalogEntry {
  return {
    catalogId,
    path,
    version,
    kind,
    name,
    description: null,
    status: 'active',
    content,
    payload,
    layout: null,
    meta: {},
    tasksCount: steps.length,
    createdBy: null,
    createdAt: '',
    updatedAt: '',
    archivedAt: null,
  };
}
