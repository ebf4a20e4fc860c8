/**
 * Source text to the tokens nunjucks' parser reads. nunjucks' own lexer is not used: it ends `{{ {'a': {}} }}` at the
 * first `}}`, takes `r/2` for a regular expression, knows no `1e3`, and refuses `#}` in ordinary text. Whitespace
 * control and `raw` are settled here, so the parser sees neither. `colno` of a token is its offset.
 */
import type { Token, TokenSource } from 'nunjucks/src/parser.js';
import { known, present } from '../../known.ts';
import { excerptOf, TemplateSyntaxError } from './errors.ts';

/** Token types, spelled as nunjucks spells them. */
export const TOKEN = {
  data: 'data',
  string: 'string',
  int: 'int',
  float: 'float',
  name: 'symbol',
  operator: 'operator',
  openParen: 'left-paren',
  closeParen: 'right-paren',
  openBracket: 'left-bracket',
  closeBracket: 'right-bracket',
  openBrace: 'left-curly',
  closeBrace: 'right-curly',
  comma: 'comma',
  colon: 'colon',
  pipe: 'pipe',
  tilde: 'tilde',
  blockStart: 'block-start',
  blockEnd: 'block-end',
  variableStart: 'variable-start',
  variableEnd: 'variable-end',
} as const;

const PUNCTUATION: ReadonlyMap<string, string> = new Map([
  ['(', TOKEN.openParen],
  [')', TOKEN.closeParen],
  ['[', TOKEN.openBracket],
  [']', TOKEN.closeBracket],
  ['{', TOKEN.openBrace],
  ['}', TOKEN.closeBrace],
  [',', TOKEN.comma],
  [':', TOKEN.colon],
  ['|', TOKEN.pipe],
  ['~', TOKEN.tilde],
]);
const CLOSERS: ReadonlyMap<string, string> = new Map([
  ['(', ')'],
  ['[', ']'],
  ['{', '}'],
]);
const OPERATORS = ['**', '//', '==', '!=', '<=', '>=', '+', '-', '*', '/', '%', '<', '>', '=', '.'];
const SPACE = /[ \t\r\n\f\v\u00a0]*/y;
const NAME = /[\p{L}_][\p{L}\p{N}_]*/uy;
const FLOAT = /\d+(?:_\d+)*(?:\.\d+(?:_\d+)*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)/y;
const INTEGER = /0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|\d+(?:_\d+)*/y;
const TAG = /\{[{%#]/g;
const RAW = /\{%[-+]?\s*raw\s*([-+]?)%\}/y;
const END_RAW = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g;
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['n', '\n'],
  ['t', '\t'],
  ['r', '\r'],
  ['b', '\b'],
  ['f', '\f'],
  ['v', '\v'],
  ['0', '\0'],
  ['\\', '\\'],
  ["'", "'"],
  ['"', '"'],
  ['\n', ''],
]);

/** A `{{ }}` or `{% %}`: offsets of its text, delimiters excluded. */
interface Span {
  readonly start: number;
  end: number;
  closed: boolean;
}

export class Tokens implements TokenSource {
  readonly tags = { VARIABLE_START: '{{', VARIABLE_END: '}}', COMMENT_START: '{#', COMMENT_END: '#}' };
  readonly source: string;
  readonly #spans: Span[] = [];
  readonly #open: string[] = [];
  #index = 0;
  #mode: 'text' | 'variable' | 'block' = 'text';
  #trimNext = false;

  constructor(source: string) {
    this.source = source;
  }

  nextToken(): Token | null {
    return this.#mode === 'text' ? this.#text() : this.#code(this.#mode);
  }

  /** The text of the tag around an offset, for messages. */
  excerpt(offset: number): string {
    const span = this.#spans.findLast((each) => each.start <= offset);
    if (span === undefined) return excerptOf(this.source);
    const ends = [span.end, ...['}}', '%}'].map((close) => this.source.indexOf(close, Math.max(offset, span.start)))];
    // The parser may have failed before the lexer saw the tag close.
    const end = span.closed ? span.end : Math.min(...ends.filter((each) => each >= 0));
    return excerptOf(this.source.slice(span.start, end));
  }

  refusal(reason: string, offset: number): TemplateSyntaxError {
    return new TemplateSyntaxError(reason, this.excerpt(offset), offset);
  }

  fail(reason: string, offset: number): never {
    throw this.refusal(reason, offset);
  }

  /** Ordinary text up to the next tag, comments and `raw` resolved; the tag's opening when there is no text left. */
  #text(): Token | null {
    const start = this.#index;
    let text = '';
    for (;;) {
      TAG.lastIndex = this.#index;
      const found = TAG.exec(this.source);
      const until = found === null ? this.source.length : found.index;
      text += this.#piece(this.#index, until, found !== null && this.source[until + 2] === '-');
      this.#index = until;
      if (found === null) break;
      if (found[0] === '{#') {
        this.#comment(until);
        continue;
      }
      const raw = found[0] === '{%' ? this.#raw(until) : null;
      if (raw !== null) {
        text += raw;
        continue;
      }
      if (text !== '') break;
      return this.#openTag(found[0], until);
    }
    return text === '' ? null : { type: TOKEN.data, value: text, lineno: 0, colno: start };
  }

  #piece(from: number, to: number, trimEnd: boolean): string {
    let text = this.source.slice(from, to);
    if (this.#trimNext) text = text.trimStart();
    this.#trimNext = false;
    return trimEnd ? text.trimEnd() : text;
  }

  #comment(start: number): void {
    const end = this.source.indexOf('#}', start + 2);
    if (end < 0) this.fail('comment is not closed', start);
    this.#trimNext = this.source[end - 1] === '-';
    this.#index = end + 2;
  }

  #raw(start: number): string | null {
    RAW.lastIndex = start;
    const opening = RAW.exec(this.source);
    if (opening === null) return null;
    END_RAW.lastIndex = RAW.lastIndex;
    const closing = END_RAW.exec(this.source);
    if (closing === null) this.fail("'raw' is not closed", start);
    this.#trimNext = opening[1] === '-';
    const text = this.#piece(start + opening[0].length, closing.index, closing[1] === '-');
    this.#trimNext = closing[2] === '-';
    this.#index = closing.index + closing[0].length;
    return text;
  }

  #openTag(tag: string, start: number): Token {
    const sign = this.source[start + 2];
    // `{{+` is not whitespace control but a unary plus, exactly as in Jinja2.
    const length = sign === '-' || (sign === '+' && tag === '{%') ? 3 : 2;
    this.#mode = tag === '{{' ? 'variable' : 'block';
    this.#index = start + length;
    this.#spans.push({ start: this.#index, end: this.source.length, closed: false });
    const type = tag === '{{' ? TOKEN.variableStart : TOKEN.blockStart;
    return { type, value: tag, lineno: 0, colno: this.#index };
  }

  #code(mode: 'variable' | 'block'): Token | null {
    SPACE.lastIndex = this.#index;
    SPACE.exec(this.source);
    this.#index = SPACE.lastIndex;
    const at = this.#index;
    const source = this.source;
    if (at >= source.length) return null;
    const closing = this.#closing(mode, at);
    if (closing > 0) return this.#closeTag(mode, at, closing);
    const char = source.charAt(at);
    if (char === '"' || char === "'") return this.#string(at, char);
    if (char >= '0' && char <= '9') return this.#number(at);
    NAME.lastIndex = at;
    const name = NAME.exec(source);
    if (name !== null) return this.#take(TOKEN.name, at, name[0].length);
    const punctuation = PUNCTUATION.get(char);
    if (punctuation !== undefined) {
      this.#balance(char, at);
      return this.#take(punctuation, at, 1);
    }
    const operator = OPERATORS.find((each) => source.startsWith(each, at));
    if (operator === undefined) this.fail(`unexpected character '${char}'`, at);
    return this.#take(TOKEN.operator, at, operator.length);
  }

  /** Length of the closing delimiter at this place, or 0. Inside brackets `}}` closes two maps, not the tag. */
  #closing(mode: 'variable' | 'block', at: number): number {
    if (this.#open.length > 0) return 0;
    const delimiter = mode === 'variable' ? '}}' : '%}';
    if (this.source.startsWith(delimiter, at)) return 2;
    const sign = this.source[at];
    const signed = sign === '-' || (sign === '+' && mode === 'block');
    return signed && this.source.startsWith(delimiter, at + 1) ? 3 : 0;
  }

  #closeTag(mode: 'variable' | 'block', at: number, length: number): Token {
    const span = known(this.#spans.at(-1));
    span.end = at;
    span.closed = true;
    this.#mode = 'text';
    this.#trimNext = length === 3 && this.source[at] === '-';
    this.#index = at + length;
    const variable = mode === 'variable';
    return { type: variable ? TOKEN.variableEnd : TOKEN.blockEnd, value: variable ? '}}' : '%}', lineno: 0, colno: at };
  }

  #balance(char: string, at: number): void {
    const closer = CLOSERS.get(char);
    if (closer !== undefined) this.#open.push(closer);
    else if ((char === ')' || char === ']' || char === '}') && this.#open.pop() !== char)
      this.fail(`unexpected '${char}'`, at);
  }

  #take(type: string, at: number, length: number): Token {
    this.#index = at + length;
    return { type, value: this.source.slice(at, at + length), lineno: 0, colno: at };
  }

  #number(at: number): Token {
    // After a dot only whole numbers make sense: `pairs.0.1` is two members, not the member 0.1.
    FLOAT.lastIndex = at;
    const float = this.source[at - 1] === '.' ? null : FLOAT.exec(this.source);
    INTEGER.lastIndex = at;
    // It begins with a digit.
    const found = present(float ?? INTEGER.exec(this.source));
    NAME.lastIndex = at + found[0].length;
    if (NAME.test(this.source)) this.fail('number is not valid', at);
    this.#index = at + found[0].length;
    const value = found[0].replaceAll('_', '');
    if (!Number.isFinite(Number(value))) this.fail('number is too large', at);
    return { type: float === null ? TOKEN.int : TOKEN.float, value, lineno: 0, colno: at };
  }

  #string(at: number, quote: string): Token {
    let value = '';
    let from = at + 1;
    for (let index = from; ; index += 1) {
      const char = this.source[index];
      if (char === undefined) this.fail('text is not closed', at);
      if (char === quote) {
        this.#index = index + 1;
        return { type: TOKEN.string, value: value + this.source.slice(from, index), lineno: 0, colno: at };
      }
      if (char !== '\\') continue;
      value += this.source.slice(from, index);
      const [text, length] = this.#escape(index);
      value += text;
      from = index + length;
      index = from - 1;
    }
  }

  /** What a backslash stands for and how many characters it spans; an unknown escape is kept, as in Python. */
  #escape(at: number): readonly [text: string, length: number] {
    const char = this.source.charAt(at + 1);
    const digits = char === 'x' ? 2 : char === 'u' ? 4 : char === 'U' ? 8 : 0;
    if (digits > 0) {
      const code = this.source.slice(at + 2, at + 2 + digits);
      const point = Number.parseInt(code, 16);
      if (code.length !== digits || /[^0-9a-fA-F]/.test(code) || point > 0x10ffff) this.fail('escape is not valid', at);
      return [String.fromCodePoint(point), 2 + digits];
    }
    const text = ESCAPES.get(char);
    return text === undefined ? ['\\', 1] : [text, 2];
  }
}
