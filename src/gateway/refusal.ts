/** A request the gateway does not serve, in the error form of the API (api 1.7), so that clients need to know one form only. */

const STATUS = {
  unauthenticated: 401,
  forbidden: 403,
  csrf: 403,
  not_found: 404,
  method_not_allowed: 405,
  payload_too_large: 413,
  unsupported_media_type: 415,
  misdirected_host: 421,
  validation_error: 422,
  internal_error: 500,
  not_configured: 501,
  upstream_failed: 502,
  pool_saturated: 503,
  upstream_timeout: 504,
} as const;

export type RefusalCode = keyof typeof STATUS;

/** The message is shown to the caller: it names nothing of the inside. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal';
  readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  get status(): number {
    return STATUS[this.code];
  }

  /** The body of the answer. */
  told(requestId: string): object {
    return { detail: this.message, code: this.code, request_id: requestId };
  }
}

/** What does not fit, field by field. */
export class Misfits extends Refusal {
  override readonly name = 'Misfits';
  readonly errors: readonly string[];

  constructor(errors: readonly string[]) {
    super('validation_error', errors.join('; '));
    this.errors = errors;
  }

  override told(requestId: string): object {
    return { detail: this.message, code: this.code, errors: this.errors, request_id: requestId };
  }
}
