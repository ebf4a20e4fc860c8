/**
 * The few kinds of field that requests are made of. Null counts as absent unless a field says otherwise (api 1.2), so
 * an optional field is `maybe(…)`, and nothing is ever coerced.
 */
import * as v from 'valibot';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { described } from './described.ts';
import { jsonSchemaOf } from './json-schema.ts';

/** Any JSON value; the body parser has already refused what JSON text must not hold. */
export const json = described(
  v.custom<Json>((value) => value !== undefined, 'is required'),
  {},
);

export const map = described(v.custom<JsonMap>(isMap, 'must be an object'), { type: 'object' });

export const flag = v.boolean('must be true or false');

/** Text of at least `min` and at most `max` UTF-16 units. */
export function text(max: number, min = 0): v.GenericSchema<string, string> {
  const sentence =
    min === 0 ? `must be text of at most ${max} characters` : `must be text of ${min} to ${max} characters`;
  return described(
    v.custom<string>((value) => typeof value === 'string' && value.length >= min && value.length <= max, sentence),
    { type: 'string', minLength: min, maxLength: max },
  );
}

/** An integer of the range, both ends included. */
export function integer(min: number, max: number) {
  return v.pipe(
    v.number('must be an integer'),
    v.safeInteger('must be an integer'),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max}`),
  );
}

/** A finite number of the range, both ends included. */
export function decimal(min: number, max: number) {
  return v.pipe(
    v.number('must be a number'),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max}`),
  );
}

/** One of these words, compared without regard to case. */
export function word<const W extends string>(...words: readonly W[]) {
  const spelling = new Map(words.map((each) => [each.toLowerCase(), each]));
  return v.pipe(
    described(
      v.custom<string>(
        (value) => typeof value === 'string' && spelling.has(value.toLowerCase()),
        `must be one of ${words.join(', ')}`,
      ),
      { type: 'string', enum: words },
    ),
    // The check above found this key.
    v.transform((value) => spelling.get(value.toLowerCase()) as W),
  );
}

/** Its length is looked at first: a list that is too long costs no look at its elements. */
export function list<S extends v.GenericSchema>(item: S, max: number) {
  const sentence = `must have at most ${max} elements`;
  const short = v.custom<v.InferInput<S>[]>((value) => !Array.isArray(value) || value.length <= max, sentence);
  const shown = { type: 'array', maxItems: max, items: jsonSchemaOf(item, 'input') };
  return v.pipe(described(short, shown), v.array(item, 'must be a list'));
}

/** Absent or null: undefined. */
export function maybe<S extends v.GenericSchema>(schema: S) {
  return v.nullish(schema);
}

const INSTANT = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** False for the 30th of February, which `Date` takes for a day of March. */
function isDay(value: string): boolean {
  const [year = 0, month = 0, day = 0] = value.slice(0, 10).split('-').map(Number);
  return day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

/** RFC 3339 with any offset, as UTC with milliseconds and `Z` from here on. */
export const instant = v.pipe(
  described(
    v.custom<string>(
      (value) => typeof value === 'string' && INSTANT.test(value) && !Number.isNaN(Date.parse(value)) && isDay(value),
      'must be a time such as 2026-11-20T10:15:02.113Z',
    ),
    { type: 'string', format: 'date-time' },
  ),
  v.transform((value) => new Date(value).toISOString()),
);
