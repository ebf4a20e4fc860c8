/**
 * The beginning of a statement as it may be written down: string and number literals and comments are masked, names
 * and keywords stay. Scans only as far as it prints, in one pass, so a hostile statement costs no more than its length.
 */
import { known } from '../known.ts';

const MASK = "'***'";

/** At most `max` characters of the statement without its values. */
export function maskStatement(statement: string, max: number): string {
  let masked = '';
  let at = 0;
  while (at < statement.length && masked.length < max) {
    const token = tokenAt(statement, at);
    masked += token.shown;
    at = Math.max(token.end, at + 1);
  }
  return masked.slice(0, max);
}

interface Token {
  readonly end: number;
  readonly shown: string;
}

function tokenAt(text: string, at: number): Token {
  const char = text.charAt(at);
  const next = text[at + 1] ?? '';
  if (char === "'") return { end: endOfQuoted(text, at, "'", false), shown: MASK };
  if (/[eE]/.test(char) && next === "'") return { end: endOfQuoted(text, at + 1, "'", true), shown: MASK };
  if (char === '"') return kept(text, at, endOfQuoted(text, at, '"', false));
  if (char === '-' && next === '-') return { end: endOfLine(text, at), shown: ' ' };
  if (char === '/' && next === '*') return { end: endOfComment(text, at), shown: ' ' };
  if (char === '$') return dollarAt(text, at);
  if (/\d/.test(char)) return { end: endOf(/[\w.]*/y, text, at), shown: '0' };
  if (/\s/.test(char)) return { end: endOf(/\s*/y, text, at), shown: ' ' };
  if (isNamePart(char)) {
    // `e` before a quote begins a literal, also at the end of what looks like a name.
    const end = endOf(/[\w$\u0080-\uffff]*/y, text, at);
    const literal = text[end] === "'" && /[eE]/.test(text.charAt(end - 1)) && end - at > 1;
    return kept(text, at, literal ? end - 1 : end);
  }
  return kept(text, at, at + 1);
}

function kept(text: string, start: number, end: number): Token {
  return { end, shown: text.slice(start, end) };
}

/** `$1` is a parameter; `$tag$…$tag$` is a literal. */
function dollarAt(text: string, at: number): Token {
  const tag = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;
  tag.lastIndex = at;
  const open = tag.exec(text)?.[0];
  if (open === undefined) return kept(text, at, endOf(/\$\d*/y, text, at));
  const close = text.indexOf(open, at + open.length);
  return { end: close < 0 ? text.length : close + open.length, shown: MASK };
}

function endOfQuoted(text: string, start: number, quote: string, escapes: boolean): number {
  for (let at = start + 1; at < text.length; at += 1) {
    if (escapes && text[at] === '\\') at += 1;
    else if (text[at] === quote) {
      if (text[at + 1] !== quote) return at + 1;
      at += 1;
    }
  }
  return text.length;
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf('\n', at);
  return end < 0 ? text.length : end;
}

/** Comments nest. */
function endOfComment(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const pair = text.slice(at, at + 2);
    if (pair === '/*') depth += 1;
    else if (pair === '*/') depth -= 1;
    else continue;
    at += 1;
    if (depth === 0) return at + 1;
  }
  return text.length;
}

function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return at + known(pattern.exec(text)?.[0]).length;
}

function isNamePart(char: string): boolean {
  return /[\w\u0080-\uffff]/.test(char);
}
