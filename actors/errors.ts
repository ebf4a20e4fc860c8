/** Refusals: what the service says no to, with a code that `src/errors.ts` maps to an HTTP status and body (api 1.7). */
import type { Json } from '../machines/json.ts';

export type RefusalCode =
  | 'not_found'
  | 'unknown_worker'
  | 'active_claim'
  | 'already_terminal'
  | 'worker_draining'
  | 'worker_restarted'
  | 'attempts_exhausted'
  | 'idempotency_conflict'
  | 'validation_error'
  | 'invalid_id'
  | 'playbook_invalid'
  | 'kind_not_executable'
  | 'resource_kind_required'
  | 'nesting_too_deep'
  | 'schema_validation_failed'
  | 'sql_error'
  | 'sql_not_allowed'
  | 'decrypt_failed'
  | 'payload_too_large'
  | 'not_configured'
  | 'forbidden'
  | 'egress_denied'
  | 'upstream_failed'
  | 'upstream_timeout'
  | 'queue_unavailable'
  | 'worker_unavailable'
  | 'ack_timeout'
  | 'enqueue_error'
  | 'pool_saturated'
  | 'db_unavailable'
  | 'shutting_down';

/** `message` is the sentence a caller reads; `data` is what the table of api 1.7 puts beside it (errors, claim_policy …). */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: RefusalCode;
  readonly data: Readonly<Record<string, Json>>;
  constructor(code: RefusalCode, message: string, data: Readonly<Record<string, Json>> = {}, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.data = data;
  }
}
