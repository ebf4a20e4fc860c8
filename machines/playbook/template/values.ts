/**
 * What the language knows about values: truth, members, iteration, kinds, and text with whole characters. Values are
 * JSON, undefined or a Facade; a Facade is turned into JSON by `plain` before anything but member access looks at it.
 * Only own members of maps and lists are ever read (language 8.12).
 */
import { fault } from './errors.ts';
import { Facade } from './facade.ts';
import type { Run } from './run.ts';

export type DataMap = { readonly [key: string]: unknown };

/** A pair made by `groupby`: a list of two that also answers to `.grouper` and `.list`. */
export class Group extends Array<unknown> {
  static of2(grouper: unknown, list: unknown): Group {
    const group = new Group();
    group.push(grouper, list);
    return group;
  }
}

export function plain(value: unknown): unknown {
  return value instanceof Facade ? value.plain() : value;
}

export function isMap(value: unknown): value is DataMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Facade);
}

/** Python's truth. The string rule of conditions is not here (template.ts). */
export function truthy(value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  if (value === undefined || value === null || value === 0 || value === '') return false;
  if (typeof value !== 'object') return true;
  if (value instanceof Facade) return truthy(value.plain());
  if (Array.isArray(value)) return value.length > 0;
  return !isEmptyMap(value);
}

function isEmptyMap(value: object): boolean {
  // Not a list of all keys: a map may be large. Data inherits nothing that could be counted.
  for (const _key in value) return false;
  return true;
}

/** An own member of a map or list, a character of a text, or undefined. The key must be text or a number, and no Facade. */
export function member(target: unknown, key: unknown): unknown {
  if (target === undefined || target === null) return undefined;
  if (key === '__proto__') return undefined;
  if (target instanceof Facade) {
    const name = plain(key);
    return (typeof name === 'string' && name !== '__proto__') || typeof name === 'number'
      ? data(target.member(name))
      : undefined;
  }
  if (typeof target === 'object') {
    if (!Array.isArray(target)) return ownMember(target, key);
    if (typeof key === 'number') return data(target[key < 0 ? key + target.length : key]);
    return target instanceof Group && typeof key === 'string' ? groupMember(target, key) : undefined;
  }
  if (typeof target === 'string' && typeof key === 'number') {
    const text = characters(target);
    return text[key < 0 ? key + text.length : key];
  }
  return undefined;
}

function ownMember(target: object, key: unknown): unknown {
  const name = typeof key === 'number' ? String(key) : plain(key);
  if (typeof name !== 'string' || name === '__proto__' || !Object.hasOwn(target, name)) return undefined;
  // `hasOwn` proves the key is there; the type of a JSON map is all an object can have here.
  return data((target as DataMap)[name]);
}

function groupMember(group: Group, key: string): unknown {
  return key === 'grouper' ? group[0] : key === 'list' ? group[1] : undefined;
}

/** A function is not data, whoever put it there. */
export function data(value: unknown): unknown {
  return typeof value === 'function' ? undefined : value;
}

/** The characters of a text: itself when UTF-16 units will do, else a list of whole code points. */
export function characters(text: string): string | readonly string[] {
  return SURROGATE.test(text) ? Array.from(text) : text;
}

export function lengthOfText(text: string): number {
  return characters(text).length;
}

const SURROGATE = /[\ud800-\udfff]/;

/** The elements `for` and the list filters go through: keys of a map, characters of a text, nothing of undefined. */
export function elementsOf(run: Run, value: unknown): readonly unknown[] {
  const subject = plain(value);
  if (Array.isArray(subject)) {
    run.items(subject.length);
    return subject;
  }
  if (subject === undefined || subject === null) return [];
  if (typeof subject === 'string') {
    run.items(subject.length);
    return Array.from(subject);
  }
  if (typeof subject === 'object') return keysOf(run, subject);
  return fault(`${aKindOf(subject)} cannot be iterated`);
}

/** Keys of a map, `__proto__` excepted. */
export function keysOf(run: Run, map: object): string[] {
  const keys = Object.keys(map);
  run.items(keys.length);
  return keys.includes('__proto__') ? keys.filter((key) => key !== '__proto__') : keys;
}

/** A new map from pairs. A key `__proto__` is refused: on an ordinary object it would be a prototype. */
export function mapOf(pairs: Iterable<readonly [string, unknown]>): DataMap {
  const map: { [key: string]: unknown } = {};
  for (const [key, value] of pairs) put(map, key, value);
  return map;
}

export function put(map: { [key: string]: unknown }, key: string, value: unknown): void {
  if (key === '__proto__') fault("'__proto__' cannot be a key");
  map[key] = value;
}

export type Kind = 'undefined' | 'null' | 'boolean' | 'number' | 'text' | 'list' | 'map';

/** A value of that kind, as the subject of a sentence. */
export function aKindOf(value: unknown): string {
  const kind = kindOf(value);
  if (kind === 'undefined') return 'an undefined value';
  return kind === 'null' ? kind : `a ${kind}`;
}

export function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'undefined':
      return 'undefined';
    case 'boolean':
      return 'boolean';
    case 'number':
      return 'number';
    case 'string':
      return 'text';
    default:
      return value === null ? 'null' : Array.isArray(value) ? 'list' : 'map';
  }
}

/** A number for arithmetic; booleans count as 1 and 0, as in Python. */
export function numberOf(value: unknown, what: string): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  return fault(`${what} needs a number, got ${kindOf(value)}`);
}

export function wholeOf(value: unknown, what: string): number {
  const number = numberOf(value, what);
  return Number.isInteger(number) ? number : fault(`${what} needs a whole number`);
}
