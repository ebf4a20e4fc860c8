/**
 * Who asks, and the trace that leaves (api 8.5). The host knows the caller of the request being served; a service only
 * asks for it when it writes, so that no call has to carry it through.
 */
import type { JsonMap } from '../machines/json.ts';

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
