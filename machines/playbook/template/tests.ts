/** The tests of language 8.10, after `is` and by name inside `select` and friends. Subjects may be a Facade. */
import { fault } from './errors.ts';
import { contains, equal, type Ordering, ordered } from './operators.ts';
import type { Run } from './run.ts';
import { aKindOf, isMap, plain } from './values.ts';

export interface Test {
  /** How many arguments it needs; `x is divisibleby 7` takes one without brackets. */
  readonly arguments: 0 | 1;
  readonly holds: (run: Run, subject: unknown, args: readonly unknown[]) => boolean;
}

/** A test of the plain value alone. */
function of(check: (value: unknown) => boolean): Test {
  return { arguments: 0, holds: (_run, subject) => check(plain(subject)) };
}

function against(holds: (run: Run, subject: unknown, other: unknown) => boolean): Test {
  return { arguments: 1, holds: (run, subject, [other]) => holds(run, subject, other) };
}

function inOrder(operator: Ordering): Test {
  return against((run, subject, other) => ordered(run, operator, subject, other));
}

const equals = against((run, subject, other) => equal(run, subject, other));
const differs = against((run, subject, other) => !equal(run, subject, other));

export const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ['boolean', of((value) => typeof value === 'boolean')],
  // A Facade is a value whatever it stands for, so asking this fetches nothing.
  ['defined', { arguments: 0, holds: (_run, subject) => subject !== undefined }],
  ['undefined', { arguments: 0, holds: (_run, subject) => subject === undefined }],
  ['divisibleby', against((_run, subject, other) => isDivisible(plain(subject), plain(other)))],
  ['even', of((value) => isDivisible(value, 2))],
  // Not what is not even: a number with a fraction is neither.
  ['odd', of((value) => isDivisible(numeric(value) - 1, 2))],
  ['eq', equals],
  ['equalto', equals],
  ['==', equals],
  ['ne', differs],
  ['!=', differs],
  ['lt', inOrder('<')],
  ['<', inOrder('<')],
  ['le', inOrder('<=')],
  ['<=', inOrder('<=')],
  ['gt', inOrder('>')],
  ['>', inOrder('>')],
  ['ge', inOrder('>=')],
  ['>=', inOrder('>=')],
  ['in', against((run, subject, other) => contains(run, subject, other))],
  ['true', of((value) => value === true)],
  ['false', of((value) => value === false)],
  ['none', of((value) => value === null)],
  ['number', of((value) => typeof value === 'number' || typeof value === 'boolean')],
  ['integer', of((value) => Number.isInteger(value))],
  ['float', of((value) => typeof value === 'number' && !Number.isInteger(value))],
  ['string', of((value) => typeof value === 'string')],
  ['mapping', of(isMap)],
  ['sequence', of((value) => typeof value === 'string' || Array.isArray(value))],
  [
    'iterable',
    of((value) => value === undefined || typeof value === 'string' || (typeof value === 'object' && value !== null)),
  ],
  ['sameas', against((_run, subject, other) => plain(subject) === plain(other))],
  ['lower', of((value) => typeof value === 'string' && isCased(value, value.toLowerCase()))],
  ['upper', of((value) => typeof value === 'string' && isCased(value, value.toUpperCase()))],
]);

function isDivisible(value: unknown, by: unknown): boolean {
  const divisor = numeric(by);
  return divisor === 0 ? fault('division by zero') : numeric(value) % divisor === 0;
}

/** True is 1, as in Python. */
function numeric(value: unknown): number {
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'number' ? value : fault(`${aKindOf(value)} cannot be divided`);
}

/** Python's `islower` and `isupper`: all letters are in that case and there is at least one. */
export function isCased(text: string, folded: string): boolean {
  return text === folded && text.toLowerCase() !== text.toUpperCase();
}
