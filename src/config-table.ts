/**
 * Everything that can be set, in one table: environment name, parser, default, who reads it, and the sentence that the
 * generated `.env.example` and `docs/configuration.md` print. A row exists only when this version honours it.
 */
import {
  address,
  duration,
  flag,
  key,
  keys,
  list,
  oneOf,
  optional,
  type Setting,
  setting,
  text,
  whole,
} from './config-values.ts';

const name = text(/^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}$/, 'be a name of letters, digits, _ . @ -');
const database = address('postgres', 'postgresql');

export const SETTINGS = {
  host: setting('SVC_HOST', text(), '127.0.0.1', 'server', 'Address to listen on. Images set 0.0.0.0.'),
  port: setting('SVC_PORT', whole(0, 65535), 8082, 'server', 'Port to listen on; 0 takes a free one.'),
  publicUrl: setting(
    'SVC_PUBLIC_URL',
    optional(address('http', 'https')),
    null,
    'server',
    'Address given to others; by default the one it listens on.',
  ),
  allowedHosts: setting(
    'SVC_ALLOWED_HOSTS',
    list(),
    [],
    'server',
    'Host names answered besides loopback and the public address.',
  ),
  corsAllowedOrigins: setting(
    'SVC_CORS_ALLOWED_ORIGINS',
    list(),
    ['loopback'],
    'server',
    'Origins that browsers may call from: `loopback`, exact origins, or `*`.',
  ),
  bodyLimitBytes: setting('SVC_BODY_LIMIT_BYTES', whole(1024), 10_485_760, 'server', 'Largest request body.'),
  requestTimeoutSeconds: setting(
    'SVC_REQUEST_TIMEOUT_SECONDS',
    duration(1),
    30,
    'server',
    'Time a request may take to arrive.',
  ),
  docsEnabled: setting('SVC_DOCS_ENABLED', flag(), true, 'server', 'Serve /openapi.json, /docs and /redoc.'),

  dataDir: setting(
    'SVC_DATA_DIR',
    text(),
    './.callboard',
    'server',
    'Folder of the embedded database and the key file.',
  ),
  databaseUrl: setting(
    'SVC_DATABASE_URL',
    optional(database),
    null,
    'server',
    'PostgreSQL to use instead of the embedded one.',
    { secret: true },
  ),
  listenUrl: setting(
    'SVC_DATABASE_LISTEN_URL',
    optional(database),
    null,
    'server',
    'Direct connection for LISTEN, where the other one goes through a pooler.',
    { secret: true },
  ),
  poolMax: setting('SVC_DATABASE_POOL_MAX', whole(2, 1000), 12, 'server', 'Database connections of one process.'),
  poolAcquireTimeoutSeconds: setting(
    'SVC_DATABASE_POOL_ACQUIRE_TIMEOUT_SECONDS',
    duration(0.05),
    5,
    'server',
    'Wait for a connection before the answer is 503.',
  ),
  encryptionKeys: setting(
    'SVC_ENCRYPTION_KEYS',
    keys(),
    [],
    'server',
    'Keys for stored secrets, `kid:base64` each; the first one encrypts.',
    { secret: true, shown: '' },
  ),
  encryptionKey: setting(
    'SVC_ENCRYPTION_KEY',
    optional(key()),
    null,
    'server',
    'One key for stored secrets, 32 bytes in base64, key id k1.',
    { secret: true },
  ),

  flushMaxTurns: setting(
    'SVC_FLUSH_MAX_TURNS',
    whole(1, 4096),
    256,
    'server',
    'Turns that share one transaction at most.',
  ),
  mailboxMax: setting(
    'SVC_MAILBOX_MAX',
    whole(1),
    1024,
    'server',
    'Events waiting for one execution before the answer is 503.',
  ),
  bus: setting(
    'SVC_BUS',
    oneOf('postgres', 'none'),
    'postgres',
    'server',
    'How processes tell each other of work: LISTEN/NOTIFY, or polling only.',
  ),
  busCoalesceMs: setting(
    'SVC_BUS_COALESCE_MS',
    whole(0, 1000),
    5,
    'server',
    'Announcements within this time travel together.',
  ),
  claimLeaseSeconds: setting(
    'SVC_COMMAND_CLAIM_LEASE_SECONDS',
    duration(1),
    120,
    'server',
    'Silence after which a claimed command may be given to another worker.',
  ),
  workerHeartbeatStaleSeconds: setting(
    'SVC_COMMAND_WORKER_HEARTBEAT_STALE_SECONDS',
    duration(1),
    30,
    'server',
    'Heartbeat age from which a worker counts as stale.',
  ),
  healthyHardTimeoutSeconds: setting(
    'SVC_COMMAND_CLAIM_HEALTHY_WORKER_HARD_TIMEOUT_SECONDS',
    duration(1),
    1800,
    'server',
    'Time after which even a healthy worker may lose a silent command.',
  ),
  claimRetryAfterSeconds: setting(
    'SVC_COMMAND_CLAIM_RETRY_AFTER_SECONDS',
    whole(1),
    2,
    'server',
    '`Retry-After` of a refused claim.',
  ),
  commandMaxAttempts: setting(
    'SVC_COMMAND_MAX_ATTEMPTS',
    whole(1, 1000),
    5,
    'server',
    'Claims of one command before it fails.',
  ),
  pendingRetrySeconds: setting(
    'SVC_COMMAND_REAPER_PENDING_RETRY_SECONDS',
    duration(1),
    60,
    'server',
    'Age from which an unclaimed command is announced again.',
  ),
  runtimeOfflineSeconds: setting(
    'SVC_RUNTIME_OFFLINE_SECONDS',
    duration(1),
    60,
    'server',
    'Heartbeat age from which a worker is offline.',
  ),

  resultInlineMaxBytes: setting(
    'SVC_RESULT_INLINE_MAX_BYTES',
    whole(1024),
    65_536,
    'server',
    'Results above this are stored apart from the event.',
  ),
  stepTimeoutSeconds: setting(
    'SVC_STEP_TIMEOUT_SECONDS',
    duration(1),
    21_600,
    'server',
    'Time for one command, tries and waits included, where the step names none.',
  ),
  maxStepActivations: setting(
    'SVC_MAX_STEP_ACTIVATIONS',
    whole(1),
    100_000,
    'server',
    'Activations of one step before the execution fails.',
  ),
  loopMaxItems: setting('SVC_LOOP_MAX_ITEMS', whole(1), 100_000, 'server', 'Items of one loop.'),
  loopMaxInFlight: setting(
    'SVC_LOOP_MAX_IN_FLIGHT',
    whole(1),
    1000,
    'server',
    'Iterations of one loop at the same time.',
  ),
  templateTimeoutMs: setting(
    'SVC_TEMPLATE_TIMEOUT_MS',
    whole(1),
    1000,
    'every process',
    'Time for rendering one template.',
  ),
  templateMaxSteps: setting(
    'SVC_TEMPLATE_MAX_STEPS',
    whole(1),
    1_000_000,
    'every process',
    'Evaluation steps of one template.',
  ),
  templateMaxOutputBytes: setting(
    'SVC_TEMPLATE_MAX_OUTPUT_BYTES',
    whole(1),
    16_777_216,
    'every process',
    'Text one template may produce.',
  ),

  toolTimeoutSeconds: setting(
    'SVC_TOOL_TIMEOUT_SECONDS',
    duration(0.1),
    300,
    'worker',
    'Time for one try of python, javascript, shell and postgres where the task names none.',
  ),
  pipelineMaxTries: setting(
    'SVC_PIPELINE_MAX_TRIES',
    whole(1),
    1_000_000,
    'worker',
    'Tries of one pipeline before it fails.',
  ),
  httpMaxResponseBytes: setting(
    'SVC_HTTP_MAX_RESPONSE_BYTES',
    whole(1),
    67_108_864,
    'worker',
    'Largest answer the http tool reads.',
  ),
  jsMemoryMb: setting('SVC_JS_MEMORY_MB', whole(16, 65_536), 256, 'worker', 'Heap of one javascript task, in MiB.'),
  jsAllowedModules: setting(
    'SVC_JS_ALLOWED_MODULES',
    list(),
    [],
    'worker',
    'Packages that javascript tasks may import, comma list.',
  ),
  pythonBin: setting('SVC_PYTHON_BIN', text(), 'python3', 'worker', 'Interpreter of the python tool.'),
  scriptDir: setting(
    'SVC_SCRIPT_DIR',
    text(),
    './scripts',
    'worker',
    'Folder that `script` sources of type `file` are read from.',
  ),
  egressPolicy: setting(
    'SVC_EGRESS_POLICY',
    oneOf('open', 'no-metadata', 'public-only'),
    'no-metadata',
    'worker',
    'What outbound requests may reach.',
  ),
  egressAllow: setting(
    'SVC_EGRESS_ALLOW',
    list(),
    [],
    'worker',
    'Hosts, `*.suffix`, CIDR or `host:port` allowed in spite of the policy.',
  ),
  egressDeny: setting('SVC_EGRESS_DENY', list(), [], 'worker', 'The same, refused in any case.'),

  logLevel: setting(
    'SVC_LOG_LEVEL',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent'),
    'info',
    'every process',
    'Least level that is logged.',
  ),
  logFormat: setting(
    'SVC_LOG_FORMAT',
    optional(oneOf('json', 'pretty')),
    null,
    'every process',
    '`json` or `pretty`.',
    { shown: 'json; pretty on a terminal' },
  ),
} satisfies Table;

export const WORKER_SETTINGS = {
  serverUrl: setting(
    'SVC_SERVER_URL',
    address('http', 'https'),
    'http://127.0.0.1:8082',
    'worker',
    'Server that the worker and the commands of the CLI talk to.',
  ),
  name: setting('SVC_WORKER_NAME', optional(name), null, 'worker', 'Name of this worker, unique in the service.', {
    shown: 'worker-<random>',
  }),
  token: setting('SVC_WORKER_TOKEN', optional(text()), null, 'worker', 'Bearer token the worker sends.', {
    secret: true,
  }),
  pools: setting('SVC_WORKER_POOLS', list(), ['shared'], 'worker', 'Pools it takes commands from, comma list.'),
  concurrency: setting('SVC_WORKER_CONCURRENCY', whole(1, 1024), 8, 'worker', 'Commands it works on at the same time.'),
  heartbeatSeconds: setting('SVC_WORKER_HEARTBEAT_SECONDS', duration(0.1), 2, 'worker', 'Time between two heartbeats.'),
  drainSeconds: setting(
    'SVC_WORKER_DRAIN_SECONDS',
    duration(0),
    30,
    'worker',
    'Time that running commands have to end when the worker stops.',
  ),
} satisfies Table;

export type Table = Readonly<Record<string, Setting<unknown>>>;

/** Every setting, in the order of the documentation. */
export const ALL_SETTINGS: readonly Setting<unknown>[] = [
  ...Object.values(SETTINGS),
  ...Object.values(WORKER_SETTINGS),
];
