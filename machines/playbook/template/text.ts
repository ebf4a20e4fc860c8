/** Python's and Jinja2's treatment of text, shared by filters and methods. Scans are linear; growth is paid for first. */

import { known, present } from '../../known.ts';
import { fault } from './errors.ts';
import { search } from './operators.ts';
import { ELEMENTS_MAX, type Run } from './run.ts';
import { characters, lengthOfText } from './values.ts';

const WHITESPACE = /\s+/u;

export function capitalized(text: string): string {
  const first = text === '' ? '' : String.fromCodePoint(known(text.codePointAt(0)));
  return first.toUpperCase() + text.slice(first.length).toLowerCase();
}

/** Jinja2's `title` filter: words begin after a space or an opening bracket or hyphen, not after an apostrophe. */
export function titledWords(text: string): string {
  return text.replace(/[^-\s({[<]+/gu, capitalized);
}

/** Python's `str.title`: a word is a run of letters. */
export function titledLetters(text: string): string {
  return text.replace(/\p{L}+/gu, capitalized);
}

export function swappedCase(text: string): string {
  return text.replace(/\p{L}/gu, (letter) => {
    const upper = letter.toUpperCase();
    return letter === upper ? letter.toLowerCase() : upper;
  });
}

export type Side = 'left' | 'right' | 'both';

export function padded(run: Run, text: string, width: number, fill: string, side: Side): string {
  if (lengthOfText(fill) !== 1) fault('the fill must be one character');
  const missing = width - lengthOfText(text);
  if (missing <= 0) return text;
  run.room(width * fill.length);
  // The odd blank of `center` goes where Python puts it.
  const before = side === 'right' ? 0 : side === 'left' ? missing : Math.floor(missing / 2) + (missing & width & 1);
  return fill.repeat(before) + text + fill.repeat(missing - before);
}

/** Removes characters of a set, or whitespace, from the ends. */
export function stripped(text: string, chars: unknown, side: Side): string {
  if (chars === undefined || chars === null) {
    return side === 'left' ? text.trimStart() : side === 'right' ? text.trimEnd() : text.trim();
  }
  if (typeof chars !== 'string') return fault('the characters to remove must be text');
  const unwanted = new Set(chars);
  const letters = Array.from(text);
  let start = 0;
  let end = letters.length;
  if (side !== 'right') while (start < end && unwanted.has(known(letters[start]))) start += 1;
  if (side !== 'left') while (end > start && unwanted.has(known(letters[end - 1]))) end -= 1;
  return letters.slice(start, end).join('');
}

/** `str.replace`; `count` below zero means all. */
export function replaced(run: Run, text: string, old: string, fresh: string, count: number): string {
  search(run, text, old);
  if (count === 0) return text;
  let found = 0;
  const most = count < 0 ? Number.POSITIVE_INFINITY : count;
  if (old === '') {
    const letters = Array.from(text);
    found = Math.min(most, letters.length + 1);
    run.room(text.length + found * fresh.length);
    return (
      letters.map((letter, index) => (index < found ? fresh + letter : letter)).join('') +
      (found > letters.length ? fresh : '')
    );
  }
  let length = text.length;
  const places: number[] = [];
  for (let at = text.indexOf(old); at >= 0 && places.length < most; at = text.indexOf(old, at + old.length)) {
    places.push(at);
    length += fresh.length - old.length;
  }
  if (places.length === 0) return text;
  run.room(Math.max(length, 0));
  run.items(places.length);
  let result = '';
  let from = 0;
  for (const at of places) {
    result += text.slice(from, at) + fresh;
    from = at + old.length;
  }
  return result + text.slice(from);
}

/** `str.split`; `most` below zero means no limit, no separator means runs of whitespace. */
export function splitText(run: Run, text: string, separator: unknown, most: number): string[] {
  const parts: string[] = [];
  let rest = separator === undefined || separator === null ? text.trimStart() : text;
  if (typeof separator !== 'string') {
    if (separator !== undefined && separator !== null) fault('the separator must be text');
    if (most < 0)
      return counted(
        run,
        text.split(WHITESPACE).filter((part) => part !== ''),
      );
    while (parts.length < most) {
      const gap = WHITESPACE.exec(rest);
      if (gap === null) break;
      parts.push(rest.slice(0, gap.index));
      rest = rest.slice(gap.index + gap[0].length);
    }
    // What is left over keeps its end.
    return counted(run, rest.trim() === '' ? parts : [...parts, rest]);
  }
  if (separator === '') fault('the separator is empty');
  search(run, text, separator);
  if (most < 0) return counted(run, text.split(separator));
  while (parts.length < most) {
    const at = rest.indexOf(separator);
    if (at < 0) break;
    parts.push(rest.slice(0, at));
    rest = rest.slice(at + separator.length);
  }
  return counted(run, [...parts, rest]);
}

/** `str.rsplit` with a limit: the cuts are made from the right. */
export function splitFromRight(run: Run, text: string, separator: unknown, most: number): string[] {
  if (most < 0) return splitText(run, text, separator, most);
  const all = splitText(run, text, separator, -1);
  const extra = all.length - most - 1;
  if (extra < 0 || (extra === 0 && typeof separator === 'string')) return all;
  if (typeof separator === 'string') return [all.slice(0, extra + 1).join(separator), ...all.slice(extra + 1)];
  let head = text.trimEnd();
  for (const part of all.slice(extra + 1).reverse()) head = head.slice(0, head.length - part.length).trimEnd();
  return [head, ...all.slice(extra + 1)];
}

function counted(run: Run, parts: string[]): string[] {
  run.items(parts.length * 2);
  return parts;
}

/** Python's `splitlines`, without the separators of teletypes. */
export function linesOf(text: string, keepEnds: boolean): string[] {
  const lines = present(text.match(LINE)).filter((line) => line !== '');
  return keepEnds ? lines : lines.map((line) => line.replace(LINE_END, ''));
}

const LINE = /[^\n\r\u0085\u2028\u2029]*(?:\r\n|[\n\r\u0085\u2028\u2029]|$)/gu;
const LINE_END = /\r\n$|[\n\r\u0085\u2028\u2029]$/u;

/** Index in characters, not in UTF-16 units; -1 when absent. */
export function positionOf(run: Run, text: string, part: string, start: number, end: number, last: boolean): number {
  const letters = characters(text);
  const from = Math.max(start < 0 ? start + letters.length : start, 0);
  const to = Math.min(end < 0 ? end + letters.length : end, letters.length);
  if (from > to) return -1;
  const piece = letters.slice(from, to);
  const searched = typeof piece === 'string' ? piece : piece.join('');
  search(run, searched, part);
  const at = last ? searched.lastIndexOf(part) : searched.indexOf(part);
  if (at < 0) return -1;
  return from + (typeof piece === 'string' ? at : lengthOfText(searched.slice(0, at)));
}

export function occurrences(run: Run, text: string, part: string): number {
  if (part === '') return lengthOfText(text) + 1;
  search(run, text, part);
  let count = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count += 1;
  return count;
}

export function escapedHtml(run: Run, text: string): string {
  const escaped = text.replace(/[&<>"']/g, (char) => known(HTML[char]));
  run.room(escaped.length);
  return escaped;
}

const HTML: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };
const ENTITIES: ReadonlyMap<string, string> = new Map(
  Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' }),
);

/** Text without tags and comments, whitespace collapsed, the common entities resolved. */
export function withoutTags(text: string): string {
  return cutOut(cutOut(text, '<!--', '-->'), '<', '>')
    .split(WHITESPACE)
    .filter((word) => word !== '')
    .join(' ')
    .replace(
      /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,5}));/g,
      (all, decimal?: string, hex?: string, name?: string) => {
        if (name !== undefined) return ENTITIES.get(name) ?? all;
        const point = decimal === undefined ? Number.parseInt(known(hex), 16) : Number(decimal);
        return point > 0 && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) ? String.fromCodePoint(point) : all;
      },
    );
}

function cutOut(text: string, open: string, close: string): string {
  let result = '';
  let from = 0;
  for (;;) {
    const start = text.indexOf(open, from);
    const end = start < 0 ? -1 : text.indexOf(close, start + open.length);
    if (end < 0) return result + text.slice(from);
    result += text.slice(from, start);
    from = end + close.length;
  }
}

export function truncated(
  run: Run,
  text: string,
  length: number,
  killWords: boolean,
  end: string,
  leeway: number,
): string {
  const letters = characters(text);
  const tail = lengthOfText(end);
  if (length < tail) fault('truncate needs a length of at least the length of its end');
  if (letters.length <= length + leeway) return text;
  const piece = letters.slice(0, length - tail);
  const head = typeof piece === 'string' ? piece : piece.join('');
  run.room(head.length + end.length);
  const space = killWords ? -1 : head.lastIndexOf(' ');
  return (space < 0 ? head : head.slice(0, space)) + end;
}

export function indented(run: Run, text: string, width: string, first: boolean, blank: boolean): string {
  const lines = linesOf(`${text}\n`, false);
  run.room(text.length + lines.length * width.length);
  return lines
    .map((line, index) => ((index > 0 || first) && (blank || index === 0 || line !== '') ? width + line : line))
    .join('\n');
}

/** Jinja2's `wordwrap`: every line of the text is wrapped on its own. */
export function wrapped(
  run: Run,
  text: string,
  width: number,
  breakLong: boolean,
  joint: string,
  breakHyphens: boolean,
): string {
  if (width < 1 || width > ELEMENTS_MAX) fault('wordwrap needs a width of at least 1');
  const lines = linesOf(text, false).flatMap((line) => {
    const rows = wrappedLine(run, line, width, breakLong, breakHyphens);
    return rows.length === 0 ? [''] : rows;
  });
  run.room(text.length + lines.length * joint.length);
  return lines.join(joint);
}

function wrappedLine(run: Run, line: string, width: number, breakLong: boolean, breakHyphens: boolean): string[] {
  const pieces =
    (breakHyphens ? line.match(/\s+|[^\s-]*[^\s\W]-+(?=\p{L})|[^\s-]+|-+/gu) : line.match(/\s+|\S+/gu)) ?? [];
  run.items(pieces.length * 4);
  const rows: string[] = [];
  let row = '';
  for (const piece of pieces) {
    let rest = piece;
    if (row.length + rest.length <= width) {
      row += rest;
      continue;
    }
    const blank = rest.trim() === '';
    if (breakLong && rest.length > width && !blank) {
      const space = width - row.length;
      rows.push(row + rest.slice(0, space));
      for (rest = rest.slice(space); rest.length > width; rest = rest.slice(width)) {
        run.step();
        rows.push(rest.slice(0, width));
      }
      row = rest;
      continue;
    }
    if (row.trim() !== '') rows.push(row.trimEnd());
    row = blank ? '' : rest;
  }
  if (row.trim() !== '') rows.push(row.trimEnd());
  return rows;
}

/** Percent-encoding of UTF-8. In a query `/` is encoded and a space is `+`. */
export function urlEncoded(run: Run, text: string, inQuery: boolean): string {
  run.room(text.length);
  const encoded = encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  run.room(encoded.length);
  return inQuery ? encoded.replaceAll('%20', '+') : encoded.replaceAll('%2F', '/');
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

export function base64Encoded(run: Run, text: string): string {
  const bytes = new TextEncoder().encode(text);
  run.room(Math.ceil(bytes.length / 3) * 4);
  let result = '';
  for (let index = 0; index < bytes.length; index += 3) {
    const second = bytes[index + 1];
    const third = bytes[index + 2];
    const bits = (known(bytes[index]) << 16) | ((second ?? 0) << 8) | (third ?? 0);
    result += BASE64.charAt(bits >> 18) + BASE64.charAt((bits >> 12) & 63);
    result += second === undefined ? '=' : BASE64.charAt((bits >> 6) & 63);
    result += third === undefined ? '=' : BASE64.charAt(bits & 63);
  }
  return result;
}

/** UTF-8 text of base64, of the URL alphabet too; whitespace and missing padding are forgiven. */
export function base64Decoded(run: Run, text: string): string {
  const digits = text.replaceAll(/\s+/g, '').replace(/={1,2}$/, '');
  run.room(digits.length);
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4));
  let bits = 0;
  let held = 0;
  let at = 0;
  for (const char of digits) {
    const value = BASE64.indexOf(char === '-' ? '+' : char === '_' ? '/' : char);
    if (value < 0) fault('the text is not base64');
    bits = ((bits << 6) | value) & 0xffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes[at++] = (bits >> held) & 0xff;
  }
  if (digits.length % 4 === 1) fault('the text is not base64');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return fault('the base64 does not hold UTF-8 text');
  }
}
