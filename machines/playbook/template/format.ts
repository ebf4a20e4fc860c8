/**
 * Python's two ways of formatting text: `'%s-%03d' % (a, 3)` and `'{}-{:>5}'.format(a, b)`. Widths and precisions come
 * from the template, so they are paid for before anything is made. Fields of `{}` reach arguments, never their members.
 */
import { fault } from './errors.ts';
import { print, toJson } from './printing.ts';
import type { Run } from './run.ts';
import { aKindOf, type DataMap, isMap, lengthOfText, member, numberOf } from './values.ts';

const PERCENT = /%(?:\(([^)]*)\))?([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?[hlL]?(.)/gsu;
const FIELD = /^(?:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$/su;
const WIDTH_MAX = 100_000;
const PRECISION_MAX = 100;

interface Layout {
  readonly fill: string;
  readonly align: '<' | '>' | '=' | '^';
  readonly sign: string;
  readonly width: number;
}

/** `text % values`. A tuple, or a list for several places, feeds them in turn; a map feeds `%(name)s`. */
export function formatPercent(run: Run, format: string, values: unknown, tuple: boolean): string {
  const places = format.match(PERCENT)?.filter((place) => !place.endsWith('%')).length ?? 0;
  const queue = Array.isArray(values) && (tuple || places > 1) ? values : [values];
  run.chars(format.length);
  let next = 0;
  const take = () => (next < queue.length ? queue[next++] : fault('not enough values for the format'));
  const text = format.replace(
    PERCENT,
    (_all, name: string | undefined, flags: string, width?: string, precision?: string, type = '') => {
      if (type === '%') return '%';
      const wide = width === '*' ? numberOf(take(), "'%*'") : Number(width ?? 0);
      const precise =
        precision === '*' ? numberOf(take(), "'%.*'") : precision === undefined ? undefined : Number(precision);
      const value = name === undefined ? take() : named(values, name);
      return percentField(run, value, flags, wide, precise, type);
    },
  );
  if (next < queue.length && !isMap(values)) fault('too many values for the format');
  run.room(text.length);
  return text;
}

function named(values: unknown, name: string): unknown {
  return isMap(values) ? member(values, name) : fault('the format needs a map');
}

function percentField(
  run: Run,
  value: unknown,
  flags: string,
  width: number,
  precision: number | undefined,
  type: string,
): string {
  const left = flags.includes('-') || width < 0;
  const zero = flags.includes('0') && !left && type !== 's' && type !== 'r' && type !== 'c';
  const layout: Layout = {
    fill: zero ? '0' : ' ',
    align: left ? '<' : zero ? '=' : '>',
    sign: flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '-',
    width: Math.abs(width),
  };
  switch (type) {
    case 's':
    case 'r':
    case 'a':
      return laidOut(run, cut(type === 's' ? print(run, value) : quoted(run, value), precision), layout);
    case 'c':
      return laidOut(run, typeof value === 'number' ? fromCodePoint(value) : print(run, value), layout);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return numberField(run, numberOf(value, `'%${type}'`), type, precision, flags.includes('#'), '', layout);
    default:
      return fault(`unknown format '%${type}'`);
  }
}

/** `format.format(...)`: `{}`, `{0}`, `{name}`, each with an optional `:spec`; `{{` and `}}` are braces. */
export function formatBraces(run: Run, format: string, args: readonly unknown[], namedArgs: DataMap): string {
  run.chars(format.length);
  let next = 0;
  let text = '';
  for (let index = 0; index < format.length; ) {
    const open = format.indexOf('{', index);
    const close = format.indexOf('}', index);
    const at = open < 0 ? close : close < 0 ? open : Math.min(open, close);
    if (at < 0) {
      text += format.slice(index);
      break;
    }
    text += format.slice(index, at);
    if (format[at] === format[at + 1]) {
      text += format.charAt(at);
      index = at + 2;
      continue;
    }
    const end = format.indexOf('}', at);
    if (format[at] === '}' || end < 0) fault('a brace in the format has no partner');
    const field = format.slice(at + 1, end);
    const colon = field.indexOf(':');
    const [name = '', conversion] = (colon < 0 ? field : field.slice(0, colon)).split('!', 2);
    if (name !== '' && !/^[\p{L}\p{N}_]+$/u.test(name)) fault('a format field must be a number or a name');
    const value =
      name === ''
        ? positional(args, next++)
        : /^\d+$/.test(name)
          ? positional(args, Number(name))
          : fromNamed(namedArgs, name);
    const shown = conversion === undefined ? value : conversion === 's' ? print(run, value) : quoted(run, value);
    text += braceField(run, shown, colon < 0 ? '' : field.slice(colon + 1));
    index = end + 1;
  }
  run.room(text.length);
  return text;
}

function positional(args: readonly unknown[], index: number): unknown {
  return index < args.length ? args[index] : fault('not enough values for the format');
}

function fromNamed(values: DataMap, name: string): unknown {
  return Object.hasOwn(values, name) ? values[name] : fault(`the format has no value for '${name}'`);
}

function braceField(run: Run, value: unknown, spec: string): string {
  if (spec === '') return print(run, value);
  const parts = FIELD.exec(spec);
  if (parts === null) return fault('a format specification is not valid');
  const [, fill, align, sign, alternate, zero, width, grouping = '', digits, type] = parts;
  const precision = digits === undefined ? undefined : Number(digits);
  const number = typeof value === 'number' || (typeof value === 'boolean' && type !== undefined && type !== 's');
  const standard = zero !== undefined ? '=' : number ? '>' : '<';
  const layout: Layout = {
    fill: fill ?? (zero === undefined ? ' ' : '0'),
    // The group in FIELD admits exactly these four characters.
    align: (align as Layout['align'] | undefined) ?? standard,
    sign: sign ?? '-',
    width: Number(width ?? 0),
  };
  if (!number) {
    if (type !== undefined && type !== 's') fault(`${aKindOf(value)} cannot be formatted as a number`);
    return laidOut(run, cut(print(run, value), precision), layout);
  }
  if (type === 's') fault('a number cannot be formatted as text');
  return numberField(
    run,
    Number(value),
    type ?? (precision === undefined ? '' : 'g'),
    precision,
    alternate !== undefined,
    grouping,
    layout,
  );
}

function numberField(
  run: Run,
  value: number,
  type: string,
  precision: number | undefined,
  alternate: boolean,
  grouping: string,
  layout: Layout,
): string {
  if (precision !== undefined && precision > PRECISION_MAX) fault(`precision is larger than ${PRECISION_MAX}`);
  const digits = group(unsigned(Math.abs(value), type, precision, alternate), grouping);
  const negative = value < 0 && /[1-9]/.test(digits) ? '-' : '';
  const sign = negative !== '' ? '-' : layout.sign === '-' ? '' : layout.sign;
  if (layout.align !== '=') return laidOut(run, sign + digits, layout);
  return sign + laidOut(run, digits, { ...layout, align: '>', width: layout.width - sign.length });
}

/** Digits of a number that is not negative. */
function unsigned(value: number, type: string, precision: number | undefined, alternate: boolean): string {
  const whole = Math.trunc(value);
  switch (type) {
    case '':
      return String(value);
    case 'd':
    case 'i':
    case 'u':
    case 'n':
      return wholeDigits(whole).padStart(precision ?? 0, '0');
    case 'x':
      return (alternate ? '0x' : '') + whole.toString(16);
    case 'X':
      return (alternate ? '0X' : '') + whole.toString(16).toUpperCase();
    case 'o':
      return (alternate ? '0o' : '') + whole.toString(8);
    case 'b':
      return (alternate ? '0b' : '') + whole.toString(2);
    case 'c':
      return fromCodePoint(whole);
    case 'f':
    case 'F':
      return roundedTo(value, precision ?? 6);
    case '%':
      return `${roundedTo(value * 100, precision ?? 6)}%`;
    case 'e':
    case 'E': {
      const text = exponent(value.toExponential(precision ?? 6));
      return type === 'E' ? text.toUpperCase() : text;
    }
    case 'g':
    case 'G': {
      const text = general(value, precision ?? 6);
      return type === 'G' ? text.toUpperCase() : text;
    }
    default:
      return fault(`unknown number format '${type}'`);
  }
}

function wholeDigits(value: number): string {
  return value < 1e21 ? String(value) : BigInt(value).toString();
}

/** Fixed digits; a tie goes to the even digit, as in Python, where `toFixed` would go up. */
export function roundedTo(value: number, digits: number): string {
  if (value >= 1e21) return BigInt(value).toString() + (digits > 0 ? `.${'0'.repeat(digits)}` : '');
  const up = value.toFixed(digits);
  if (digits >= PRECISION_MAX || !Number.isInteger(value * 2 ** (digits + 1))) return up;
  // The value is exact in digits + 1 places, so the next digit decides alone; 5 is a tie.
  const exact = value.toFixed(digits + 1);
  if (!exact.endsWith('5')) return up;
  const down = exact.slice(0, -1).replace(/\.$/, '');
  return /[02468]$/.test(down) ? down : up;
}

function general(value: number, precision: number): string {
  const digits = Math.max(precision, 1);
  const scientific = value.toExponential(digits - 1);
  const power = value === 0 ? 0 : Number(scientific.slice(scientific.indexOf('e') + 1));
  if (power >= -4 && power < digits) return trimZeros(value.toFixed(Math.min(PRECISION_MAX, digits - 1 - power)));
  const [mantissa = '', tail = ''] = scientific.split('e');
  return exponent(`${trimZeros(mantissa)}e${tail}`);
}

function trimZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Python writes at least two digits of exponent. */
function exponent(text: string): string {
  return text.replace(/e([+-])(\d)$/, 'e$10$2');
}

function group(digits: string, separator: string): string {
  if (separator === '') return digits;
  const [whole = '', ...rest] = digits.split('.');
  return [whole.replace(/\B(?=(\d{3})+$)/g, separator), ...rest].join('.');
}

function laidOut(run: Run, text: string, layout: Layout): string {
  if (layout.width > WIDTH_MAX) fault(`width is larger than ${WIDTH_MAX}`);
  const missing = layout.width - lengthOfText(text);
  if (missing <= 0) return text;
  run.room(layout.width);
  if (layout.align === '<') return text + layout.fill.repeat(missing);
  const before = layout.align === '^' ? Math.floor(missing / 2) : missing;
  return layout.fill.repeat(before) + text + layout.fill.repeat(missing - before);
}

function cut(text: string, precision: number | undefined): string {
  return precision === undefined ? text : Array.from(text).slice(0, precision).join('');
}

function quoted(run: Run, value: unknown): string {
  if (typeof value !== 'string') return print(run, value);
  return value.includes("'") ? toJson(run, value, '') : `'${value}'`;
}

function fromCodePoint(value: number): string {
  return Number.isInteger(value) && value >= 0 && value <= 0x10ffff
    ? String.fromCodePoint(value)
    : fault('not a character');
}
