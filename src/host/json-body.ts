/**
 * Reads request bodies (api 1.2): fatal UTF-8, JSON whose root is an object, and none of what PostgreSQL or a later
 * reader would choke on. A refusal names the JSON path of the offender.
 *
 * `1.0` and `1e3` are numbers but not integers here, and after parsing nobody can tell. Such literals are rare, so the
 * text is only searched for them, and their places are kept for the validator (`integralFloatsOf`).
 */
import { isMap, type JsonMap } from '../../machines/json.ts';
import { BodyReading } from '../api/body-reading.ts';
import { RequestError } from '../errors.ts';

const DEPTH_MAX = 64;
const decoder = new TextDecoder('utf-8', { fatal: true });
const EMPTY: JsonMap = Object.freeze({});

/** A number literal with a fraction of zeros, or with an exponent, where a value can stand. */
const SUSPECT = /[:[,]\s*-?\d+(?:\.0+\s*[,\]}]|(?:\.\d+)?[eE])/;

export type JsonPath = readonly (string | number)[];
const floats = new WeakMap<object, readonly JsonPath[]>();

/** Places in a body whose literal was written as a fraction though its value is an integer. */
export function integralFloatsOf(body: object): readonly JsonPath[] {
  return floats.get(body) ?? [];
}

/** Throws RequestError `invalid_json` or `validation_error`. An empty body is an empty object. */
export function parseBody(bytes: Buffer): JsonMap {
  if (bytes.length === 0) return EMPTY;
  const text = decode(bytes);
  const body = parse(text);
  if (!isMap(body)) throw invalid('validation_error', 'body: must be an object');
  const problem = findProblem(body);
  if (problem !== null) throw invalid('validation_error', problem);
  if (SUSPECT.test(text)) noteIntegralFloats(text, body);
  return body;
}

/** For endpoints that take JSON of any form and answer for it themselves. Never throws. */
export function readAnyBody(bytes: Buffer): BodyReading {
  try {
    const json = parse(decode(bytes));
    const problem = findProblem(json);
    return new BodyReading(json, problem === null ? null : invalid('validation_error', problem));
  } catch (error) {
    if (error instanceof RequestError) return new BodyReading(undefined, error);
    throw error;
  }
}

function decode(bytes: Buffer): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw invalid('invalid_json', 'body: must be UTF-8');
  }
}

function parse(text: string): unknown {
  if (text.trim() === '') return EMPTY;
  try {
    return JSON.parse(text);
  } catch {
    throw invalid('invalid_json', 'body: must be JSON');
  }
}

function invalid(code: 'invalid_json' | 'validation_error', sentence: string): RequestError {
  return new RequestError(code, sentence, { errors: [sentence] });
}

/** The first offender as a sentence. Paths are only written once one is found, on the way back up. */
function findProblem(root: unknown): string | null {
  const problem = inspect(root, 1);
  return problem === null ? null : `body${problem.path}: ${problem.sentence}`;
}

interface Offence {
  readonly path: string;
  readonly sentence: string;
}

const here = (sentence: string): Offence => ({ path: '', sentence });
const under = (step: string, offence: Offence): Offence => ({ ...offence, path: step + offence.path });

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
  for (const [key, member] of Object.entries(value)) {
    const offence = keyProblem(key) ?? inspect(member, depth + 1);
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

/** The reviver sees the source of each literal; holders are the objects of this second parse, so paths are walked after. */
function noteIntegralFloats(text: string, body: JsonMap): void {
  const marks = new Map<object, (string | number)[]>();
  const root: unknown = JSON.parse(
    text,
    function mark(this: object, key: string, value: unknown, context?: { source?: string }) {
      const source = context?.source;
      if (typeof value === 'number' && source !== undefined && Number.isInteger(value) && /[.eE]/.test(source)) {
        const keys = marks.get(this) ?? [];
        keys.push(Array.isArray(this) ? Number(key) : key);
        marks.set(this, keys);
      }
      return value;
    },
  );
  const found: JsonPath[] = [];
  collect(root, [], marks, found);
  if (found.length > 0) floats.set(body, found);
}

function collect(
  value: unknown,
  path: JsonPath,
  marks: ReadonlyMap<object, readonly (string | number)[]>,
  found: JsonPath[],
): void {
  if (typeof value !== 'object' || value === null) return;
  for (const key of marks.get(value) ?? []) found.push([...path, key]);
  for (const [key, member] of Object.entries(value)) {
    collect(member, [...path, Array.isArray(value) ? Number(key) : key], marks, found);
  }
}
