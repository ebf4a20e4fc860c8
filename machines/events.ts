/**
 * A row of the event log as the code sees it (`core.event`, api 3.3). Facts in the past tense, immutable, numbered
 * 1, 2, 3 … per execution. `causeId` names the inbox event that set the turn off; an inbox event is its own cause.
 */
import type { Json, JsonMap } from './json.ts';

export type EventStatus = 'pending' | 'started' | 'running' | 'completed' | 'failed' | 'cancelled' | 'skipped';

export interface ResultReference {
  readonly ref: string;
  readonly store: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** `{status, context?, reference?}` and nothing else. A step value is at `context.data`; with a reference, `context` is its summary. */
export interface EventResult {
  readonly status: string;
  readonly context?: JsonMap;
  readonly reference?: ResultReference;
}

export interface LogEvent {
  readonly eventId: number;
  readonly causeId: number;
  readonly type: string;
  readonly status: EventStatus;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeType: string | null;
  readonly parentEventId: number | null;
  readonly parentExecutionId: number | null;
  readonly commandId: number | null;
  readonly attempt: number | null;
  readonly workerId: string | null;
  readonly reportId: string | null;
  readonly reportSeq: number | null;
  /** This row settled its command. */
  readonly closes: boolean;
  readonly stale: boolean;
  /** Milliseconds. */
  readonly duration: number | null;
  readonly context: JsonMap;
  readonly result: EventResult | null;
  readonly error: string | null;
  readonly meta: JsonMap;
  readonly engineVersion: number | null;
  /** ISO 8601 UTC with milliseconds. */
  readonly at: string;
}

/** What a writer says; the number, the cause and the instant are given when the turn is written. */
export type EventDraft = Pick<LogEvent, 'type' | 'status' | 'nodeName'> &
  Partial<Omit<LogEvent, 'eventId' | 'causeId' | 'at'>>;

export const TERMINAL_TYPES: ReadonlySet<string> = new Set([
  'playbook.completed',
  'playbook.failed',
  'execution.cancelled',
]);

/** What a tool or step failed with (language 7.3). */
export interface Failure {
  readonly kind: string;
  readonly code: string | null;
  readonly message: string;
  readonly retryable?: boolean;
  readonly source?: string | null;
  readonly status_code?: number | null;
  readonly details?: Json;
}

/** `node_id` of what happens to a command: the step, and of an iteration its place in the loop (api 3.1). */
export function nodeIdOf(step: string, iteration: number | null): string {
  return iteration === null ? step : `${step}#${iteration}`;
}
