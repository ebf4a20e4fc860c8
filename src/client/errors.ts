/** What a call to the service may end with besides its answer: a refusal of the server, or no answer at all. */
import { isMap, type Json } from '../../machines/json.ts';

/** The server answered with a status outside 200-299 (api 1.7). */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** `not_found`, `unknown_worker`, …; `http_<status>` where the body is not the service's. */
  readonly code: string;
  readonly detail: Json;
  /** Field by field, for 422 and failed schemas. */
  readonly errors: readonly Json[];
  readonly retryAfterSeconds: number | null;

  constructor(status: number, body: Json, retryAfterSeconds: number | null) {
    const fields = isMap(body) ? body : {};
    const detail = fields['detail'] ?? null;
    const code = typeof fields['code'] === 'string' ? fields['code'] : `http_${status}`;
    super(sentenceOf(detail) ?? `the server answered ${status} (${code})`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    const inner = isMap(detail) ? detail['errors'] : undefined;
    const errors = fields['errors'] ?? inner;
    this.errors = Array.isArray(errors) ? errors : [];
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** No answer, or none that can be read: whether the server did anything is unknown. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  /** Code of the network error, such as ECONNREFUSED. */
  readonly code: string | null;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = codeOf(options?.cause);
  }
}

/** Statuses after which the same call may succeed later (language 12.1, api 1.7). */
const PASSING_STATUSES: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);

/** True where the call may be made again later, provided that it is repeatable. */
export function isPassing(error: unknown): boolean {
  return error instanceof TransportError || (error instanceof ApiError && PASSING_STATUSES.has(error.status));
}

function sentenceOf(detail: Json): string | null {
  if (typeof detail === 'string') return detail;
  return isMap(detail) && typeof detail['message'] === 'string' ? detail['message'] : null;
}

function codeOf(cause: unknown): string | null {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : null;
}
