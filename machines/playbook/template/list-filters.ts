/** Filters that take or make lists. All of them yield lists, never lazy sequences (language 8.9). */

import { known } from '../../known.ts';
import { fault } from './errors.ts';
import { type Operation, type Operations, operation, variadic } from './operation.ts';
import { add, attributeReader, compare, equal } from './operators.ts';
import { print } from './printing.ts';
import type { Run } from './run.ts';
import { TESTS } from './tests.ts';
import { aKindOf, type DataMap, elementsOf, Group, isMap, keysOf, truthy, wholeOf } from './values.ts';

type Key = (value: unknown) => unknown;

/** `filters` is asked late: `map('upper')` needs the table that this list becomes part of. */
export function listFilters(filters: () => Operations): readonly (readonly [string, Operation])[] {
  return [
    [
      'batch',
      operation('linecount fill_with', (run, subject, [count, fill]) =>
        batch(run, elementsOf(run, subject), count, fill),
      ),
    ],
    ['dictsort', operation('case_sensitive by reverse', dictsort)],
    [
      'first',
      operation('', (run, subject) =>
        typeof subject === 'string' ? firstCharacter(subject) : elementsOf(run, subject)[0],
      ),
    ],
    ['groupby', operation('attribute default case_sensitive', groupby)],
    ['items', operation('', (run, subject) => itemsOf(run, subject))],
    ['join', operation('d attribute', join)],
    [
      'keys',
      operation('', (run, subject) =>
        isMap(subject) ? keysOf(run, subject) : elementsOf(run, subject ?? []).map((_, index) => index),
      ),
    ],
    [
      'last',
      operation('', (run, subject) => (Array.isArray(subject) ? subject.at(-1) : elementsOf(run, subject).at(-1))),
    ],
    ['list', operation('', (run, subject) => [...elementsOf(run, subject)])],
    ['map', variadic((run, subject, args, named) => mapped(run, subject, args, named, filters()))],
    ['max', operation('case_sensitive attribute', (run, subject, args) => extreme(run, subject, args, 1))],
    ['min', operation('case_sensitive attribute', (run, subject, args) => extreme(run, subject, args, -1))],
    ['reject', variadic((run, subject, args) => chosen(run, subject, undefined, args, false))],
    ['rejectattr', variadic((run, subject, [name, ...args]) => chosen(run, subject, name ?? null, args, false))],
    ['reverse', operation('', (run, subject) => reversed(run, subject))],
    ['select', variadic((run, subject, args) => chosen(run, subject, undefined, args, true))],
    ['selectattr', variadic((run, subject, [name, ...args]) => chosen(run, subject, name ?? null, args, true))],
    [
      'slice',
      operation('slices fill_with', (run, subject, [count, fill]) =>
        columns(run, elementsOf(run, subject), count, fill),
      ),
    ],
    ['sort', operation('reverse case_sensitive attribute', sort)],
    ['sum', operation('attribute start', sum)],
    ['unique', operation('case_sensitive attribute', unique)],
    [
      'values',
      operation('', (run, subject) =>
        isMap(subject) ? itemsOf(run, subject).map(([, value]) => value) : [...elementsOf(run, subject)],
      ),
    ],
  ];
}

function firstCharacter(text: string): string | undefined {
  return text === '' ? undefined : String.fromCodePoint(known(text.codePointAt(0)));
}

/** Pairs of a map; of undefined none. */
export function itemsOf(run: Run, subject: unknown): [string, unknown][] {
  if (subject === undefined || subject === null) return [];
  if (!isMap(subject)) return fault(`${aKindOf(subject)} has no items`);
  return keysOf(run, subject).map((key) => [key, subject[key]]);
}

function batch(run: Run, elements: readonly unknown[], count: unknown, fill: unknown): unknown[] {
  const size = wholeOf(count, 'batch');
  if (size < 1) fault('batch needs at least 1 element a line');
  const lines: unknown[][] = [];
  for (let from = 0; from < elements.length; from += size) lines.push(elements.slice(from, from + size));
  run.items(elements.length + lines.length * 4);
  const last = lines.at(-1);
  if (last !== undefined && fill !== undefined && fill !== null) pad(run, last, size, fill);
  return lines;
}

function pad(run: Run, line: unknown[], size: number, fill: unknown): void {
  run.elements(size - line.length);
  while (line.length < size) line.push(fill);
}

/** Jinja2's `slice`: that many columns, the first ones longer, the others filled up. */
function columns(run: Run, elements: readonly unknown[], count: unknown, fill: unknown): unknown[] {
  const parts = wholeOf(count, 'slice');
  if (parts < 1) fault('slice needs at least 1 part');
  run.elements(parts);
  const size = Math.floor(elements.length / parts);
  const longer = elements.length % parts;
  const result: unknown[][] = [];
  let from = 0;
  for (let index = 0; index < parts; index += 1) {
    const to = from + size + (index < longer ? 1 : 0);
    const part = elements.slice(from, to);
    if (fill !== undefined && fill !== null && index >= longer) part.push(fill);
    result.push(part);
    from = to;
  }
  return result;
}

/** The attribute of an element, or the element itself when none is named. */
function reader(path: unknown): Key {
  return path === undefined || path === null ? (element) => element : attributeReader(path);
}

function keyBy(run: Run, path: unknown, caseSensitive: unknown, otherwise?: unknown): Key {
  const exact = truthy(caseSensitive);
  const read = reader(path);
  return (element) => {
    run.step();
    const value = read(element) ?? otherwise;
    if (exact || typeof value !== 'string') return value;
    run.chars(value.length);
    return value.toLowerCase();
  };
}

function sort(run: Run, subject: unknown, [reverse, caseSensitive, path]: readonly unknown[]): unknown[] {
  const elements = elementsOf(run, subject);
  const paths = typeof path === 'string' ? path.split(',') : [path];
  const keys = paths.map((each) => keyBy(run, each, caseSensitive));
  return sortedBy(run, elements, (element) => keys.map((key) => key(element)), truthy(reverse));
}

/** Stable in both directions, as Python's sort is. */
function sortedBy(
  run: Run,
  elements: readonly unknown[],
  keysOfElement: (element: unknown) => unknown[],
  reverse: boolean,
): unknown[] {
  const keyed = elements.map((element) => ({ element, keys: keysOfElement(element) }));
  const direction = reverse ? -1 : 1;
  keyed.sort((left, right) => {
    for (let index = 0; index < left.keys.length; index += 1) {
      const order = compare(run, left.keys[index], right.keys[index]);
      if (order !== 0) return order * direction;
    }
    return 0;
  });
  return keyed.map(({ element }) => element);
}

function dictsort(run: Run, subject: unknown, [caseSensitive, by = 'key', reverse]: readonly unknown[]): unknown[] {
  if (by !== 'key' && by !== 'value') fault("dictsort sorts by 'key' or 'value'");
  const key = keyBy(run, by === 'key' ? 0 : 1, caseSensitive);
  return sortedBy(run, itemsOf(run, subject), (pair) => [key(pair)], truthy(reverse));
}

function groupby(run: Run, subject: unknown, [path, otherwise, caseSensitive]: readonly unknown[]): unknown[] {
  if (path === undefined) fault('groupby needs an attribute');
  const key = keyBy(run, path, caseSensitive, otherwise);
  const exact = keyBy(run, path, true, otherwise);
  const groups: Group[] = [];
  let current: { readonly key: unknown; readonly list: unknown[] } | null = null;
  for (const element of sortedBy(run, elementsOf(run, subject), (each) => [key(each)], false)) {
    const value = key(element);
    if (current === null || !equal(run, current.key, value)) {
      current = { key: value, list: [] };
      groups.push(Group.of2(exact(element), current.list));
    }
    current.list.push(element);
  }
  return groups;
}

function unique(run: Run, subject: unknown, [caseSensitive, path]: readonly unknown[]): unknown[] {
  const key = keyBy(run, path, caseSensitive);
  const seen = new Set<unknown>();
  const compound: unknown[] = [];
  return elementsOf(run, subject).filter((element) => {
    const raw = key(element);
    const value = typeof raw === 'boolean' ? Number(raw) : (raw ?? null);
    if (typeof value !== 'object' || value === null) {
      const fresh = !seen.has(value);
      seen.add(value);
      return fresh;
    }
    if (compound.some((each) => equal(run, each, value))) return false;
    compound.push(value);
    return true;
  });
}

function extreme(run: Run, subject: unknown, [caseSensitive, path]: readonly unknown[], direction: 1 | -1): unknown {
  const key = keyBy(run, path, caseSensitive);
  const elements = elementsOf(run, subject);
  let best = elements[0];
  let bestKey = elements.length === 0 ? undefined : key(best);
  for (const element of elements.slice(1)) {
    const candidate = key(element);
    if (compare(run, candidate, bestKey) * direction <= 0) continue;
    best = element;
    bestKey = candidate;
  }
  return best;
}

function sum(run: Run, subject: unknown, [path, start = 0]: readonly unknown[]): unknown {
  let total = start;
  const read = reader(path);
  for (const element of elementsOf(run, subject)) {
    run.step();
    total = add(run, total, read(element));
  }
  return total;
}

function join(run: Run, subject: unknown, [separator, path]: readonly unknown[]): string {
  const glue = print(run, separator);
  const elements = elementsOf(run, subject);
  run.room(glue.length * elements.length);
  const read = reader(path);
  const texts = elements.map((element) => print(run, read(element)));
  run.room(texts.reduce((length, text) => length + text.length, 0));
  return texts.join(glue);
}

function reversed(run: Run, subject: unknown): unknown {
  if (typeof subject !== 'string') return [...elementsOf(run, subject)].reverse();
  run.room(subject.length);
  return Array.from(subject).reverse().join('');
}

function mapped(run: Run, subject: unknown, args: readonly unknown[], named: DataMap, filters: Operations): unknown[] {
  const elements = elementsOf(run, subject);
  if (args.length === 0) {
    const path = named['attribute'];
    if (path === undefined) fault("map needs a filter or 'attribute'");
    const read = attributeReader(path);
    return elements.map((element) => {
      run.step();
      const value = read(element);
      return value === undefined ? named['default'] : value;
    });
  }
  const [name, ...rest] = args;
  const filter = typeof name === 'string' ? filters.get(name) : undefined;
  if (filter === undefined) return fault('map names an unknown filter');
  const given = filter.variadic ? rest : placed(filter, rest, named);
  return elements.map((element) => {
    run.step();
    return filter.apply(run, element, given, named);
  });
}

function placed(filter: Operation, args: readonly unknown[], named: DataMap): readonly unknown[] {
  const given = [...args];
  for (const [name, value] of Object.entries(named)) {
    const index = filter.parameters.indexOf(name);
    if (index < 0) fault(`map's filter has no argument '${name}'`);
    given[index] = value;
  }
  return given;
}

/** `select` and its kin: without a test the element's own truth decides; `path` undefined means the element itself. */
function chosen(run: Run, subject: unknown, path: unknown, args: readonly unknown[], wanted: boolean): unknown[] {
  const elements = elementsOf(run, subject);
  const [name, ...rest] = args;
  const test = name === undefined ? null : typeof name === 'string' ? TESTS.get(name) : undefined;
  if (test === undefined) return fault('a selection names an unknown test');
  const read: Key = path === undefined ? (element) => element : attributeReader(path);
  return elements.filter((element) => {
    run.step();
    const value = read(element);
    return (test === null ? truthy(value) : test.holds(run, value, rest)) === wanted;
  });
}
