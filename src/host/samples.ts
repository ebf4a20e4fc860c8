/**
 * Examples for the OpenAPI document (api 1.16), made from the schemas for every operation whose row brings none: the names of
 * fields are few and mean the same everywhere, so a table of them gives values a reader knows from the documentation.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';

const AT = '2026-11-20T10:15:02.113Z';
const LATER = '2026-11-20T11:15:02.113Z';
const DIGEST = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';

/** By the name of a field; the first value that fits its schema is taken. */
const KNOWN: Readonly<Record<string, readonly Json[]>> = {
  execution_id: [41007],
  root_execution_id: [41007],
  parent_execution_id: [null],
  ai_execution_id: [41301],
  last_execution_id: [41007],
  rerun_of: [null],
  catalog_id: [2003],
  command_id: [41012],
  runtime_id: [901],
  schedule_id: [801],
  audit_id: [41310],
  event_id: [9],
  last_event_id: [17],
  parent_event_id: [3],
  cause_id: [9],
  event_ids: [[9, 10, 11]],
  request_id: ['41100'],
  idempotency_key: ['w7:41007:a1'],
  id: ['17', 'start'],
  path: ['demo/greet'],
  playbook_path: ['demo/greet'],
  suite_id: ['demo/greet'],
  version: [3, '1.0.0'],
  kind: ['playbook', 'string'],
  name: ['greet'],
  keychain_name: ['billing'],
  cache_key: ['billing:2003:global'],
  credential_type: ['oauth2_client_credentials'],
  scope_type: ['global'],
  scope: ['execution'],
  step: ['fetch'],
  current_step: ['fetch'],
  node_id: ['fetch'],
  node_name: ['fetch'],
  source_step: ['fetch'],
  entry: ['start'],
  from: ['start'],
  to: ['end'],
  action: ['http'],
  tool_kind: ['http'],
  node_type: ['http'],
  pool: ['shared'],
  pools: [['shared']],
  status: ['completed'],
  state: ['completed'],
  event_type: ['call.done'],
  last_event_type: ['playbook.completed'],
  worker_id: ['worker-7'],
  worker_status: ['ready'],
  holder: ['srv-a'],
  token: [17, 'cb_viewer_…'],
  session_token: ['…'],
  instance: ['01JD3M0ZK7'],
  hostname: ['host-1'],
  attempt: [1],
  max_attempts: [5],
  progress: [100],
  page: [1],
  page_size: [100],
  total_events: [17],
  next_after: [null],
  error: [null],
  error_code: [null],
  error_detail: [null],
  end_time: [AT],
  archived_at: [null],
  expires_at: [LATER],
  duration_seconds: [1.093],
  duration_human: ['1.1s'],
  duration_ms: [84.2],
  uptime_seconds: [83.2],
  created_by: [null],
  sha256: [DIGEST],
  ref: ['callboard://execution/41007/result/export/41230'],
  store: ['db'],
  bytes: [501_234],
  workload: [{ who: 'world' }],
  result: [{ status: 'ok', message: 'hello world' }],
  labels: [{ team: 'shop' }],
  tags: [['shop']],
  token_data: [{ access_token: '…' }],
  data: [null, { user: 'app' }],
  content: ['apiVersion: callboard/v2\nkind: Playbook\n…'],
  cron: ['0 3 * * *'],
  timezone: ['UTC'],
  interval_seconds: [null],
  mermaid: ['flowchart TD…'],
  scxml: ['<scxml…>'],
  line: [6],
  column: [5],
  ip: ['127.0.0.1'],
  actor: ['ann'],
  role: ['operator'],
  roles: [['operator']],
  jsonrpc: ['2.0'],
  keys: [[{ kid: 'k1', rows: 120 }]],
  kid: ['k1'],
  active: ['k1', true],
  lease: [null],
  outcome: ['ok'],
  because: ['no_ready_worker'],
  command_status: ['PENDING'],
  permission_type: ['execute'],
  user_id: ['ann'],
  subject: ['ann'],
  email: ['ann@example.com'],
  display_name: ['Ann'],
  overlap: ['allow'],
  catch_up: ['none'],
  resource_kind: ['playbook'],
  at: [null],
  last_status: ['started'],
  ai_execution_status: ['completed'],
  completed_steps: [['start', 'fetch']],
  failed_steps: [[]],
  missing: [[]],
  errors: [[]],
  warnings: [[]],
  diagnostics: [[]],
  applied: [[]],
  stop: [[]],
  archived: [[2003, 2011]],
  cancelled_executions: [['41007', '41031']],
  execution_ids: [[41007, 41012]],
  var_names: [['page']],
  columns: [['one', 'letter']],
  context_keys: [['workload', 'ctx', 'steps']],
  states: [['execution.completed']],
  next_events: [[]],
  machine: ['execution'],
  description: [null],
  meta: [null, {}],
  schema: [null],
  valid: [true],
  allowed: [true],
  deleted: [true],
  revoked: [true, 1],
  enabled: [true],
  acquired: [true],
  ok: [true],
  changed: [true],
  keyframe: [true],
  completed: [true],
  ttl_seconds: [3571.22, 3600],
  access_count: [4],
  pool_max: [12],
  pool_min: [2],
};

/** What a name means in one part of the API only. */
const IN_PART: Readonly<Record<string, Readonly<Record<string, readonly Json[]>>>> = {
  Credentials: { name: ['pg_auth'], type: ['postgres'] },
  Keychain: { event_type: ['entry.stored'] },
  Commands: { status: ['CLAIMED'] },
  Workers: { name: ['worker-7'], kind: ['worker_pool'], status: ['ready'] },
  Machines: { name: ['execution'], type: ['command.completed'], value: ['completed'] },
  Schedules: { name: ['nightly'], version: ['latest'] },
  Admin: { name: ['command_reaper'], action: ['credential.reveal'], request_id: ['r-01JD3M0ZK7'], sample: [[]] },
  Results: { name: ['export'] },
  'Context and variables': { name: ['page'], value: [3], type: ['user_defined'] },
};

/** Fields that an answer may leave out and that an example is better with. */
const SHOWN = new Set(['content', 'context', 'meta', 'data']);

const DEPTH_MAX = 8;

/** A value that fits the schema: what has to be there, and little more. `part` is the tag of the operation. */
export function sampleOf(schema: JsonMap, part: string, side: 'request' | 'answer'): Json {
  return sample(schema, '', { known: { ...KNOWN, ...IN_PART[part] }, shown: side === 'answer' ? SHOWN : new Set() }, 0);
}

interface Taste {
  readonly known: Readonly<Record<string, readonly Json[]>>;
  readonly shown: ReadonlySet<string>;
}

function sample(schema: JsonMap, name: string, taste: Taste, depth: number): Json {
  const known = taste.known[name]?.find((value) => fits(schema, value));
  if (known !== undefined) return known;
  if (schema['const'] !== undefined) return schema['const'];
  const [first] = listOf(schema['enum']);
  if (first !== undefined) return first;
  const ways = [...listOf(schema['anyOf']), ...listOf(schema['oneOf'])].filter(isMap);
  const way = ways.find((each) => each['type'] !== 'null') ?? ways[0];
  if (way !== undefined) return sample(way, name, taste, depth);
  const parts = listOf(schema['allOf']).filter(isMap);
  if (parts.length > 0) return Object.assign({}, ...parts.map((part) => sample(part, name, taste, depth)));
  switch (schema['type']) {
    case 'object':
      return depth > DEPTH_MAX ? {} : members(schema, taste, depth);
    case 'array':
      return isMap(schema['items']) && depth <= DEPTH_MAX ? [sample(schema['items'], '', taste, depth + 1)] : [];
    case 'string':
      return textFor(schema, name);
    case 'integer':
    case 'number':
      return Math.max(1, Number(schema['minimum'] ?? 1));
    case 'boolean':
      return false;
    default:
      return null;
  }
}

function members(schema: JsonMap, taste: Taste, depth: number): JsonMap {
  const { properties } = schema;
  const required = listOf(schema['required']);
  const entries = Object.entries(isMap(properties) ? properties : {}).filter(
    ([name]) => required.includes(name) || taste.shown.has(name),
  );
  return Object.fromEntries(
    entries.map(([name, each]) => [name, isMap(each) ? sample(each, name, taste, depth + 1) : null]),
  );
}

function textFor(schema: JsonMap, name: string): string {
  if (schema['format'] === 'date-time' || /_(?:at|time)$|^(?:at|as_of|since|until|heartbeat|timestamp)$/.test(name)) {
    return AT;
  }
  return '…';
}

/** The few words of JSON Schema that decide between the values of the table. */
function fits(schema: JsonMap, value: Json): boolean {
  const ways = [...listOf(schema['anyOf']), ...listOf(schema['oneOf'])].filter(isMap);
  if (ways.length > 0) return ways.some((way) => fits(way, value));
  if (schema['const'] !== undefined) return schema['const'] === value;
  const words = listOf(schema['enum']);
  if (words.length > 0) return words.includes(value);
  if (
    schema['pattern'] !== undefined &&
    !(typeof value === 'string' && new RegExp(String(schema['pattern'])).test(value))
  )
    return false;
  if (Array.isArray(value)) {
    const { items } = schema;
    return schema['type'] === 'array' && isMap(items) && value.every((each) => fits(items, each));
  }
  if (typeof value === 'number') {
    const isInside = value >= Number(schema['minimum'] ?? value) && value <= Number(schema['maximum'] ?? value);
    return (schema['type'] === 'number' || (schema['type'] === 'integer' && Number.isInteger(value))) && isInside;
  }
  if (value === null) return schema['type'] === 'null' || schema['type'] === undefined;
  if (isMap(value))
    return schema['type'] === undefined || (schema['type'] === 'object' && schema['properties'] === undefined);
  return schema['type'] === typeof value;
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}
