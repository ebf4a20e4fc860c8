/** The methods of language 8.11, by the type of what they are called on. Nothing else can be called, nothing mutates. */
import { fault } from './errors.ts';
import { formatBraces } from './format.ts';
import { itemsOf } from './list-filters.ts';
import { type Operation, type Operations, operation, variadic } from './operation.ts';
import { equal } from './operators.ts';
import type { Run } from './run.ts';
import { isCased } from './tests.ts';
import {
  capitalized,
  linesOf,
  occurrences,
  padded,
  positionOf,
  replaced,
  type Side,
  splitFromRight,
  splitText,
  stripped,
  swappedCase,
  titledLetters,
} from './text.ts';
import { aKindOf, characters, elementsOf, kindOf, member, truthy, wholeOf } from './values.ts';

/** The method of that name on that value, or an error: unknown methods and mutating ones do not exist. */
export function methodOf(subject: unknown, name: string): Operation {
  const kind = kindOf(subject);
  const table =
    kind === 'text' ? TEXT_METHODS : kind === 'map' ? MAP_METHODS : kind === 'list' ? LIST_METHODS : undefined;
  return table?.get(name) ?? fault(`${aKindOf(subject)} has no method '${name}'`);
}

type OnText = (run: Run, text: string, args: readonly unknown[]) => unknown;

function onText(parameters: string, apply: OnText): Operation {
  return operation(parameters, (run, subject, args) => {
    // `methodOf` chose the table by the type of the subject.
    const text = subject as string;
    run.chars(text.length);
    const result = apply(run, text, args);
    if (typeof result === 'string') run.room(result.length);
    return result;
  });
}

function text(value: unknown, what: string): string {
  return typeof value === 'string' ? value : fault(`${what} needs text, got ${kindOf(value)}`);
}

function count(value: unknown, otherwise: number, what: string): number {
  return value === undefined || value === null ? otherwise : wholeOf(value, what);
}

function padding(name: string, side: Side): readonly [string, Operation] {
  return [
    name,
    onText('width fillchar', (run, self, [width, fill = ' ']) =>
      padded(run, self, wholeOf(width, name), text(fill, name), side),
    ),
  ];
}

function stripping(name: string, side: Side): readonly [string, Operation] {
  return [name, onText('chars', (_run, self, [chars]) => stripped(self, chars, side))];
}

function position(name: string, last: boolean, strict: boolean): readonly [string, Operation] {
  return [
    name,
    onText('sub start end', (run, self, [sub, start, end]) => {
      const at = positionOf(run, self, text(sub, name), count(start, 0, name), count(end, self.length, name), last);
      return at < 0 && strict ? fault('the text is not found') : at;
    }),
  ];
}

function affix(name: string, matches: (self: string, part: string) => boolean): readonly [string, Operation] {
  return [
    name,
    onText('affix start end', (_run, self, [parts, start, end]) => {
      const piece = pieceOf(self, start, end, name);
      if (piece === null) return false;
      return Array.isArray(parts)
        ? parts.some((part) => matches(piece, text(part, name)))
        : matches(piece, text(parts, name));
    }),
  ];
}

/** The text between two places, as Python's methods take them; null where it would begin behind its end. */
function pieceOf(self: string, start: unknown, end: unknown, name: string): string | null {
  if ((start === undefined || start === null) && (end === undefined || end === null)) return self;
  const letters = characters(self);
  const place = (given: unknown, otherwise: number): number => {
    const index = count(given, otherwise, name);
    return index < 0 ? Math.max(0, index + letters.length) : index;
  };
  const from = place(start, 0);
  const to = Math.min(place(end, letters.length), letters.length);
  if (from > to) return null;
  const piece = letters.slice(from, to);
  return typeof piece === 'string' ? piece : piece.join('');
}

function pattern(name: string, whole: RegExp): readonly [string, Operation] {
  return [name, onText('', (_run, self) => whole.test(self))];
}

const TEXT_METHODS: Operations = new Map<string, Operation>([
  ['capitalize', onText('', (_run, self) => capitalized(self))],
  padding('center', 'both'),
  [
    'count',
    onText('sub start end', (run, self, [sub, start, end]) => {
      const piece = pieceOf(self, start, end, 'count');
      return piece === null ? 0 : occurrences(run, piece, text(sub, 'count'));
    }),
  ],
  affix('endswith', (self, part) => self.endsWith(part)),
  position('find', false, false),
  ['format', variadic((run, subject, args, named) => formatBraces(run, text(subject, 'format'), args, named))],
  position('index', false, true),
  pattern('isalnum', /^[\p{L}\p{N}]+$/u),
  pattern('isalpha', /^\p{L}+$/u),
  pattern('isdigit', /^(?:\p{Nd}|[²³¹⁰⁴-⁹₀-₉])+$/u),
  ['islower', onText('', (_run, self) => isCased(self, self.toLowerCase()))],
  pattern('isnumeric', /^\p{N}+$/u),
  ['isupper', onText('', (_run, self) => isCased(self, self.toUpperCase()))],
  ['join', onText('iterable', (run, self, [list]) => joinTexts(run, self, list))],
  padding('ljust', 'right'),
  ['lower', onText('', (_run, self) => self.toLowerCase())],
  stripping('lstrip', 'left'),
  ['partition', onText('sep', (run, self, [separator]) => partition(run, self, text(separator, 'partition')))],
  ['removeprefix', onText('prefix', (_run, self, [part]) => withoutPrefix(self, text(part, 'removeprefix')))],
  ['removesuffix', onText('suffix', (_run, self, [part]) => withoutSuffix(self, text(part, 'removesuffix')))],
  [
    'replace',
    onText('old new count', (run, self, [old, fresh, most]) =>
      replaced(run, self, text(old, 'replace'), text(fresh, 'replace'), count(most, -1, 'replace')),
    ),
  ],
  position('rfind', true, false),
  padding('rjust', 'left'),
  [
    'rsplit',
    onText('sep maxsplit', (run, self, [separator, most]) =>
      splitFromRight(run, self, separator, count(most, -1, 'rsplit')),
    ),
  ],
  stripping('rstrip', 'right'),
  [
    'split',
    onText('sep maxsplit', (run, self, [separator, most]) => splitText(run, self, separator, count(most, -1, 'split'))),
  ],
  ['splitlines', onText('keepends', (run, self, [keep]) => counted(run, linesOf(self, truthy(keep))))],
  affix('startswith', (self, part) => self.startsWith(part)),
  stripping('strip', 'both'),
  ['swapcase', onText('', (_run, self) => swappedCase(self))],
  ['title', onText('', (_run, self) => titledLetters(self))],
  ['upper', onText('', (_run, self) => self.toUpperCase())],
  ['zfill', onText('width', zeroFilled)],
]);

const MAP_METHODS: Operations = new Map<string, Operation>([
  ['copy', operation('', (_run, subject) => subject)],
  ['get', operation('key default', (_run, subject, [key, otherwise = null]) => own(subject, key, otherwise))],
  ['items', operation('', (run, subject) => itemsOf(run, subject))],
  ['keys', operation('', (run, subject) => itemsOf(run, subject).map(([key]) => key))],
  ['values', operation('', (run, subject) => itemsOf(run, subject).map(([, value]) => value))],
]);

const LIST_METHODS: Operations = new Map<string, Operation>([
  ['copy', operation('', (run, subject) => [...elementsOf(run, subject)])],
  [
    'count',
    operation(
      'value',
      (run, subject, [value]) => elementsOf(run, subject).filter((each) => equal(run, each, value)).length,
    ),
  ],
  [
    'index',
    operation('value start end', (run, subject, [value, start, end]) => {
      const elements = elementsOf(run, subject);
      const from = count(start, 0, 'index');
      const to = count(end, elements.length, 'index');
      const at = elements.findIndex((each, index) => index >= from && index < to && equal(run, each, value));
      return at < 0 ? fault('the value is not in the list') : at;
    }),
  ],
]);

function own(subject: unknown, key: unknown, otherwise: unknown): unknown {
  const value = member(subject, key);
  return value === undefined ? otherwise : value;
}

function joinTexts(run: Run, glue: string, list: unknown): string {
  const parts = elementsOf(run, list).map((each) => text(each, 'join'));
  run.room(parts.reduce((length, part) => length + part.length + glue.length, 0));
  return parts.join(glue);
}

function partition(run: Run, self: string, separator: string): readonly string[] {
  if (separator === '') fault('the separator is empty');
  const [head = '', tail] = splitText(run, self, separator, 1);
  return tail === undefined ? [self, '', ''] : [head, separator, tail];
}

function withoutPrefix(self: string, prefix: string): string {
  return self.startsWith(prefix) ? self.slice(prefix.length) : self;
}

function withoutSuffix(self: string, suffix: string): string {
  return suffix !== '' && self.endsWith(suffix) ? self.slice(0, -suffix.length) : self;
}

function zeroFilled(run: Run, self: string, [width]: readonly unknown[]): string {
  const sign = /^[+-]/.exec(self)?.[0] ?? '';
  return sign + padded(run, self.slice(sign.length), wholeOf(width, 'zfill') - sign.length, '0', 'left');
}

function counted(run: Run, lines: string[]): string[] {
  run.items(lines.length * 2);
  return lines;
}
