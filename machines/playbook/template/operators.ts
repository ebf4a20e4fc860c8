/** Python's operators on JSON values (language 8.7): equality, order, membership, arithmetic and slices. */
import { fault, limit } from './errors.ts';
import { Facade } from './facade.ts';
import { formatPercent } from './format.ts';
import { print } from './printing.ts';
import { ELEMENTS_MAX, type Run, VALUE_DEPTH_MAX } from './run.ts';
import { aKindOf, characters, isMap, kindOf, lengthOfText, member, numberOf, plain, wholeOf } from './values.ts';

/** `==`. A Facade on either side is asked first. */
export function equal(run: Run, left: unknown, right: unknown, depth = 0): boolean {
  if (left instanceof Facade || right instanceof Facade) {
    const own = left instanceof Facade ? left.equals(right) : undefined;
    const other = own ?? (right instanceof Facade ? right.equals(left) : undefined);
    return other ?? equal(run, plain(left), plain(right), depth);
  }
  if (left === right) {
    if (typeof left === 'string') run.chars(left.length);
    return true;
  }
  if (left === undefined || left === null) return right === undefined || right === null;
  if (typeof left === 'boolean' || typeof left === 'number') {
    const comparable = typeof right === 'boolean' || typeof right === 'number';
    return comparable && Number(left) === Number(right);
  }
  if (typeof left === 'string') {
    if (typeof right !== 'string' || left.length !== right.length) return false;
    run.chars(left.length);
    return false;
  }
  return typeof right === 'object' && right !== null && deepEqual(run, left, right, depth);
}

function deepEqual(run: Run, left: object, right: object, depth: number): boolean {
  if (depth > VALUE_DEPTH_MAX) limit(`a value is nested deeper than ${VALUE_DEPTH_MAX}`);
  if (Array.isArray(left)) {
    if (!Array.isArray(right) || left.length !== right.length) return false;
    run.items(left.length * 4);
    return left.every((each, index) => equal(run, each, right[index], depth + 1));
  }
  if (Array.isArray(right) || !isMap(left) || !isMap(right)) return false;
  const keys = Object.keys(left);
  if (keys.length !== Object.keys(right).length) return false;
  run.items(keys.length * 4);
  return keys.every((key) => Object.hasOwn(right, key) && equal(run, left[key], right[key], depth + 1));
}

export type Ordering = '<' | '<=' | '>' | '>=';

/** An ordering comparison; false with undefined or null, an error between different types. */
export function ordered(run: Run, operator: Ordering, left: unknown, right: unknown): boolean {
  const first = plain(left);
  const second = plain(right);
  if (first === undefined || first === null || second === undefined || second === null) return false;
  const order = compare(run, first, second);
  if (operator === '<') return order < 0;
  if (operator === '<=') return order <= 0;
  return operator === '>' ? order > 0 : order >= 0;
}

/** Negative, zero or positive; raises for values without an order. Null has none here: sorting it is an error. */
export function compare(run: Run, left: unknown, right: unknown, depth = 0): number {
  run.step();
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  if (typeof left === 'string' && typeof right === 'string') {
    run.chars(Math.min(left.length, right.length));
    return compareText(left, right);
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    if (depth > VALUE_DEPTH_MAX) limit(`a value is nested deeper than ${VALUE_DEPTH_MAX}`);
    const common = Math.min(left.length, right.length);
    for (let index = 0; index < common; index += 1) {
      if (equal(run, left[index], right[index])) continue;
      return compare(run, left[index], right[index], depth + 1);
    }
    return left.length - right.length;
  }
  const numeric = (value: unknown) => typeof value === 'number' || typeof value === 'boolean';
  if (numeric(left) && numeric(right)) return Number(left) - Number(right);
  return fault(`${kindOf(left)} and ${kindOf(right)} have no order`);
}

/** By code point: UTF-16 order puts an emoji before U+FB00. */
function compareText(left: string, right: string): number {
  if (left === right) return 0;
  const common = Math.min(left.length, right.length);
  let index = 0;
  while (index < common && left.charCodeAt(index) === right.charCodeAt(index)) index += 1;
  if (index === common) return left.length - right.length;
  return codePointRank(left.charCodeAt(index)) - codePointRank(right.charCodeAt(index));
}

function codePointRank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}

/** `needle in haystack`. */
export function contains(run: Run, needle: unknown, haystack: unknown): boolean {
  if (haystack instanceof Facade) {
    // What equals it is in it; so is what its value holds (`'error' in event.name`).
    return haystack.equals(needle) === true || contains(run, needle, haystack.plain());
  }
  if (haystack === undefined || haystack === null) return false;
  if (Array.isArray(haystack)) {
    run.items(haystack.length * 4);
    return haystack.some((each) => equal(run, needle, each));
  }
  if (typeof haystack === 'string') {
    const text = plain(needle);
    if (typeof text !== 'string') return fault(`'in' needs text on the left of a text, got ${kindOf(text)}`);
    search(run, haystack, text);
    return haystack.includes(text);
  }
  if (typeof haystack !== 'object') return fault(`'in' needs a list, map or text, got ${kindOf(haystack)}`);
  const key = plain(needle);
  if (typeof key === 'number') return Object.hasOwn(haystack, String(key));
  return typeof key === 'string' && key !== '__proto__' && Object.hasOwn(haystack, key);
}

/** Pays for a search of `needle` in `text`; the engine's search compares at most some 250 characters per place. */
export function search(run: Run, text: string, needle: string): void {
  run.chars(text.length * (1 + Math.min(needle.length, 256) / 16));
}

export function add(run: Run, left: unknown, right: unknown): unknown {
  if (typeof left === 'number' && typeof right === 'number') return finite(left + right);
  const first = plain(left);
  const second = plain(right);
  if (typeof first === 'string' && typeof second === 'string') return joined(run, first, second);
  if (Array.isArray(first) && Array.isArray(second)) {
    run.items(first.length + second.length);
    return [...first, ...second];
  }
  return arithmetic('+', first, second, (a, b) => a + b);
}

export function subtract(_run: Run, left: unknown, right: unknown): unknown {
  return arithmetic('-', plain(left), plain(right), (a, b) => a - b);
}

export function multiply(run: Run, left: unknown, right: unknown): unknown {
  const first = plain(left);
  const second = plain(right);
  if (typeof first === 'string' || Array.isArray(first)) return repeated(run, first, second);
  if (typeof second === 'string' || Array.isArray(second)) return repeated(run, second, first);
  return arithmetic('*', first, second, (a, b) => a * b);
}

function repeated(run: Run, subject: string | readonly unknown[], count: unknown): unknown {
  const times =
    typeof count === 'number' || typeof count === 'boolean' ? wholeOf(count, "'*'") : mixed('*', subject, count);
  if (times <= 0 || subject.length === 0) return typeof subject === 'string' ? '' : [];
  if (times > ELEMENTS_MAX) limit(`more than ${ELEMENTS_MAX} elements`);
  if (typeof subject === 'string') {
    run.room(subject.length * times);
    return subject.repeat(times);
  }
  run.elements(subject.length * times);
  const list: unknown[] = [];
  for (let turn = 0; turn < times; turn += 1) for (const each of subject) list.push(each);
  return list;
}

export function divide(_run: Run, left: unknown, right: unknown): unknown {
  return arithmetic('/', plain(left), plain(right), (a, b) => a / divisor(b));
}

export function floorDivide(_run: Run, left: unknown, right: unknown): unknown {
  // By way of the remainder, as Python does it: 1 // 0.1 is 9, although 1 / 0.1 rounds to 10.
  return arithmetic('//', plain(left), plain(right), (a, b) => Math.round((a - remainder(a, b)) / b));
}

/** Remainder with the sign of the divisor, or `'%s' % values`; `tuple` says that the values were written as one. */
export function modulo(run: Run, left: unknown, right: unknown, tuple = false): unknown {
  const first = plain(left);
  const second = plain(right);
  if (typeof first === 'string') return formatPercent(run, first, second, tuple);
  return arithmetic('%', first, second, remainder);
}

function remainder(a: number, b: number): number {
  const rest = a % divisor(b);
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

export function power(_run: Run, left: unknown, right: unknown): unknown {
  return arithmetic('**', plain(left), plain(right), (a, b) => (a === 0 && b < 0 ? divisor(0) : a ** b));
}

export function concatenate(run: Run, left: unknown, right: unknown): string {
  return joined(run, print(run, left), print(run, right));
}

export function negate(value: unknown): number {
  return -numberOf(plain(value), "'-'");
}

export function posit(value: unknown): number {
  return numberOf(plain(value), "'+'");
}

function joined(run: Run, left: string, right: string): string {
  run.room(left.length + right.length);
  return left + right;
}

function arithmetic(operator: string, left: unknown, right: unknown, apply: (a: number, b: number) => number): number {
  const first = typeof left === 'boolean' ? Number(left) : left;
  const second = typeof right === 'boolean' ? Number(right) : right;
  if (typeof first !== 'number' || typeof second !== 'number') return mixed(operator, left, right);
  return finite(apply(first, second));
}

function mixed(operator: string, left: unknown, right: unknown): never {
  return fault(`'${operator}' cannot be used on ${kindOf(left)} and ${kindOf(right)}`);
}

function divisor(value: number): number {
  return value === 0 ? fault('division by zero') : value;
}

/** JSON has no infinity and no NaN, so arithmetic may not make one. */
export function finite(value: number): number {
  return Number.isFinite(value) ? value : fault('result is not a finite number');
}

/** `value[start:stop:step]` of a list or a text; undefined of anything that has no elements. */
export function slice(run: Run, value: unknown, start: unknown, stop: unknown, step: unknown): unknown {
  const subject = plain(value);
  if (subject === undefined || subject === null) return undefined;
  if (typeof subject !== 'string' && !Array.isArray(subject)) return fault(`${aKindOf(subject)} cannot be sliced`);
  const stride = bound(step) ?? 1;
  if (stride === 0) return fault('slice step cannot be zero');
  const elements = typeof subject === 'string' ? characters(subject) : subject;
  const [from, to] = window(elements.length, bound(start), bound(stop), stride);
  if (typeof subject === 'string') run.room(Math.abs(to - from));
  else run.items(Math.abs(to - from));
  if (stride === 1) {
    const part = elements.slice(from, Math.max(from, to));
    return typeof subject === 'string' && typeof part !== 'string' ? part.join('') : part;
  }
  const picked: unknown[] = [];
  for (let index = from; stride > 0 ? index < to : index > to; index += stride) picked.push(elements[index]);
  return typeof subject === 'string' ? picked.join('') : picked;
}

function bound(value: unknown): number | undefined {
  const number = plain(value);
  return number === undefined || number === null ? undefined : wholeOf(number, 'a slice');
}

/** Python's `slice.indices`. */
function window(
  length: number,
  start: number | undefined,
  stop: number | undefined,
  step: number,
): readonly [number, number] {
  const lowest = step < 0 ? -1 : 0;
  const highest = step < 0 ? length - 1 : length;
  const clamp = (index: number) => Math.min(Math.max(index < 0 ? index + length : index, lowest), highest);
  const from = start === undefined ? (step < 0 ? highest : lowest) : clamp(start);
  const to = stop === undefined ? (step < 0 ? lowest : highest) : clamp(stop);
  return [from, to];
}

/** `length` of language 8.9: 0 for undefined and null. */
export function lengthOf(value: unknown): number {
  const subject = plain(value);
  if (subject === undefined || subject === null) return 0;
  if (typeof subject === 'string') return lengthOfText(subject);
  if (Array.isArray(subject)) return subject.length;
  return typeof subject === 'object' ? Object.keys(subject).length : fault(`${aKindOf(subject)} has no length`);
}

/** Reads a dotted path (`'meta.tags.0'`) or an index, as the `attribute` of list filters names it. */
export function attributeReader(path: unknown): (value: unknown) => unknown {
  if (typeof path === 'number') return (value) => member(value, path);
  if (typeof path !== 'string') return fault('an attribute is named by text or a number');
  const parts = path.split('.').map((part) => ({ part, index: /^\d+$/.test(part) ? Number(part) : null }));
  const only = parts[0];
  if (parts.length === 1 && only !== undefined && only.index === null) return (value) => member(value, only.part);
  return (value) => {
    let found = value;
    for (const { part, index } of parts) found = member(found, index === null || isMap(found) ? part : index);
    return found;
  };
}
