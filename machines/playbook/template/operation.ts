/** What filters, methods, functions and tests have in common: named parameters and a pure body. */
import type { Run } from './run.ts';
import type { DataMap } from './values.ts';

export interface Operation {
  /** Names of the arguments in order; `name=value` is put in its place when the template is compiled. */
  readonly parameters: readonly string[];
  /** Takes any number of arguments; the named ones come as a map. */
  readonly variadic?: true;
  /** `subject` and arguments are plain JSON or undefined; a missing argument is undefined. */
  readonly apply: (run: Run, subject: unknown, args: readonly unknown[], named: DataMap) => unknown;
}

export type Operations = ReadonlyMap<string, Operation>;

export function operation(parameters: string, apply: Operation['apply']): Operation {
  return { parameters: parameters === '' ? [] : parameters.split(' '), apply };
}

export function variadic(apply: Operation['apply']): Operation {
  return { parameters: [], variadic: true, apply };
}
