/** Judging literal values: whether a value fits a field's type, and the numbers and durations of the language. */
import type { Json } from '../json.ts';
import { isMap } from '../json.ts';
import { known } from '../known.ts';
import { hasTemplate } from './names.ts';
import type { FieldType } from './tool-fields.ts';

/** True when a template is anywhere in the value, also in a key. */
export function containsTemplate(value: Json): boolean {
  if (typeof value === 'string') return hasTemplate(value);
  if (Array.isArray(value)) return value.some(containsTemplate);
  if (!isMap(value)) return false;
  return Object.entries(value).some(([key, inner]) => key.includes('{{') || containsTemplate(inner));
}

/** The number a literal stands for: a finite number or text that reads as one; null otherwise. */
export function literalNumber(value: Json): number | null {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || !/^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/.test(value)) return null;
  return Number(value);
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 };

/** Seconds of a number, numeric text, or text such as `30s`, `5m`, `1h` (language 4.1); null when it is none. */
export function literalSeconds(value: Json): number | null {
  const plain = literalNumber(value);
  if (plain !== null) return plain > 0 ? plain : null;
  const match = typeof value === 'string' ? /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*$/.exec(value) : null;
  if (!match) return null;
  const seconds = Number(match[1]) * known(UNIT_SECONDS[known(match[2])]);
  return seconds > 0 ? seconds : null;
}

/** The type a message names. */
export const TYPE_PHRASES: Readonly<Record<FieldType, string>> = {
  any: 'a value',
  string: 'a string',
  scalar: 'a string or a number',
  number: 'a number',
  boolean: 'a boolean',
  map: 'a map',
  'string or map': 'a string or a map',
  'string or list': 'a string or a list',
  'list or map': 'a list or a map',
};

/** True when a literal without templates may stand in a field of this type. Null means "not given" and always fits. */
export function fitsType(value: Json, type: FieldType): boolean {
  if (value === null) return true;
  const list = Array.isArray(value);
  const map = isMap(value);
  switch (type) {
    case 'any':
      return true;
    case 'string':
      return typeof value === 'string';
    case 'scalar':
      return !list && !map;
    case 'number':
      return literalNumber(value) !== null;
    case 'boolean':
      return typeof value === 'boolean' || (typeof value === 'string' && /^(true|false)$/i.test(value.trim()));
    case 'map':
      return map;
    case 'string or map':
      return typeof value === 'string' || map;
    case 'string or list':
      return typeof value === 'string' || list;
    case 'list or map':
      return list || map;
  }
}
