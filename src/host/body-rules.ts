/**
 * What a request body must be (api 1.2): fatal UTF-8, JSON, and none of what PostgreSQL or a later reader would choke on.
 * A refusal names the JSON path of the offender. Pure: small bodies are read with it on the spot, large ones in a thread
 * of their own (body-reader.ts).
 *
 * `1.0` and `1e3` are numbers but not integers here, and after parsing nobody can tell. Such literals are rare, so the
 * text is only searched for them; when there are any, it is parsed once more with fractions in their places, and looked at
 * where the endpoint expects integers (`IntegerPlaces`).
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { IntegerPlaces } from './integer-places.ts';

const DEPTH_MAX = 64;
/** Places of integers written as fractions that are looked for: one is enough to refuse the body. */
const FLOATS_MAX = 100;
const decoder = new TextDecoder('utf-8', { fatal: true });
const EMPTY: JsonMap = Object.freeze({});

/** A number literal with a fraction of zeros, or with an exponent, where a value can stand. */
const SUSPECT = /[:[,]\s*-?\d+(?:\.0+\s*[,\]}]|(?:\.\d+)?[eE])/;

const LITERALS = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const WRITTEN_OTHERWISE = /[.eE]/;

export type JsonPath = readonly (string | number)[];

export interface Reading {
  readonly json: unknown;
  /** Where an integer is expected and was written as a fraction or with an exponent. */
  readonly floats: readonly JsonPath[];
}

export interface Refusal {
  readonly code: 'invalid_json' | 'validation_error';
  readonly sentence: string;
}

export interface BodyRules {
  /** Any JSON will do; else the root must be an object. */
  readonly anyRoot: boolean;
  readonly integers: IntegerPlaces | null;
}

/** No text at all is an empty object. Never throws. */
export function readJson(bytes: Uint8Array, { anyRoot, integers }: BodyRules): Reading | Refusal {
  const text = decode(bytes);
  if (text === null) return { code: 'invalid_json', sentence: 'body: must be UTF-8' };
  const parsed = parse(text);
  if (parsed === null) return { code: 'invalid_json', sentence: 'body: must be JSON' };
  const { json } = parsed;
  if (!anyRoot && !isMap(json)) return { code: 'validation_error', sentence: 'body: must be an object' };
  const problem = inspect(json, 1);
  if (problem !== null) return { code: 'validation_error', sentence: `body${problem.path}: ${problem.sentence}` };
  return { json, floats: integers === null || !SUSPECT.test(text) ? [] : integralFloats(text, integers) };
}

export function isRefusal(reading: object): reading is Refusal {
  return 'sentence' in reading;
}

function decode(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

function parse(text: string): { readonly json: unknown } | null {
  // A text of nothing but white space has no other character to find.
  if (!/\S/.test(text)) return { json: EMPTY };
  try {
    return { json: JSON.parse(text) };
  } catch {
    return null;
  }
}

interface Offence {
  /** Written only once there is an offender, on the way back up. */
  readonly path: string;
  readonly sentence: string;
}

const here = (sentence: string): Offence => ({ path: '', sentence });
const under = (step: string, offence: Offence): Offence => ({ ...offence, path: step + offence.path });

/** The first offender. */
function inspect(value: unknown, depth: number): Offence | null {
  if (typeof value === 'string') return textProblem(value);
  if (typeof value === 'number') return Number.isFinite(value) ? null : here('must be a finite number');
  if (typeof value !== 'object' || value === null) return null;
  if (depth > DEPTH_MAX) return here(`must not be nested deeper than ${DEPTH_MAX}`);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const offence = inspect(value[index], depth + 1);
      if (offence !== null) return under(`[${index}]`, offence);
    }
    return null;
  }
  for (const key of Object.keys(value)) {
    const offence = keyProblem(key) ?? inspect((value as JsonMap)[key], depth + 1);
    if (offence !== null) return under(`.${printable(key)}`, offence);
  }
  return null;
}

function textProblem(text: string): Offence | null {
  if (text.includes('\0')) return here('must not contain U+0000');
  return text.isWellFormed() ? null : here('must not contain a lone surrogate');
}

function keyProblem(key: string): Offence | null {
  if (key === '__proto__') return here('is a key that is not allowed');
  return key.includes('\0') || !key.isWellFormed() ? here('is a key with U+0000 or a lone surrogate') : null;
}

function printable(key: string): string {
  return key
    .toWellFormed()
    .replace(/\p{Cc}/gu, '?')
    .slice(0, 64);
}

function integralFloats(text: string, integers: IntegerPlaces): JsonPath[] {
  const found: JsonPath[] = [];
  collect(JSON.parse(markFloats(text)) as Json, integers, [], found);
  return found;
}

/** The same JSON with a surely fractional number wherever an integer is written as `1.0` or `1e3`. */
function markFloats(text: string): string {
  const parts: string[] = [];
  for (let at = 0; at < text.length; ) {
    const quote = text.indexOf('"', at);
    const end = quote === -1 ? text.length : quote;
    const outside = text.slice(at, end);
    parts.push(WRITTEN_OTHERWISE.test(outside) ? outside.replaceAll(LITERALS, marked) : outside);
    at = quote === -1 ? end : afterString(text, quote);
    parts.push(text.slice(end, at));
  }
  return parts.join('');
}

function marked(literal: string): string {
  return WRITTEN_OTHERWISE.test(literal) && Number.isInteger(Number(literal)) ? '0.5' : literal;
}

/** Where a string literal that begins at `quote` is over. */
function afterString(text: string, quote: number): number {
  for (let end = text.indexOf('"', quote + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === '\\') slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  }
  return text.length;
}

function collect(value: Json | undefined, places: IntegerPlaces, path: JsonPath, found: JsonPath[]): void {
  if (found.length >= FLOATS_MAX) return;
  if (typeof value === 'number') {
    if (places.integer === true && !Number.isInteger(value)) found.push(path);
  } else if (Array.isArray(value)) {
    if (places.items === undefined) return;
    for (let index = 0; index < value.length; index++) collect(value[index], places.items, [...path, index], found);
  } else if (isMap(value)) {
    for (const [key, inner] of Object.entries(places.members ?? {})) {
      if (Object.hasOwn(value, key)) collect(value[key], inner, [...path, key], found);
    }
  }
}
