/**
 * The outcome of a try as templates see it (language 7.3), and the failures that the engine itself makes. A tool's
 * answer is not trusted: whatever is not an outcome becomes a failure of kind `unknown`.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { type ErrorKind, failure } from '../tools/errors.ts';
import { FieldProblem } from '../tools/fields.ts';
import { checkResult } from '../tools/sanitize.ts';
import type { ToolFailure, ToolOutcome } from '../tools/tool.ts';

/** A try that ended, with what the envelope says beyond the tool's own answer. */
export interface EndedTry {
  readonly outcome: ToolOutcome;
  readonly kind: string;
  readonly label: string;
  readonly attempt: number;
  readonly durationMs: number;
}

/** `output` in rules and later tasks. */
export function envelopeOf({ outcome, kind, label, attempt, durationMs }: EndedTry): JsonMap {
  const meta = { attempt, duration_ms: Math.round(durationMs), task: label };
  const extras = Object.fromEntries(
    [outcome.http, outcome.pg, outcome.py, outcome.js].flatMap((value, index) =>
      value === undefined ? [] : [[EXTRAS[index] ?? '', value]],
    ),
  );
  const error = outcome.ok ? null : errorOf(outcome, kind);
  return { status: outcome.ok ? 'ok' : 'error', data: outcome.data, ref: null, error, ...extras, meta };
}

const EXTRAS = ['http', 'pg', 'py', 'js'] as const;

/** The failure in the fields of language 7.3; `status` repeats `status_code`. */
export function errorOf(outcome: ToolFailure, source: string): JsonMap {
  const { kind, code, message, retryable, status_code = null } = outcome.error;
  // Guards on the server see of a task only what it reports, so where the code failed travels with the error.
  const details = outcome.error.details ?? outcome.py ?? outcome.js ?? null;
  return { kind, code, message, retryable, source, status_code, status: status_code, details };
}

/** What a tool answered, or a failure that says why it is no answer. */
export function checkedOutcome(answer: unknown): ToolOutcome {
  if (!isOutcome(answer)) return failure('unknown', 'TOOL_ANSWER', 'the tool gave no outcome');
  const problem = checkResult(answer.data ?? null);
  if (problem === null) return answer.data === undefined ? { ...answer, data: null } : answer;
  return failure('unknown', 'TOOL_ANSWER', problem);
}

/** What a thrown value means for a try. */
export function thrownFailure(error: unknown): ToolFailure {
  if (error instanceof FieldProblem) return failure('config', 'TOOL_FIELD', error.message);
  const message = error instanceof Error ? error.message : 'the tool threw something that is no error';
  return failure('unknown', 'TOOL_THREW', message);
}

export function engineFailure(kind: ErrorKind, code: string, message: string, data: Json = null): ToolFailure {
  return failure(kind, code, message, { data });
}

function isOutcome(answer: unknown): answer is ToolOutcome {
  if (!isMap(answer)) return false;
  if (answer['ok'] === true) return true;
  const error = answer['error'];
  return (
    answer['ok'] === false && isMap(error) && typeof error['kind'] === 'string' && typeof error['message'] === 'string'
  );
}
