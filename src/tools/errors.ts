/**
 * How a failure gets its kind: the one table of language 7.4 and the classifiers that read it. A kind alone says
 * whether a try may be repeated, so `retryable` is never chosen by a tool, except for the few failures (a refused
 * target, a cancelled try) that share a retryable kind without being worth a second try.
 */
import type { Json } from '../../machines/json.ts';
import type { ToolError, ToolFailure } from './tool.ts';

/** Every kind of language 7.4 and whether a try that failed with it may succeed when it is repeated. */
export const retryableKinds = {
  connection: true,
  timeout: true,
  rate_limit: true,
  server_error: true,
  auth: false,
  not_found: false,
  client_error: false,
  schema: false,
  parse: false,
  transform: false,
  db_connection: true,
  db_deadlock: true,
  db_timeout: true,
  db_constraint: false,
  storage_quota: false,
  storage_access: false,
  missing_reference: false,
  config: false,
  logic: false,
  tool_error: false,
  unknown: false,
} as const satisfies Record<string, boolean>;

export type ErrorKind = keyof typeof retryableKinds;

/** What a failure may carry beyond kind, code and message. */
export interface FailureExtra {
  readonly data?: Json;
  readonly status_code?: number | null;
  readonly details?: Json;
  readonly retryable?: boolean;
  readonly http?: ToolFailure['http'];
  readonly pg?: ToolFailure['pg'];
  readonly py?: ToolFailure['py'];
  readonly js?: ToolFailure['js'];
  readonly log?: ToolFailure['log'];
  readonly warnings?: ToolFailure['warnings'];
}

/** Builds a failed outcome; `retryable` follows from the kind unless `extra` says otherwise. */
export function failure(kind: ErrorKind, code: string, message: string, extra: FailureExtra = {}): ToolFailure {
  const { data = null, status_code, details, retryable = retryableKinds[kind], ...outputs } = extra;
  const error: ToolError = {
    kind,
    code,
    message,
    retryable,
    ...(status_code === undefined ? {} : { status_code }),
    ...(details === undefined ? {} : { details }),
  };
  const { http, pg, py, js, log, warnings } = outputs;
  return {
    ok: false,
    error,
    data,
    ...(http && { http }),
    ...(pg && { pg }),
    ...(py && { py }),
    ...(js && { js }),
    ...(log && { log }),
    ...(warnings && { warnings }),
  };
}

/** Thrown where a try cannot go on and its failure is known already; the guard of the registry unwraps it. */
export class ToolRefusal extends Error {
  override readonly name = 'ToolRefusal';
  readonly failure: ToolFailure;
  constructor(refused: ToolFailure) {
    super(refused.error.message);
    this.failure = refused;
  }
}

/** The kind of an HTTP answer outside 200-299; its code is `HTTP_<status>`. */
export function classifyHttpStatus(status: number): ErrorKind {
  if (status === 429) return 'rate_limit';
  if (status === 401 || status === 403) return 'auth';
  if (status === 404) return 'not_found';
  if (status >= 500) return 'server_error';
  return 'client_error';
}

/** The kind of a database error by its five-character SQLSTATE. */
export function classifySqlstate(sqlstate: string): ErrorKind {
  if (sqlstate === '40001' || sqlstate === '40P01') return 'db_deadlock';
  if (sqlstate === '57014' || sqlstate === '55P03') return 'db_timeout';
  if (sqlstate.startsWith('57P')) return 'db_connection';
  switch (sqlstate.slice(0, 2)) {
    case '08':
    case '53':
      return 'db_connection';
    case '22':
    case '42':
      return 'schema';
    case '23':
      return 'db_constraint';
    case '28':
      return 'auth';
    default:
      return 'unknown';
  }
}

const saysTimeout = /time(?:d )?out/i;
const pythonValueErrors = new Set(['TypeError', 'ValueError', 'KeyError', 'IndexError']);
const javascriptValueErrors = new Set(['TypeError', 'RangeError', 'ReferenceError']);

/** The kind of a Python exception, from the names of its classes (most derived first) and its message. */
export function classifyPython(classes: readonly string[], message: string): ErrorKind {
  if (classes.includes('SyntaxError') || classes.includes('JSONDecodeError')) return 'parse';
  if (saysTimeout.test(message)) return 'timeout';
  return classes.some((name) => pythonValueErrors.has(name)) ? 'schema' : 'unknown';
}

/** The kind of a thrown JavaScript value, from the names of its classes (most derived first) and its message. */
export function classifyJavascript(classes: readonly string[], message: string): ErrorKind {
  if (classes.includes('SyntaxError')) return 'parse';
  if (saysTimeout.test(message)) return 'timeout';
  return classes.some((name) => javascriptValueErrors.has(name)) ? 'schema' : 'unknown';
}

export interface NetworkProblem {
  readonly kind: 'connection' | 'timeout';
  readonly code: 'CONN_REFUSED' | 'CONN_ERROR' | 'DNS_ERROR' | 'CONN_TIMEOUT';
  /** A sentence without addresses or secrets. */
  readonly reason: string;
}

const refused = new Set(['ECONNREFUSED']);
const unresolved = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EAI_NODATA', 'EAI_NONAME', 'ENODATA', 'ESERVFAIL']);
const late = new Set(['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** Reads what went wrong on the way to a host from an error of node or undici, looking through causes. */
export function classifyNetwork(error: unknown): NetworkProblem {
  const codes = [...errorCodes(error)];
  if (codes.some((code) => refused.has(code)))
    return { kind: 'connection', code: 'CONN_REFUSED', reason: 'connection refused' };
  if (codes.some((code) => unresolved.has(code)))
    return { kind: 'connection', code: 'DNS_ERROR', reason: 'the host name cannot be resolved' };
  if (codes.some((code) => late.has(code)))
    return { kind: 'timeout', code: 'CONN_TIMEOUT', reason: 'the host did not answer in time' };
  const text = error instanceof Error && error.message !== '' ? error.message : 'the connection failed';
  return { kind: 'connection', code: 'CONN_ERROR', reason: codes[0] === undefined ? text : `${text} (${codes[0]})` };
}

/** The `code` members of an error, of its causes and, for AggregateError, of its parts; at most eight levels. */
function* errorCodes(error: unknown, depth = 0): Generator<string> {
  if (depth > 8 || typeof error !== 'object' || error === null) return;
  if ('code' in error && typeof error.code === 'string') yield error.code;
  if (error instanceof AggregateError) for (const part of error.errors) yield* errorCodes(part, depth + 1);
  if ('cause' in error) yield* errorCodes(error.cause, depth + 1);
}
