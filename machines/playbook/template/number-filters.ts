/** Filters about numbers. `int` and `float` never raise: what they cannot read becomes their default (language 8.9). */

import { known } from '../../known.ts';
import { fault } from './errors.ts';
import { roundedTo } from './format.ts';
import { type Operation, operation } from './operation.ts';
import { finite } from './operators.ts';
import { kindOf, numberOf, truthy, wholeOf } from './values.ts';

const DECIMAL = /^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:[eE][+-]?\d+)?$/;
const DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz';
const PREFIXES: ReadonlyMap<string, number> = new Map([
  ['0x', 16],
  ['0o', 8],
  ['0b', 2],
]);
const UNITS = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];

export const NUMBER_FILTERS: readonly (readonly [string, Operation])[] = [
  ['abs', operation('', (_run, subject) => Math.abs(numberOf(subject, 'abs')))],
  ['float', operation('default', (_run, subject, [otherwise = 0]) => decimal(subject) ?? otherwise)],
  [
    'int',
    operation('default base', (_run, subject, [otherwise = 0, base = 10]) => {
      const radix = typeof base === 'number' ? base : 10;
      if (typeof subject === 'string') {
        const read = integer(subject, radix);
        if (read !== undefined) return read;
      }
      const number = decimal(subject);
      return number === undefined ? otherwise : Math.trunc(number) + 0;
    }),
  ],
  [
    'round',
    operation('precision method', (_run, subject, [precision = 0, method = 'common']) => {
      const number = numberOf(subject, 'round');
      const digits = wholeOf(precision, 'round');
      if (digits > 100 || digits < -308) fault('round needs a precision between -308 and 100');
      if (method === 'common') return roundHalfEven(number, digits);
      if (method !== 'ceil' && method !== 'floor') fault("round knows the methods 'common', 'ceil' and 'floor'");
      const scaled = number * 10 ** digits;
      return finite((method === 'ceil' ? Math.ceil(scaled) : Math.floor(scaled)) / 10 ** digits);
    }),
  ],
  ['filesizeformat', operation('binary', (_run, subject, [binary]) => fileSize(subject, truthy(binary)))],
];

function decimal(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value !== 'string') return undefined;
  const text = value.trim();
  if (text.length > 400 || !DECIMAL.test(text)) return undefined;
  const number = Number(text.replaceAll('_', ''));
  return Number.isFinite(number) ? number : undefined;
}

/** Python's `int(text, base)`; undefined when it would raise. */
function integer(value: string, base: number): number | undefined {
  const parts = /^([+-]?)(0[xXoObB](?=.))?([0-9a-zA-Z]+(?:_[0-9a-zA-Z]+)*)$/.exec(value.trim());
  if (parts === null || value.length > 400) return undefined;
  const [, sign, prefix = '', digits = ''] = parts;
  const stated = PREFIXES.get(prefix.toLowerCase());
  const radix = base === 0 ? (stated ?? 10) : base;
  if (radix < 2 || radix > 36) return undefined;
  const read = stated === undefined || stated === radix ? digits : prefix + digits;
  let number = 0;
  for (const digit of read.replaceAll('_', '').toLowerCase()) {
    const worth = DIGITS.indexOf(digit);
    if (worth < 0 || worth >= radix) return undefined;
    number = number * radix + worth;
  }
  if (radix === 10) number = Number(read.replaceAll('_', ''));
  return Number.isFinite(number) ? (sign === '-' && number !== 0 ? -number : number) : undefined;
}

function roundHalfEven(number: number, digits: number): number {
  if (digits >= 0)
    return Math.abs(number) >= 1e21 ? number : Math.sign(number) * Number(roundedTo(Math.abs(number), digits));
  const unit = 10 ** -digits;
  return Math.sign(number) * Number(roundedTo(Math.abs(number) / unit, 0)) * unit;
}

function fileSize(subject: unknown, binary: boolean): string {
  const bytes = decimal(subject) ?? fault(`filesizeformat needs a number, got ${kindOf(subject)}`);
  const base = binary ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`;
  const power = Math.min(
    UNITS.findIndex((_unit, index) => bytes < base ** (index + 2)),
    UNITS.length - 1,
  );
  const index = power < 0 ? UNITS.length - 1 : power;
  const unit = known(UNITS[index]);
  return `${roundedTo((base * bytes) / base ** (index + 2), 1)} ${binary ? `${unit.toUpperCase()}iB` : `${unit}B`}`;
}
