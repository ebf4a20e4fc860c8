/**
 * Playbooks as tools: which are exposed, under which names, and what they take (api 2.14.4). A version never changes, so
 * the schema of its inputs is worked out once and kept by catalog id.
 */
import { Recent } from '../../actors/recent.ts';
import type { CatalogEntry, CatalogService } from '../../actors/services.ts';
import { isMap, type JsonMap } from '../../machines/json.ts';
import { inputSchemaOf } from '../../machines/playbook/input-schema.ts';
import { runFormOf } from '../../machines/playbook/run-form.ts';
import { nameTools, toolNameOf } from '../../machines/playbook/tool-name.ts';
import { cursorAfter, readCursor } from './cursor.ts';
import { RPC, RpcError } from './message.ts';
import { callPlaybook, type PlaybookCallParts } from './playbook-call.ts';
import type { ServedTool, Toolbox } from './tool.ts';

export type Exposure = 'marked' | 'all' | 'off';

export interface PlaybookToolParts extends PlaybookCallParts {
  readonly catalog: Pick<CatalogService, 'list' | 'byId'>;
}

export interface PlaybookTools {
  /** Every exposed playbook; names in `taken` are not given. */
  box(exposure: Exposure, taken: ReadonlySet<string>): Toolbox;
  /** This one playbook, whatever is exposed elsewhere. */
  only(entry: CatalogEntry): Toolbox;
}

const PAGE = 500;
const NAMED_MAX = 5_000;
/** A text above this is not read again for the comments behind its inputs. */
const READ_CHARS_MAX = 65_536;
const DESCRIPTION_CHARS_MAX = 4_096;

export function createPlaybookTools(parts: PlaybookToolParts): PlaybookTools {
  const { catalog } = parts;
  const schemas = new Recent<number, JsonMap>({ countMax: 1_000, sizeMax: 4 * 1024 * 1024 });

  async function schemaOf(entry: CatalogEntry): Promise<JsonMap> {
    const kept = schemas.get(entry.catalogId);
    if (kept !== undefined) return kept;
    const content = entry.content === '' ? ((await catalog.byId(entry.catalogId))?.content ?? '') : entry.content;
    const schema = readSchema(entry, content);
    schemas.put(entry.catalogId, schema, JSON.stringify(schema).length);
    return schema;
  }

  async function serve(name: string, entry: CatalogEntry): Promise<ServedTool> {
    const { path, version, kind } = entry;
    const metadata = metadataOf(entry);
    const description = textOf(metadata['description'])?.slice(0, DESCRIPTION_CHARS_MAX).toWellFormed();
    return {
      name,
      descriptor: {
        name,
        title: textOf(metadata['title']) ?? entry.name,
        description: description ?? `Runs the playbook ${path}.`,
        inputSchema: await schemaOf(entry),
        _meta: { path, version },
      },
      call(args, caller) {
        if (caller.isOperator) return callPlaybook({ path, kind }, args, parts, caller);
        throw new RpcError(RPC.request, 'Running a playbook needs the role operator');
      },
    };
  }

  /** Names are given over all of them, so that one name means one playbook on every page. */
  async function named(exposure: 'marked' | 'all', taken: ReadonlySet<string>) {
    const entries = await catalog.list({
      kinds: ['playbook', 'agent'],
      versions: 'latest',
      includeArchived: false,
      includeContent: false,
      exposure,
      limit: NAMED_MAX,
      order: 'path',
    });
    return nameTools(entries, taken);
  }

  return {
    box: (exposure, taken) => ({
      async list(_caller, cursor) {
        const after = readCursor(cursor);
        const all = exposure === 'off' ? [] : [...(await named(exposure, taken))];
        const rest = all
          .filter(([, { path }]) => after === null || path > after)
          .sort(([, a], [, b]) => (a.path < b.path ? -1 : 1));
        const page = rest.slice(0, PAGE);
        const last = page.at(-1)?.[1];
        return {
          tools: await Promise.all(page.map(([name, entry]) => serve(name, entry))),
          nextCursor: last === undefined || rest.length === page.length ? null : cursorAfter(last.path),
        };
      },
      async find(name) {
        const entry = exposure === 'off' ? undefined : (await named(exposure, taken)).get(name);
        return entry === undefined ? null : serve(name, entry);
      },
    }),
    only: (entry) => {
      const own = toolNameOf(entry.path);
      return {
        list: async () => ({ tools: [await serve(own, entry)], nextCursor: null }),
        find: async (name) => (name === own || name === entry.path ? serve(own, entry) : null),
      };
    },
  };
}

/** True unless the document hides itself (language 2.2). */
export function isServedAlone(entry: CatalogEntry): boolean {
  const isActive = entry.status === 'active' && (entry.kind === 'playbook' || entry.kind === 'agent');
  return isActive && metadataOf(entry)['exposes_as_mcp'] !== false;
}

function readSchema(entry: CatalogEntry, content: string): JsonMap {
  if (content.length <= READ_CHARS_MAX) return inputSchemaOf(runFormOf(content).fields);
  const { workload = null } = entry.payload;
  const alone = JSON.stringify({ workload });
  return alone.length <= READ_CHARS_MAX ? inputSchemaOf(runFormOf(alone).fields) : { type: 'object' };
}

function metadataOf(entry: CatalogEntry): JsonMap {
  const { metadata } = entry.payload;
  return isMap(metadata) ? metadata : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined;
}
