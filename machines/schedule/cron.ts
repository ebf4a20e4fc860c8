/**
 * Cron expressions (api 2.17): five fields, or six with seconds in front; lists, ranges, steps, and names of months and
 * weekdays. As in the usual cron, a day fits when day of month or day of week fits, where both are restricted.
 */
import { known } from '../known.ts';

export interface Cron {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  /** 1 … 31. */
  readonly days: ReadonlySet<number>;
  /** 1 … 12. */
  readonly months: ReadonlySet<number>;
  /** 0 … 6 from Sunday. */
  readonly weekdays: ReadonlySet<number>;
  /** Either of days and weekdays is enough. */
  readonly eitherDay: boolean;
}

export type CronReading = { readonly ok: true; readonly cron: Cron } | { readonly ok: false; readonly problem: string };

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
}

const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const WEEKDAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const FIELDS: readonly Field[] = [
  { name: 'second', min: 0, max: 59 },
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day of month', min: 1, max: 31 },
  { name: 'month', min: 1, max: 12, names: MONTHS },
  // 7 is Sunday as well.
  { name: 'day of week', min: 0, max: 7, names: WEEKDAYS },
];
const LENGTH_MAX = 256;
const TERM = /^(\*|\?|[0-9A-Z]+(?:-[0-9A-Z]+)?)(?:\/([0-9]{1,3}))?$/;
/** The longest each month can be. */
const LONGEST = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

export function readCron(text: string): CronReading {
  const words = text.trim().split(/\s+/);
  if (text.length > LENGTH_MAX || (words.length !== 5 && words.length !== 6)) {
    return {
      ok: false,
      problem: 'must have 5 fields (minute, hour, day of month, month, day of week), or 6 with seconds',
    };
  }
  const given = words.length === 5 ? ['0', ...words] : words;
  const sets: ReadonlySet<number>[] = [];
  for (const [index, field] of FIELDS.entries()) {
    const set = readField(field, known(given[index]).toUpperCase());
    if (typeof set === 'string') return { ok: false, problem: set };
    sets.push(set);
  }
  const [seconds = NONE, minutes = NONE, hours = NONE, days = NONE, months = NONE, weekdays = NONE] = sets;
  const isFree = (word: string | undefined) => word === '*' || word === '?';
  const cron: Cron = {
    seconds: sorted(seconds),
    minutes: sorted(minutes),
    hours: sorted(hours),
    days,
    months,
    weekdays: new Set([...weekdays].map((day) => day % 7)),
    eitherDay: !isFree(given[3]) && !isFree(given[5]),
  };
  const exists =
    cron.eitherDay || [...months].some((month) => [...days].some((day) => day <= known(LONGEST[month - 1])));
  return exists ? { ok: true, cron } : { ok: false, problem: 'names days that do not exist' };
}

const NONE: ReadonlySet<number> = new Set();

function sorted(set: ReadonlySet<number>): readonly number[] {
  return [...set].sort((a, b) => a - b);
}

/** The numbers of one field, or what is wrong with it. */
function readField(field: Field, text: string): ReadonlySet<number> | string {
  const numbers = new Set<number>();
  for (const term of text.split(',')) {
    const [, range = '', step] = TERM.exec(term) ?? [];
    const ends = range === '' ? null : endsOf(field, range, step !== undefined);
    const stride = step === undefined ? 1 : Number(step);
    if (ends === null || stride < 1) {
      return `the ${field.name} must be *, numbers from ${field.min} to ${field.max}, ranges or steps`;
    }
    for (let number = ends.from; number <= ends.to; number += stride) numbers.add(number);
  }
  return numbers;
}

function endsOf(field: Field, range: string, hasStep: boolean): { readonly from: number; readonly to: number } | null {
  const { min, names } = field;
  // Of the two spellings of Sunday, a star means one.
  const max = names === WEEKDAYS ? 6 : field.max;
  if (range === '*') return { from: min, to: max };
  if (range === '?') return field.name.startsWith('day') ? { from: min, to: max } : null;
  const [first = '', last] = range.split('-');
  const from = numberOf(field, first);
  const to = last === undefined ? (hasStep ? max : from) : numberOf(field, last);
  if (from === null || to === null) return null;
  // `FRI-SUN` ends at the other Sunday.
  if (names === WEEKDAYS && to === 0 && from > 0 && last !== undefined) return { from, to: 7 };
  return from <= to ? { from, to } : null;
}

function numberOf({ min, max, names }: Field, word: string): number | null {
  if (/^[0-9]{1,2}$/.test(word)) {
    const number = Number(word);
    return number >= min && number <= max ? number : null;
  }
  const index = names?.indexOf(word) ?? -1;
  return index < 0 ? null : index + (names === MONTHS ? 1 : 0);
}
