/**
 * Every refusal and failure as an HTTP answer: one table code → status and form (api 1.7). A code without a row does
 * not compile. What is not a known error is a bug: it is answered with a constant sentence and logged by the host.
 */
import { DomainError, type RefusalCode } from '../actors/errors.ts';
import { StaleError, UnavailableError } from '../actors/ports.ts';
import { isMap, type Json, type JsonMap } from '../machines/json.ts';

/** Codes of the HTTP layer itself, beside those of the services. */
export type ErrorCode =
  | RefusalCode
  | 'invalid_json'
  | 'method_not_allowed'
  | 'unsupported_media_type'
  | 'unauthenticated'
  | 'misdirected_host'
  | 'request_timeout'
  | 'rate_limited'
  | 'internal_error';

/** A request that no service gets to see. `errors` names every problem, field by field. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: ErrorCode;
  readonly errors: readonly string[] | null;
  readonly headers: Readonly<Record<string, string>>;
  constructor(
    code: ErrorCode,
    message: string,
    options: { errors?: readonly string[]; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message);
    this.code = code;
    this.errors = options.errors ?? null;
    this.headers = options.headers ?? {};
  }
}

export interface ErrorAnswer {
  readonly status: number;
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonMap;
}

type Data = Readonly<Record<string, Json>>;

interface Row {
  readonly status: number;
  /** Seconds of `Retry-After`. */
  readonly retryAfter?: number;
  /** What stands in `detail`; the sentence by default. */
  readonly detail?: (message: string, code: ErrorCode, data: Data) => Json;
  /** Keys beside `detail`, `code` and `request_id`. */
  readonly beside?: (message: string, data: Data) => JsonMap;
}

const refusedClaim: Row['detail'] = (message, code, data) => ({
  code,
  message,
  worker_id: data['worker_id'] ?? null,
  claim_policy: data['claim_policy'] ?? null,
});
const codeAndMessage: Row['detail'] = (message, code, data) => ({
  code,
  message,
  ...(data['request_id'] === undefined ? {} : { request_id: data['request_id'] }),
});
const errorsBeside: Row['beside'] = (message, data) => ({
  errors: Array.isArray(data['errors']) ? data['errors'] : [message],
});

export const ERRORS = {
  schema_validation_failed: {
    status: 400,
    detail: (message, _code, data) => ({ message, errors: listAt(data, 'errors') }),
  },
  sql_error: {
    status: 400,
    beside: (message, data) => ({ status: 'error', error: message, sqlstate: data['sqlstate'] ?? null }),
  },
  unauthenticated: { status: 401 },
  forbidden: { status: 403 },
  egress_denied: { status: 403 },
  sql_not_allowed: { status: 403 },
  not_found: { status: 404 },
  unknown_worker: {
    status: 404,
    retryAfter: 3,
    detail: (_message, _code, data) => ({ status: 'unknown', name: data['name'] ?? data['worker_id'] ?? null }),
  },
  method_not_allowed: { status: 405 },
  request_timeout: { status: 408 },
  active_claim: { status: 409, retryAfter: 2, detail: refusedClaim },
  already_terminal: { status: 409, detail: refusedClaim },
  worker_draining: { status: 409, detail: refusedClaim },
  worker_restarted: { status: 409, detail: refusedClaim },
  attempts_exhausted: { status: 409, detail: refusedClaim },
  idempotency_conflict: { status: 409 },
  payload_too_large: { status: 413 },
  unsupported_media_type: { status: 415 },
  misdirected_host: { status: 421 },
  validation_error: { status: 422, beside: errorsBeside },
  invalid_json: { status: 422, beside: errorsBeside },
  invalid_id: { status: 422, beside: errorsBeside },
  playbook_invalid: {
    status: 422,
    detail: (_message, _code, data) => ({
      message: 'Playbook validation failed',
      errors: listAt(data, 'errors').map(playbookError),
    }),
  },
  kind_not_executable: { status: 422 },
  resource_kind_required: { status: 422 },
  nesting_too_deep: { status: 422 },
  rate_limited: { status: 429 },
  internal_error: { status: 500 },
  decrypt_failed: { status: 500 },
  not_configured: { status: 501 },
  upstream_failed: { status: 502 },
  upstream_timeout: { status: 504 },
  queue_unavailable: { status: 503, retryAfter: 1, detail: codeAndMessage },
  worker_unavailable: { status: 503, retryAfter: 1, detail: codeAndMessage },
  ack_timeout: { status: 503, retryAfter: 1, detail: codeAndMessage },
  enqueue_error: { status: 503, retryAfter: 1, detail: codeAndMessage },
  pool_saturated: { status: 503, retryAfter: 1, detail: codeAndMessage },
  db_unavailable: { status: 503, retryAfter: 2, detail: codeAndMessage },
  shutting_down: { status: 503, retryAfter: 2, detail: codeAndMessage },
} satisfies Record<ErrorCode, Row>;

export interface ErrorOptions {
  /** `Retry-After` of a refused claim, in seconds. */
  readonly claimRetryAfterSeconds: number;
}

/** The answer for anything that was thrown. `code` is `internal_error` exactly when it was a bug. */
export function answerOf(error: unknown, requestId: string, options: ErrorOptions): ErrorAnswer {
  if (error instanceof DomainError) return build(error.code, error.message, error.data, requestId, options);
  if (error instanceof RequestError) {
    const data = error.errors === null ? {} : { errors: error.errors };
    const answer = build(error.code, error.message, data, requestId, options);
    return { ...answer, headers: { ...answer.headers, ...error.headers } };
  }
  if (error instanceof UnavailableError) {
    const sentence =
      error.reason === 'pool_saturated' ? 'All database connections are busy' : 'The database is not available';
    return build(error.reason, sentence, {}, requestId, options);
  }
  if (error instanceof StaleError) {
    return build('queue_unavailable', 'The execution is changed by others at this moment', {}, requestId, options);
  }
  return build('internal_error', 'Internal error', {}, requestId, options);
}

function build(code: ErrorCode, message: string, data: Data, requestId: string, options: ErrorOptions): ErrorAnswer {
  const row: Row = ERRORS[code];
  const retryAfter = code === 'active_claim' ? Math.max(1, Math.ceil(options.claimRetryAfterSeconds)) : row.retryAfter;
  return {
    status: row.status,
    code,
    headers: retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) },
    body: {
      detail: row.detail?.(message, code, data) ?? message,
      code,
      request_id: requestId,
      ...row.beside?.(message, data),
    },
  };
}

function listAt(data: Data, key: string): readonly Json[] {
  const value = data[key];
  return Array.isArray(value) ? value : [];
}

const PLAYBOOK_ERROR_FIELDS = ['code', 'step', 'task', 'path', 'line', 'column', 'message'] as const;

function playbookError(error: Json): Json {
  if (!isMap(error)) return error;
  return Object.fromEntries(PLAYBOOK_ERROR_FIELDS.map((field) => [field, error[field] ?? null]));
}
