/**
 * What each key of a playbook means, in a sentence: the descriptions of the JSON Schema, which editors show while one
 * types. Told per place, because `name` of a task is not `name` of a credential. docs/language says it at length.
 */

type Words = Readonly<Record<string, string>>;

export type Place = keyof typeof PLACES;

const PLACES = {
  document: {
    apiVersion: 'Version of the language: callboard/v2.',
    kind: 'Playbook, or Agent for one that must be started as an agent.',
    metadata: 'Who this is: name, place in the catalog, description.',
    executor: 'How the whole document is run: its first and last step.',
    workload: 'Inputs with their defaults. A start request lays its own over them, key by key.',
    keychain: 'Tokens and secrets that are fetched before the first step, cached encrypted, and renewed.',
    workbook: 'Reusable tools; a task uses one with kind: workbook and its name.',
    workflow: 'The steps, at least one. A run begins at the step named start, else at the first.',
  },
  metadata: {
    name: 'Short name, shown in lists.',
    path: 'Place in the catalog, such as team/report. Versions are counted per path.',
    description: 'What it is for, in a sentence; lists and run forms show it.',
    tags: 'Words to find it by.',
    capabilities: 'What an agent can do, for those who look for one.',
    agent: 'List this playbook among the agents.',
    exposed_in_ui: 'Whether run forms offer it.',
    exposes_as_mcp: 'Whether tool clients may call it over MCP.',
    terminal: 'How a terminal for agents shows it.',
  },
  terminal: {
    visible: 'Whether the terminal lists it.',
    workspace: 'The workspace it belongs to.',
    scopes: 'The scopes it works in.',
    capabilities: 'What it can do, beside metadata.capabilities.',
  },
  executor: {
    profile: 'For readers; it decides nothing.',
    version: 'For readers; it decides nothing.',
    requires: 'Tools and features it needs; for readers.',
    spec: 'First step, last step, and what a missing way on means.',
  },
  executorSpec: {
    entry_step: 'The step a run begins at.',
    final_step: 'The step whose value is the result; without it, of the step that completed last.',
    no_next_is_error: 'Whether every step but the last must say where it leads.',
    policy: 'For readers; it decides nothing.',
  },
  step: {
    step: 'Unique name. Later steps read the value of this one under it.',
    desc: 'A sentence for people.',
    tool: 'What it runs: one tool, or a list of tasks that run one after the other on one worker.',
    input: 'Values for every task of the step, laid over their own input.',
    loop: 'Run it once for each item.',
    set: 'What to keep in ctx after success; templates may read output.',
    next: 'Where to go. Without it this branch ends here.',
    output: 'What of the result is kept, and where.',
    output_select: 'Older spelling of output.select.',
    spec: 'Limits and policies of the step.',
  },
  stepSpec: {
    timeout: 'Limit for the whole command with its retries: seconds, or 30s, 5m, 1h.',
    next_mode: 'exclusive takes the first arc whose condition holds, inclusive every such arc.',
    policy: 'Whether the step runs at all, and what a failed round of its loop does.',
  },
  stepPolicy: {
    admit: 'Rules that may skip the step.',
    failure: 'What a failed round does to a loop.',
  },
  admit: { rules: 'Tried from the top; the first whose condition holds decides.' },
  failure: { mode: 'fail_fast issues no further round; best_effort runs all and lets the step succeed.' },
  task: {
    kind: 'What kind of work.',
    name: 'Label of the task: its value is found under it. For kind workbook, the name of the tool.',
    input: 'Values the tool works with; templates are rendered just before each try.',
    auth: 'Name of a stored credential, never the secret itself.',
    set: 'What to keep in ctx after success.',
    timeout: 'Limit for one try, in seconds.',
    output: 'What of the result is kept, and where.',
    output_select: 'Older spelling of output.select.',
    spec: 'Rules for what an outcome means: retry, go on, fail.',
  },
  taskSpec: { policy: 'Rules, and what happens when none fits.' },
  taskPolicy: {
    on_unmatched: 'When no rule fits: fail lets a success fail as well, continue swallows an error.',
    rules: 'Tried from the top; the first whose condition holds decides.',
  },
  rule: {
    when: 'The condition; it sees output, _attempt and everything a template sees.',
    // biome-ignore lint/suspicious/noThenProperty: the word of the language
    then: 'What to do when it holds.',
    else: 'What to do when no rule above fits.',
  },
  decision: {
    do: 'retry, continue, jump to another task, break with success, or fail.',
    set: 'Variables to set on the way; the next task sees them at once.',
    to: 'The task to jump to: a label, or previous.',
    attempts: 'Tries in all, the first included; 3 without it.',
    delay: 'Seconds before the next try. Long pauses hold no worker.',
    backoff: 'How pauses grow: none, fixed, linear or exponential.',
    max_delay: 'No pause is longer than this many seconds; 3600 without it.',
  },
  next: {
    spec: 'How many arcs are taken, and what it means when none fits.',
    arcs: 'What may follow, tried from the top.',
  },
  nextSpec: {
    mode: 'exclusive takes the first arc whose condition holds, inclusive every such arc.',
    on_no_match: 'complete or quiet; either way the branch ends here when no arc fits.',
  },
  arc: {
    step: 'The step to go to.',
    when: 'A condition; without it the arc always fits. event.name tells call.done from call.error.',
    cond: 'Older spelling of when.',
    set: 'Variables to set on the way.',
    args: 'Older spelling of set.',
  },
  loop: {
    in: 'A list, a map, or a whole number n for 0 to n-1. Evaluated once.',
    cursor: 'Ask a store for rows until there are none.',
    iterator: 'Name of the present item: iter.<name>, and the bare name.',
    spec: 'How many rounds run at once.',
  },
  cursor: {
    kind: 'The store that is asked.',
    auth: 'Name of a stored credential.',
    claim: 'The statement that hands out rows nobody else gets: for update skip locked … returning.',
    options: 'More for the store.',
  },
  loopSpec: {
    mode: 'sequential is one at a time and in order; parallel up to max_in_flight; cursor drains a table.',
    max_in_flight: 'Rounds at the same time; 100 without it.',
    policy: 'What the loop does with failed rounds, in older documents.',
    frame: 'How many rows a cursor claims at a time, and how they are worked on.',
  },
  frame: {
    max_rows: 'Rows that one claim asks for.',
    row_concurrency: 'Rows of a frame at the same time.',
    process: 'row runs the tool once per row, frame once per frame.',
  },
  output: {
    select: 'Paths of the result, such as meta.total or rows[0].id, that stay at hand when it is stored elsewhere.',
    inline_max_bytes: 'A result with more bytes is stored beside the log and referred to.',
    preview_max_bytes: 'How many bytes of a stored result are shown in its place; 1024 without it.',
    store: 'Where and for how long a large result is kept.',
  },
  action: {
    name: 'The name tasks use it by.',
    tool: 'The tool, with defaults; a task may override its fields.',
    desc: 'A sentence for people.',
    assert: 'For readers; it decides nothing.',
  },
  keychainEntry: {
    name: 'Steps read its fields as keychain.<name>.<field>.',
    kind: 'How it is had: oauth2, http, secret_manager, bearer, static or credential.',
    type: 'Another word for kind.',
    provider: 'For secret_manager: env reads the SVC_SECRET_<NAME> of the server.',
    scope: 'global for every run of this version, local for one run, shared for a run and its descendants.',
    auth: 'Name of a stored credential that the request uses.',
    map: 'Fields of the entry: for static their values, for secret_manager where they lie.',
    auto_renew: 'Fetch a new one when the present one ends.',
    ttl_seconds: 'How long it lives when the answer does not say so.',
    endpoint: 'Address of the token endpoint.',
    method: 'Method of the request; POST without it.',
    headers: 'Headers of the request.',
    data: 'Body of the request.',
    token: 'For bearer: the token, as a template.',
    credential: 'For credential: the name of the stored one.',
    ref: 'Another spelling of credential.',
  },
} satisfies Record<string, Words>;

export const KIND_WORDS: Words = {
  http: 'Sends one HTTP request. A status outside 200 to 299 is an error.',
  postgres: 'Runs SQL statements on a PostgreSQL database.',
  python: 'Runs Python code in a process of its own; every input is a variable.',
  javascript: 'Runs JavaScript, the body of an async function, in a process of its own.',
  shell: 'Runs shell commands; an exit other than 0 is an error.',
  noop: 'Does nothing and yields result: for routing, gathering and trying out.',
  playbook: 'Starts another playbook and, if asked, waits for its result.',
  mcp: 'Calls a tool server over the Model Context Protocol.',
  nats: 'Works with NATS: key-value and object stores, JetStream.',
  duckdb: 'Runs analytic SQL in DuckDB, in memory or on a file.',
  artifact: 'Stores a large value beside the log, or fetches one by its reference.',
  transfer: 'Moves rows from one store to another in one transaction.',
  secrets: 'Reads a secret; only later tasks of the same pipeline can use it.',
  workbook: 'Uses a tool of the workbook by its name.',
  result_fetch: 'Another word for artifact.',
};

const CODE = {
  code: 'The source. Return a value, or assign it to result.',
  code_b64: 'The source in base64.',
  script: 'Where the source lies, in place of code.',
  libs: 'Modules to import: alias to module.',
  env: 'Environment variables of the process.',
  cwd: 'Working directory.',
} satisfies Words;

const SQL: Words = {
  command: 'One or more SQL statements. Values belong in params.',
  params: 'Values of $1, $2 …, for a single statement.',
  as_objects: 'Whether rows are objects (true) or lists.',
};

const FIELDS: Readonly<Record<string, Words>> = {
  http: {
    url: 'Address, http or https.',
    method: 'GET without it.',
    headers: 'Headers; null leaves one out.',
    params: 'Query of the address; lists repeat, null leaves one out.',
    json: 'Body, sent as JSON.',
    body: 'Body: a map or list as JSON, text as it is.',
    payload: 'Another word for body.',
    form: 'Body as a urlencoded form.',
    data: 'query and body in one; else the query of a GET and the body of others.',
    follow_redirects: 'Whether redirects are followed; true without it.',
    verify_ssl: 'Whether certificates are checked; true without it.',
    response_type: 'json (falls back to text), text, or binary as base64.',
  },
  postgres: {
    ...SQL,
    host: 'Host of the database, where no auth is given.',
    port: 'Port of the database.',
    user: 'User of the database.',
    password: 'Password. Better: auth with a stored credential.',
    database: 'Name of the database.',
    connection_string: 'All of the connection in one text.',
    schema: 'search_path of the statements.',
    script: 'Where the statements lie, in place of command.',
  },
  python: { ...CODE, python: 'Path of the interpreter.', deps: 'Packages the code needs.' },
  javascript: CODE,
  shell: {
    command: 'The command.',
    cmds: 'Several commands, run in order.',
    shell: 'The shell; sh without it.',
    cwd: CODE.cwd,
    env: CODE.env,
  },
  noop: { result: 'The value of the task.', message: 'A text, where there is no result.' },
  playbook: {
    path: 'Catalog path of the playbook to start.',
    catalog_id: 'One version of it, by its id.',
    version: 'A version number, or latest.',
    args: 'Inputs of the child.',
    resource_kind: 'agent for an agent.',
    return_step: 'Wait, and yield the value of this step of the child.',
    wait: 'Wait for the end of the child; holds no worker.',
    return_result: 'Wait, and yield the result of the child.',
    poll_interval: 'Has no effect: a waiting task is told of the end, it does not ask.',
  },
  mcp: {
    endpoint: 'Address of the tool server.',
    server: 'Its name: finds the address by setting or by catalog entry mcp/<server>.',
    method: 'tools/call, tools/list, health, or another.',
    tool: 'Name of the tool to call.',
    arguments: 'What the tool is given.',
    params: 'All parameters of the method, where it is not tools/call.',
    headers: 'Headers of the requests.',
    protocol_version: 'Version of the protocol to ask for.',
    client_name: 'What the client calls itself.',
    client_version: 'Version the client tells.',
    capabilities: 'Capabilities the client tells.',
    request_id: 'Id of the request.',
  },
  nats: {
    operation:
      'kv_get, kv_put, kv_delete, kv_keys, kv_purge, object_…, js_publish, js_consume, js_get_msg, js_stream_info.',
    url: 'Address of the server, where no auth is given.',
    bucket: 'Name of the store.',
    key: 'Key in a key-value store.',
    value: 'What to put.',
    ttl: 'How long it is kept.',
    pattern: 'Which keys to list.',
    name: 'Name of the object.',
    data: 'Content of the object or message.',
    encoding: 'How data is written: utf8 or base64.',
    description: 'Description of the object.',
    stream: 'Name of the stream.',
    subject: 'Subject of the message.',
    headers: 'Headers of the message.',
    seq: 'Number of the message.',
    last: 'The last message of a subject.',
    consumer: 'Name of the consumer.',
    batch: 'How many messages at most.',
    ack: 'Whether messages are acknowledged.',
    timeout_ms: 'How long to wait, at most 5000.',
  },
  duckdb: {
    ...SQL,
    commands: 'Several statements, run in order.',
    database: 'A file; without it a fresh database in memory.',
  },
  artifact: { action: 'get fetches input.result_ref; put stores input.data under input.name.' },
  transfer: {
    source: 'Where rows come from: type, auth, query or url.',
    target: 'Where rows go: type, auth, table, mapping.',
    mode: 'append, replace or upsert.',
    key: 'Columns that tell rows apart, for upsert.',
    chunk_size: 'Rows per statement.',
  },
  secrets: {
    provider: 'env: the variables SVC_SECRET_<NAME> of the worker.',
    name: 'Name of the secret.',
    version: 'Version of the secret.',
  },
};

/** The sentence for a field of a tool, or undefined. */
export function fieldWords(kind: string, field: string): string | undefined {
  return FIELDS[kind]?.[field] ?? (field === 'auth' ? PLACES.task.auth : undefined);
}

/** The sentence for a key at a place, or undefined. */
export function placeWords(place: Place, key: string): string | undefined {
  const words: Words = PLACES[place];
  return words[key];
}
