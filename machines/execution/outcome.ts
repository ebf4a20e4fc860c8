/**
 * Outcome envelopes and failure payloads: what guards see as `output` and `error`, and what an execution that failed
 * says of itself (language 5.2, 5.7, 7.3).
 */
import type { Failure } from '../events.ts';
import { isMap, type Json, type JsonMap } from '../json.ts';
import { present } from '../known.ts';
import type { StepFailure } from './run.ts';
import type { Situation } from './stage.ts';

/** Canonical event name of a situation, and what it also compares equal to. */
export function eventNames(situation: Situation): { readonly name: string; readonly aliases: ReadonlySet<string> } {
  return situation.outcome === 'skipped'
    ? SKIPPED
    : situation.outcome === 'ok'
      ? situation.isLoop
        ? LOOP_DONE
        : DONE
      : situation.isLoop
        ? LOOP_FAILED
        : FAILED;
}

const DONE = { name: 'call.done', aliases: new Set(['call.done', 'step.done', 'step.exit', 'command.completed']) };
const LOOP_DONE = {
  name: 'loop.done',
  aliases: new Set(['loop.done', 'call.done', 'step.done', 'step.exit', 'command.completed']),
};
const FAILED = { name: 'call.error', aliases: new Set(['call.error', 'step.failed', 'command.failed']) };
const LOOP_FAILED = {
  name: 'call.error',
  aliases: new Set(['call.error', 'step.failed', 'command.failed', 'loop.failed']),
};
const SKIPPED = { name: 'step.skipped', aliases: new Set(['step.skipped']) };

/** The error of a situation as templates see it (`status` repeats `status_code`), or null. */
export function errorOf(situation: Situation): JsonMap | null {
  const failure = situation.failure ?? (situation.outcome === 'failed' ? present(situation.body?.error) : null);
  return failure === null ? null : errorMap(failure);
}

export function errorMap(failure: Failure): JsonMap {
  return {
    kind: failure.kind,
    code: failure.code,
    message: failure.message,
    retryable: failure.retryable ?? false,
    source: failure.source ?? null,
    status_code: failure.status_code ?? null,
    status: failure.status_code ?? null,
    details: failure.details ?? null,
  };
}

/** The task whose outcome the situation tells: the one that failed, else the one that ran last. Null for a loop. */
export function lastTaskOf({ step, isLoop, outcome, body }: Situation): { label: string; kind: string } | null {
  if (isLoop || outcome === 'skipped') return null;
  const { tasks, pipeline } = step.step;
  // Records are in the order in which the tasks last ran.
  const label = body?.failedTask ?? (pipeline ? Object.keys(body?.tasks ?? {}).at(-1) : tasks[0]?.name);
  const task = tasks.find(({ name }) => name === label);
  return task === undefined ? null : { label: task.name, kind: task.kind };
}

/** The members of `output` beside `data`, `ref` and `http`. */
export function envelopeExtras(situation: Situation): JsonMap {
  const error = situation.failure ?? situation.body?.error ?? null;
  const task = lastTaskOf(situation);
  const record = task === null ? undefined : situation.body?.tasks?.[task.label];
  const extras: { [name: string]: Json } = {
    status: situation.outcome === 'ok' ? 'ok' : situation.outcome === 'failed' ? 'error' : 'skipped',
    error: errorOf(situation),
    meta: {
      attempt: (isMap(record) ? record['attempts'] : null) ?? null,
      duration_ms: (isMap(record) ? record['duration_ms'] : null) ?? null,
      task: task?.label ?? null,
    },
  };
  // A failure of the step itself (its `set`) is none of its task.
  if (situation.outcome !== 'failed' || situation.failure !== null || error === null) return extras;
  if (task?.kind === 'postgres') {
    const sqlstate = /^[0-9A-Z]{5}$/.test(error.code ?? '') ? error.code : null;
    extras['pg'] = { code: sqlstate, sqlstate };
  }
  const details = isMap(error.details) ? error.details : {};
  if (task?.kind === 'python') extras['py'] = traceOf(error, details, 'PY_');
  if (task?.kind === 'javascript') extras['js'] = traceOf(error, details, 'JS_');
  return extras;
}

function traceOf(error: Failure, details: JsonMap, prefix: string): JsonMap {
  const code = error.code ?? '';
  return {
    exception: details['exception'] ?? (code.startsWith(prefix) ? code.slice(prefix.length) : code),
    traceback: details['traceback'] ?? null,
  };
}

/** `{message, failed_steps, errors}` of language 5.7. */
export function failurePayload(failures: readonly StepFailure[]): JsonMap {
  const steps = [...new Set(failures.map((failure) => failure.step))];
  return {
    message: `Failed steps: ${steps.join(', ')}`,
    failed_steps: steps,
    errors: failures.map((failure) => ({
      step: failure.step,
      task: failure.task,
      iteration: failure.iteration,
      kind: failure.kind,
      code: failure.code,
      message: failure.message,
    })),
  };
}

/** `Failed steps: a, b: <first message>` (api 3.1). */
export function failureSentence(failures: readonly StepFailure[]): string {
  const first = failures[0];
  const steps = [...new Set(failures.map((failure) => failure.step))].join(', ');
  return first === undefined ? 'The execution failed' : `Failed steps: ${steps}: ${first.message}`;
}
