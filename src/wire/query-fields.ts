/**
 * Fields of a query string, where every value arrives as text (or as a list, when a name stands there twice). Numbers
 * are plain digits; a size out of range is refused, not clamped (api 1.8).
 */
import * as v from 'valibot';
import { described } from './described.ts';

/** Text of at most `max` characters without NUL and lone surrogates. */
export function queryText(max: number) {
  return described(
    v.custom<string>(
      (value) => typeof value === 'string' && value.length <= max && !value.includes('\0') && value.isWellFormed(),
      `must be text of at most ${max} characters`,
    ),
    { type: 'string', maxLength: max },
  );
}

export function queryInteger(min: number, max: number) {
  return v.pipe(
    described(
      v.custom<string>((value) => {
        if (typeof value !== 'string' || !/^(?:0|-?[1-9][0-9]{0,15})$/.test(value)) return false;
        return Number(value) >= min && Number(value) <= max;
      }, `must be an integer from ${min} to ${max}`),
      { type: 'integer', minimum: min, maximum: max },
    ),
    v.transform(Number),
  );
}

export function queryDecimal(min: number, max: number) {
  return v.pipe(
    described(
      v.custom<string>((value) => {
        if (typeof value !== 'string' || !/^[0-9]{1,12}(?:\.[0-9]{1,9})?$/.test(value)) return false;
        return Number(value) >= min && Number(value) <= max;
      }, `must be a number from ${min} to ${max}`),
      { type: 'number', minimum: min, maximum: max },
    ),
    v.transform(Number),
  );
}

/** In any case: clients in Python write `True`. */
export const queryFlag = v.pipe(
  described(
    v.custom<string>((value) => typeof value === 'string' && /^(?:true|false)$/i.test(value), 'must be true or false'),
    { type: 'boolean' },
  ),
  v.transform((value) => value.toLowerCase() === 'true'),
);

/** A name that may be given several times, or once as a comma list; empty parts do not count. */
export const queryList = v.pipe(
  described(
    v.custom<string | string[]>((value) => {
      const parts = Array.isArray(value) ? value : [value];
      return (
        parts.length <= 64 &&
        parts.every((part) => typeof part === 'string' && part.length <= 2048 && !part.includes('\0'))
      );
    }, 'must be a comma list'),
    { type: 'array', items: { type: 'string' } },
  ),
  v.transform((value) =>
    (Array.isArray(value) ? value : [value])
      .flatMap((part) => part.split(','))
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  ),
);
