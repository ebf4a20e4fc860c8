/** What the tools of a simulation answer, as one writes it in a form and as the API wants it (api 2.2.16). Pure. */
import type { Json, JsonMap } from '../core/wire.ts';
import { parseJson } from '../playbook/workload-fields.ts';

export type Answer = 'result' | 'error' | 'lost';

export interface Draft {
  readonly id: number;
  readonly step: string;
  readonly answer: Answer;
  /** JSON of the result, or the message of the error. */
  readonly text: string;
  /** Kind of the error. */
  readonly kind: string;
  /** Milliseconds; empty for none. */
  readonly duration: string;
  /** How often it answers; empty for always. */
  readonly times: string;
}

/** Kinds people script most; the first ones may be tried again. */
export const ERROR_KINDS: readonly string[] = [
  'connection',
  'timeout',
  'rate_limit',
  'server_error',
  'auth',
  'not_found',
  'client_error',
  'tool_error',
  'unknown',
];

export interface Tried {
  readonly step: string;
  readonly task: string | null;
  readonly iteration: number | null;
  readonly try: number;
}

export function newDraft(id: number, step: string): Draft {
  return { id, step, answer: 'result', text: '{}', kind: 'server_error', duration: '', times: '' };
}

/** Throws a sentence that names the step and what is wrong. */
export function outcomeOf(draft: Draft): JsonMap {
  const { step, answer, text, kind } = draft;
  const duration = wholeNumber(`The duration for ${step}`, draft.duration);
  const times = wholeNumber(`How often for ${step}`, draft.times);
  return {
    step,
    ...(answer === 'result' ? { result: parseJson(`The result of ${step}`, text) } : {}),
    ...(answer === 'error'
      ? { error: { kind, code: 'SIMULATED', message: text.trim() || 'a simulated failure' } }
      : {}),
    ...(answer === 'lost' ? { worker_lost: true } : {}),
    ...(duration === null ? {} : { duration_ms: duration }),
    ...(times === null ? {} : { times }),
  };
}

function wholeNumber(name: string, text: string): number | null {
  if (text.trim() === '') return null;
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new Error(`${name} must be a whole number`);
  return value;
}

/** Tries that nothing was scripted for, counted by step, in the order they came. */
export function byStep(tries: readonly Tried[]): readonly { readonly step: string; readonly count: number }[] {
  const counts = new Map<string, number>();
  for (const { step } of tries) counts.set(step, (counts.get(step) ?? 0) + 1);
  return [...counts].map(([step, count]) => ({ step, count }));
}

export interface Script {
  readonly workload: string;
  readonly drafts: readonly Draft[];
  /** Whether a try without an outcome fails instead of yielding an empty result. */
  readonly strict: boolean;
}

/** The body of the request; throws a sentence where the form cannot be read. */
export function simulationRequest(content: string, script: Script): JsonMap {
  const workload: Json = script.workload.trim() === '' ? {} : parseJson('The inputs', script.workload);
  return {
    content,
    workload,
    outcomes: script.drafts.map(outcomeOf),
    ...(script.strict ? { default_outcome: 'fail' } : {}),
  };
}
