/**
 * Validates a part of a request by its valibot schema: nothing is coerced, and all problems are named at once. The
 * output of the schema takes the place of what came in.
 */
import * as v from 'valibot';
import { RequestError } from '../errors.ts';
import { ID_SENTENCE } from '../wire/ids.ts';
import { problemsOf } from '../wire/sentences.ts';
import { integralFloatsOf, type JsonPath } from './json-body.ts';

/** `body`, `query` or `params`: where sentences say the problem is. Params are spelled `path`. */
export type Part = 'body' | 'query' | 'path';

export type Validator = (value: unknown) => { value: unknown } | { error: RequestError };

export function validatorOf(schema: v.GenericSchema, part: Part): Validator {
  return (value) => {
    // The framework hands over null where there was no body; a body that is null was refused before (api 1.2).
    const given = value ?? {};
    const parsed = v.safeParse(schema, given);
    if (!parsed.success) return { error: refusal(parsed.issues, part) };
    const floats = part === 'body' ? integralFloatsOf(given) : [];
    if (floats.length > 0) {
      const issues = integerIssues(schema, given, floats);
      if (issues.length > 0) return { error: refusal(issues, part) };
    }
    return { value: parsed.output };
  };
}

function refusal(issues: readonly v.BaseIssue<unknown>[], part: Part): RequestError {
  const problems = problemsOf(issues, part);
  const sentences = problems.map((problem) => problem.sentence);
  const code = problems.every((problem) => problem.id) ? 'invalid_id' : 'validation_error';
  return new RequestError(code, sentences.join('; '), { errors: sentences });
}

/**
 * Was `1.0` written where an integer is expected? Put a value there that is a number and surely no integer, and see
 * whether the schema minds; other complaints about the stand-in do not count.
 */
function integerIssues(schema: v.GenericSchema, given: object, floats: readonly JsonPath[]): v.BaseIssue<unknown>[] {
  const trial: unknown = structuredClone(given);
  for (const path of floats) replace(trial, path, 0.5);
  const places = new Set(floats.map((path) => JSON.stringify(path)));
  return (v.safeParse(schema, trial).issues ?? []).filter(
    (issue) =>
      (issue.type === 'safe_integer' || issue.message === ID_SENTENCE) &&
      places.has(JSON.stringify((issue.path ?? []).map((item) => item.key))),
  );
}

function replace(root: unknown, path: JsonPath, value: number): void {
  const last = path.at(-1);
  let holder = root;
  for (const key of path.slice(0, -1)) holder = Reflect.get(Object(holder), key);
  if (last !== undefined) Reflect.set(Object(holder), last, value);
}
