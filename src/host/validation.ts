/**
 * Validates a part of a request by its valibot schema: nothing is coerced, and all problems are named at once. The
 * output of the schema takes the place of what came in.
 */
import * as v from 'valibot';
import { RequestError } from '../errors.ts';
import { problemsOf } from '../wire/sentences.ts';
import { integralFloatsOf } from './body-reader.ts';
import type { JsonPath } from './body-rules.ts';

/** `body`, `query` or `params`: where sentences say the problem is. Params are spelled `path`. */
export type Part = 'body' | 'query' | 'path';

export type Validator = (value: unknown) => { value: unknown } | { error: RequestError };

export function validatorOf(schema: v.GenericSchema, part: Part): Validator {
  return (value) => {
    // The framework hands over null where there was no body; a body that is null was refused before (api 1.2).
    const given = value ?? {};
    const parsed = v.safeParse(schema, given);
    const floats = part === 'body' ? integralFloatsOf(given) : [];
    const issues = [...(parsed.issues ?? []), ...(floats.length > 0 ? integerIssues(schema, given, floats) : [])];
    if (issues.length > 0) return { error: refusal(issues, part) };
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
 * `1.0` was written where an integer is expected. A value that is a number and surely no integer is put there, to hear
 * how the schema minds; other complaints about the stand-in do not count.
 */
function integerIssues(schema: v.GenericSchema, given: object, floats: readonly JsonPath[]): v.BaseIssue<unknown>[] {
  const trial = floats.reduce<unknown>((value, path) => withValueAt(value, path, 0.5), given);
  const places = new Set(floats.map((path) => JSON.stringify(path)));
  return (v.safeParse(schema, trial).issues ?? []).filter(
    (issue) => !issue.type.endsWith('_value') && places.has(JSON.stringify((issue.path ?? []).map((item) => item.key))),
  );
}

/** The same value but for one place; what does not lead there is shared. */
function withValueAt(value: unknown, path: JsonPath, replacement: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return replacement;
  const copy: object = Array.isArray(value) ? [...value] : { ...Object(value) };
  Reflect.set(copy, key, withValueAt(Reflect.get(Object(value), key), rest, replacement));
  return copy;
}
