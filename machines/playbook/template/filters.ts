/** The filters of language 8.9; any other name is refused at registration. Subjects and arguments are plain values. */
import { fault } from './errors.ts';
import { formatPercent } from './format.ts';
import { listFilters } from './list-filters.ts';
import { NUMBER_FILTERS } from './number-filters.ts';
import { type Operation, operation, variadic } from './operation.ts';
import { lengthOf } from './operators.ts';
import { print, toJson } from './printing.ts';
import type { Run } from './run.ts';
import {
  base64Decoded,
  base64Encoded,
  capitalized,
  escapedHtml,
  indented,
  padded,
  replaced,
  splitText,
  stripped,
  titledWords,
  truncated,
  urlEncoded,
  withoutTags,
  wrapped,
} from './text.ts';
import { isMap, keysOf, kindOf, member, truthy, wholeOf } from './values.ts';

const WORD = /[\p{L}\p{N}_]+/gu;

/** A filter of text: anything else is printed first. */
function ofText(parameters: string, apply: (run: Run, text: string, args: readonly unknown[]) => unknown): Operation {
  return operation(parameters, (run, subject, args) => {
    const text = print(run, subject);
    run.chars(text.length);
    return apply(run, text, args);
  });
}

/** A filter of text that makes text of about the same length. */
function rewriting(apply: (text: string) => string): Operation {
  return ofText('', (run, text) => {
    run.room(text.length);
    return apply(text);
  });
}

export function whole(value: unknown, otherwise: number, what: string): number {
  return value === undefined || value === null ? otherwise : wholeOf(value, what);
}

export function textOf(value: unknown, otherwise: string, what: string): string {
  if (value === undefined || value === null) return otherwise;
  return typeof value === 'string' ? value : fault(`${what} needs text, got ${kindOf(value)}`);
}

const length = operation('', (run, subject) => {
  const count = lengthOf(subject);
  if (typeof subject === 'string') run.chars(subject.length);
  return count;
});

/** Handled by the compiler as well: a Facade that stands for something passes through with its accessors (compile.ts). */
const standard = operation('default_value boolean', (_run, subject, [value = '', boolean]) => {
  const missing = subject === undefined || subject === null || (truthy(boolean) && !truthy(subject));
  return missing ? value : subject;
});

const escaping = ofText('', escapedHtml);

const TEXT_FILTERS: readonly (readonly [string, Operation])[] = [
  ['b64decode', ofText('', base64Decoded)],
  ['b64encode', ofText('', base64Encoded)],
  ['capitalize', rewriting(capitalized)],
  ['center', ofText('width', (run, text, [width]) => padded(run, text, whole(width, 80, 'center'), ' ', 'both'))],
  ['e', escaping],
  ['escape', escaping],
  [
    'format',
    variadic((run, subject, args, named) =>
      formatPercent(run, print(run, subject), args.length > 0 ? args : named, true),
    ),
  ],
  ['fromjson', ofText('', (run, text) => fromJson(run, text))],
  [
    'indent',
    ofText('width first blank', (run, text, [width = 4, first, blank]) => {
      const one = typeof width === 'string' ? width : padded(run, '', wholeOf(width, 'indent'), ' ', 'left');
      return indented(run, text, one, truthy(first), truthy(blank));
    }),
  ],
  ['lower', rewriting((text) => text.toLowerCase())],
  [
    'replace',
    ofText('old new count', (run, text, [old, fresh, count]) =>
      replaced(run, text, print(run, old), print(run, fresh), whole(count, -1, 'replace')),
    ),
  ],
  [
    'split',
    ofText('sep max', (run, text, [separator, max]) => splitText(run, text, separator, whole(max, -1, 'split'))),
  ],
  ['string', ofText('', (_run, text) => text)],
  ['striptags', rewriting(withoutTags)],
  ['title', rewriting(titledWords)],
  [
    'tojson',
    operation('indent', (run, subject, [indent]) => {
      const width = Math.min(whole(indent, 0, 'tojson'), 100);
      return toJson(run, subject, ' '.repeat(Math.max(width, 0)));
    }),
  ],
  ['trim', ofText('chars', (_run, text, [chars]) => stripped(text, chars, 'both'))],
  [
    'truncate',
    ofText('length killwords end leeway', (run, text, [size, kill, end, leeway]) =>
      truncated(
        run,
        text,
        whole(size, 255, 'truncate'),
        truthy(kill),
        textOf(end, '...', 'truncate'),
        whole(leeway, 5, 'truncate'),
      ),
    ),
  ],
  ['upper', rewriting((text) => text.toUpperCase())],
  ['urlencode', operation('', urlencode)],
  ['wordcount', ofText('', (_run, text) => text.match(WORD)?.length ?? 0)],
  [
    'wordwrap',
    ofText(
      'width break_long_words wrapstring break_on_hyphens',
      (run, text, [width, breakLong = true, joint, hyphens = true]) =>
        wrapped(
          run,
          text,
          whole(width, 79, 'wordwrap'),
          truthy(breakLong),
          textOf(joint, '\n', 'wordwrap'),
          truthy(hyphens),
        ),
    ),
  ],
];

const VALUE_FILTERS: readonly (readonly [string, Operation])[] = [
  ['attr', operation('name', (_run, subject, [name]) => (isMap(subject) ? member(subject, name) : undefined))],
  ['count', length],
  ['d', standard],
  ['default', standard],
  ['get', operation('key default', (_run, subject, [key, otherwise = null]) => member(subject, key) ?? otherwise)],
  ['len', length],
  ['length', length],
  ['safe', operation('', (_run, subject) => subject)],
];

export const FILTERS: ReadonlyMap<string, Operation> = new Map([
  ...TEXT_FILTERS,
  ...VALUE_FILTERS,
  ...listFilters(() => FILTERS),
  ...NUMBER_FILTERS,
]);

/** The text is not quoted in the error: it may be a response with a secret in it. */
export function fromJson(run: Run, text: string): unknown {
  run.items(text.length / 8);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fault('the text is not JSON');
  }
  // 1e400 is JSON, and Infinity is not: what was read must be writable again.
  return /[eE]|\d{300}/.test(text) && !isFiniteThroughout(value)
    ? fault('the text has a number that is too large')
    : value;
}

function isFiniteThroughout(value: unknown): boolean {
  const waiting = [value];
  for (let next = waiting.pop(); waiting.length > 0 || next !== undefined; next = waiting.pop()) {
    if (typeof next === 'number' && !Number.isFinite(next)) return false;
    if (typeof next === 'object' && next !== null) for (const each of Object.values(next)) waiting.push(each);
  }
  return true;
}

function urlencode(run: Run, subject: unknown): string {
  if (typeof subject !== 'object' || subject === null) return urlEncoded(run, print(run, subject), false);
  const pairs: readonly (readonly [unknown, unknown])[] = Array.isArray(subject)
    ? subject.map((pair) =>
        Array.isArray(pair) ? [pair[0], pair[1]] : fault('urlencode needs a map or a list of pairs'),
      )
    : keysOf(run, subject).map((key) => [key, member(subject, key)]);
  run.items(pairs.length * 4);
  const part = (value: unknown) => urlEncoded(run, print(run, value), true);
  return pairs.map(([key, value]) => `${part(key)}=${part(value)}`).join('&');
}
