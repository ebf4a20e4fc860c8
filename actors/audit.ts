/**
 * Who asks, and the trace that leaves (api 8.5). The host knows the caller of the request being served; a service only
 * asks for it when it writes, so that no call has to carry it through.
 */
import type { JsonMap } from '../machines/json.ts';
import { DomainError } from './errors.ts';
import { type Log, UnavailableError } from './ports.ts';

export interface Caller {
  /** Subject, token name, or `open`. */
  readonly actor: string;
  readonly role: string;
  readonly requestId: string | null;
  readonly ip: string | null;
}

/** The caller of the request being served. */
export type CurrentCaller = () => Caller;

/** The caller where nobody is told apart: open mode, start-up, jobs. */
export const OPEN_CALLER: Caller = { actor: 'open', role: 'admin', requestId: null, ip: null };

/** A row of `core.audit`; `detail` never holds values of the thing it is about. */
export interface AuditRow extends Caller {
  readonly auditId: number;
  readonly action: string;
  readonly target: string;
  readonly outcome: 'ok' | 'denied' | 'error';
  readonly detail: JsonMap;
}

/** What becomes of a reveal whose audit row cannot be written. */
export interface AuditPolicy {
  /** Nothing is shown. */
  readonly required: boolean;
  readonly log: Log;
}

/** Where nobody says otherwise. */
export const AUDIT_REQUIRED: AuditPolicy = { required: true, log: { debug() {}, info() {}, warn() {}, error() {} } };

/**
 * `work` with its audit row and, where that fails and need not be, once more without it. A refusal is an answer, and a
 * database that is away would not answer the second time either.
 */
export async function audited<T>(
  policy: AuditPolicy,
  target: string,
  work: (withRow: boolean) => Promise<T>,
): Promise<T> {
  try {
    return await work(true);
  } catch (error) {
    const isAnswer = error instanceof DomainError || error instanceof UnavailableError;
    if (policy.required || isAnswer) throw error;
    const shown = await work(false);
    policy.log.warn('A secret was shown without a row of the audit', { target, error });
    return shown;
  }
}
