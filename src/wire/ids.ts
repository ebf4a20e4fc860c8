/**
 * Ids and names on the wire (api 1.3). An id comes in as a JSON integer or a digit string and is an integer from here
 * on; nothing is coerced, so `"041007"`, `41007.5`, `"4e4"`, `0`, `null` and `true` are refused.
 */
import * as v from 'valibot';
import { readCatalogPath } from '../../machines/playbook/catalog-path.ts';
import { described } from './described.ts';

/** The sentence by which a refused id is told from other problems (`invalid_id`, api 1.7). */
export const ID_SENTENCE = 'must be an id: an integer from 1 to 9007199254740991, or its digits as a string';

const DIGITS = /^[1-9][0-9]{0,15}$/;

/** The id as an integer, or null when the value is none. */
export function parseId(value: unknown): number | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 1 ? value : null;
  if (typeof value !== 'string' || !DIGITS.test(value)) return null;
  const id = Number(value);
  return Number.isSafeInteger(id) ? id : null;
}

const given = described(
  v.custom<number | string>((value) => parseId(value) !== null, ID_SENTENCE),
  {
    anyOf: [
      { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
      { type: 'string', pattern: '^[1-9][0-9]{0,15}$' },
    ],
  },
);

export const id = v.pipe(given, v.transform(Number));

/** The sentence by which a refused place in a log is told (`invalid_id` too). */
export const PLACE_SENTENCE = 'must be an event id, or 0 for what stands before the first event';

/** In a query: an event id, or 0 for the place before the first event. */
export const logPlace = v.pipe(
  described(
    v.custom<string>(
      (value) => value === '0' || (typeof value === 'string' && parseId(value) !== null),
      PLACE_SENTENCE,
    ),
    { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
  ),
  v.transform(Number),
);

/** An id as the service sends it. */
export const idOut = described(
  v.custom<number>((value) => Number.isSafeInteger(value)),
  { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
);

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}$/;

/** Name of a credential, worker, keychain entry or pool. */
export const name = described(
  v.custom<string>(
    (value) => typeof value === 'string' && NAME.test(value),
    'must be a name of letters, digits, _ . @ - that starts with a letter, digit or _ (at most 128 characters)',
  ),
  { type: 'string', pattern: NAME.source },
);

export const catalogPath = v.pipe(
  described(
    v.custom<string>(
      (value) => typeof value === 'string' && readCatalogPath(value) !== null,
      'must be a catalog path: up to 16 segments of letters, digits, _ . - (at most 255 bytes)',
    ),
    { type: 'string', maxLength: 257 },
  ),
  v.transform((path) => readCatalogPath(path) ?? path),
);
