/**
 * What each kind of tool accepts (language 11): fields with their types and aliases, and which are required. The same
 * table says which fields always yield text (language 8.5), so that checking and rendering cannot disagree.
 */
import { known } from '../known.ts';

/** `number` takes numeric text, `scalar` any text, number or boolean. */
export type FieldType =
  | 'any'
  | 'string'
  | 'scalar'
  | 'number'
  | 'boolean'
  | 'map'
  | 'string or map'
  | 'string or list'
  | 'list or map';

export interface FieldSpec {
  readonly type: FieldType;
  /** Every string at or below the field is text: it renders to a string, never to a native value. */
  readonly text: boolean;
  readonly aliases: readonly string[];
}

export interface ToolSpec {
  readonly fields: Readonly<Record<string, FieldSpec>>;
  /** Of each group one is needed; the first names the group in messages. */
  readonly required: readonly (readonly string[])[];
  /** Source that another interpreter reads: values should travel in `input` instead of being rendered into it. */
  readonly code: readonly string[];
}

const text = (...aliases: string[]): FieldSpec => ({ type: 'string', text: true, aliases });
const textual = (type: FieldType, ...aliases: string[]): FieldSpec => ({ type, text: true, aliases });
const value = (type: FieldType, ...aliases: string[]): FieldSpec => ({ type, text: false, aliases });

const COMMON = { auth: textual('string or map', 'credential') } satisfies Record<string, FieldSpec>;

const SCRIPT = textual('map');
const INTERPRETED = {
  code: text(),
  code_b64: text('code_base64'),
  script: SCRIPT,
  libs: value('map'),
  env: textual('map'),
  cwd: text(),
} satisfies Record<string, FieldSpec>;

function tool(
  fields: Record<string, FieldSpec>,
  required: readonly (readonly string[])[] = [],
  code: readonly string[] = [],
): ToolSpec {
  return { fields: { ...COMMON, ...fields }, required, code };
}

const TOOLS: Readonly<Record<string, ToolSpec>> = {
  http: tool(
    {
      url: text('endpoint'),
      method: text(),
      headers: textual('map'),
      params: value('map'),
      json: value('any'),
      body: value('any'),
      payload: value('any'),
      form: value('map'),
      data: value('any'),
      follow_redirects: value('boolean'),
      verify_ssl: value('boolean', 'verify'),
      response_type: text(),
    },
    [['url']],
  ),
  postgres: tool(
    {
      command: text('query', 'sql'),
      params: value('list or map', 'parameters'),
      host: textual('scalar'),
      port: value('number'),
      user: textual('scalar'),
      password: textual('scalar'),
      database: textual('scalar'),
      connection_string: text(),
      schema: textual('scalar'),
      as_objects: value('boolean'),
      script: SCRIPT,
    },
    [
      ['command', 'script'],
      ['auth', 'connection_string', 'host', 'database', 'user'],
    ],
  ),
  python: tool({ ...INTERPRETED, python: text(), deps: value('any') }, [['code', 'code_b64', 'script']], ['code']),
  javascript: tool({ ...INTERPRETED }, [['code', 'code_b64', 'script']], ['code']),
  shell: tool(
    {
      command: text('cmd'),
      cmds: textual('string or list'),
      shell: text(),
      cwd: text(),
      env: textual('map'),
    },
    [['command', 'cmds']],
    ['command', 'cmds'],
  ),
  noop: tool({ result: value('any'), message: textual('any') }),
  playbook: tool(
    {
      path: text(),
      catalog_id: value('scalar'),
      version: value('scalar'),
      args: value('map'),
      resource_kind: text(),
      return_step: text('result_step'),
      wait: value('boolean'),
      return_result: value('boolean'),
      poll_interval: value('number'),
    },
    [['path', 'catalog_id']],
  ),
  mcp: tool({
    endpoint: text('url', 'server_url', 'base_url'),
    server: text(),
    method: text('action'),
    tool: text('tool_name'),
    arguments: value('string or map', 'args'),
    params: value('any'),
    headers: textual('map'),
    protocol_version: textual('scalar'),
    client_name: text(),
    client_version: textual('scalar'),
    capabilities: value('map'),
    request_id: value('scalar'),
  }),
  nats: tool(
    {
      operation: text(),
      url: text(),
      bucket: text(),
      key: textual('scalar'),
      value: value('any'),
      ttl: value('scalar'),
      pattern: text(),
      name: text(),
      data: value('any'),
      encoding: text(),
      description: text(),
      stream: text(),
      subject: text(),
      headers: textual('map'),
      seq: value('number'),
      last: value('any'),
      consumer: text(),
      batch: value('number'),
      ack: value('any'),
      timeout_ms: value('number'),
    },
    [['operation']],
  ),
  duckdb: tool(
    {
      command: text('query'),
      commands: textual('string or list'),
      database: text('db_path'),
      params: value('list or map'),
      as_objects: value('boolean'),
    },
    [['command', 'commands']],
  ),
  artifact: tool({ action: text() }),
  transfer: tool(
    {
      source: textual('map'),
      target: textual('map'),
      mode: text(),
      key: textual('string or list'),
      chunk_size: value('number'),
    },
    [['source'], ['source.type'], ['target'], ['target.type']],
  ),
  secrets: tool({ provider: text(), name: text(), version: textual('scalar') }, [['provider'], ['name']]),
};

/** The claim of a cursor loop is rendered like a tool, though no task has this kind (language 9.6). */
const CURSOR = tool({ claim: text(), options: value('map') });

const KIND_ALIASES: ReadonlyMap<string, string> = new Map([['result_fetch', 'artifact']]);

/** Reserved for later (language 11.15): known, not run by this build. */
const LATER_KINDS: ReadonlySet<string> = new Set([
  'container',
  'script',
  'snowflake',
  'snowflake_transfer',
  'gcs',
  'ducklake',
  'subscription',
]);

/** Kinds a document may use, with `workbook` and the aliases, in the order messages list them. */
export const KNOWN_KINDS: readonly string[] = [...Object.keys(TOOLS), 'workbook', ...KIND_ALIASES.keys()];

export type KindVerdict =
  | { readonly is: 'tool'; readonly kind: string; readonly spec: ToolSpec }
  | { readonly is: 'workbook' }
  | { readonly is: 'later' }
  | { readonly is: 'unknown' };

/** What a `kind` in a document stands for; aliases give the canonical kind. */
export function judgeKind(kind: string): KindVerdict {
  if (kind === 'workbook') return { is: 'workbook' };
  const canonical = KIND_ALIASES.get(kind) ?? kind;
  const spec = toolSpecOf(canonical);
  if (spec) return { is: 'tool', kind: canonical, spec };
  return LATER_KINDS.has(kind) ? { is: 'later' } : { is: 'unknown' };
}

/** The row of a canonical kind, or null. */
export function toolSpecOf(kind: string): ToolSpec | null {
  return Object.hasOwn(TOOLS, kind) ? known(TOOLS[kind]) : null;
}

/** The canonical name of a field of a kind, or null for a key the kind does not have. */
export function canonicalField(spec: ToolSpec, key: string): string | null {
  if (Object.hasOwn(spec.fields, key)) return key;
  for (const [name, field] of Object.entries(spec.fields)) if (field.aliases.includes(key)) return name;
  return null;
}

/**
 * True where rendering must yield a string (language 8.5). `path` starts with a canonical field name, as in
 * `['headers', 'Accept']`; kind `cursor` answers for the claim of a cursor loop.
 */
export function isTextField(kind: string, path: readonly string[]): boolean {
  const spec = kind === 'cursor' ? CURSOR : toolSpecOf(kind);
  const [name] = path;
  if (spec === null || name === undefined || !Object.hasOwn(spec.fields, name)) return false;
  return spec.fields[name]?.text === true;
}

/** True for a field that holds a map, whatever of it is text: written as one template it is the map of that template. */
export function isMapField(kind: string, name: string): boolean {
  return toolSpecOf(kind)?.fields[name]?.type === 'map';
}
