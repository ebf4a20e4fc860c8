/**
 * Instants without a clock: ISO 8601 text (UTC, with or without milliseconds) to milliseconds since the epoch and back.
 * Pure arithmetic on the calendar, because charts may not touch `Date`.
 */

const PATTERN = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?Z$/;
const DAY_MS = 86_400_000;

/** Milliseconds since the epoch; fractions beyond the millisecond are cut. Throws on anything that is not UTC ISO text. */
export function instantOf(iso: string): number {
  const instant = iso.length === 24 ? plainInstantOf(iso) : Number.NaN;
  return Number.isNaN(instant) ? anyInstantOf(iso) : instant;
}

/** The form that `isoOf` writes, read without a pattern: every turn reads some. NaN for any other. */
function plainInstantOf(iso: string): number {
  const dated = iso[4] === '-' && iso[7] === '-' && iso[10] === 'T';
  if (!dated || iso[13] !== ':' || iso[16] !== ':' || iso[19] !== '.' || iso[23] !== 'Z') return Number.NaN;
  const days = daysOf(digits(iso, 0, 4), digits(iso, 5, 7), digits(iso, 8, 10));
  const seconds = digits(iso, 11, 13) * 3600 + digits(iso, 14, 16) * 60 + digits(iso, 17, 19);
  return days * DAY_MS + seconds * 1000 + digits(iso, 20, 23);
}

function digits(text: string, from: number, to: number): number {
  let number = 0;
  for (let at = from; at < to; at += 1) {
    const digit = text.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) return Number.NaN;
    number = number * 10 + digit;
  }
  return number;
}

function anyInstantOf(iso: string): number {
  const match = PATTERN.exec(iso);
  if (match === null) throw new RangeError('not an ISO 8601 instant in UTC');
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map(Number);
  const millis = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  return daysOf(year, month, day) * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1000 + millis;
}

/** ISO 8601 UTC with milliseconds. */
export function isoOf(instant: number): string {
  const whole = Math.floor(instant);
  const days = Math.floor(whole / DAY_MS);
  const rest = whole - days * DAY_MS;
  const { year, month, day } = dateOf(days);
  const time = `${two(Math.floor(rest / 3_600_000))}:${two(Math.floor(rest / 60_000) % 60)}:${two(Math.floor(rest / 1000) % 60)}`;
  return `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}T${time}.${String(rest % 1000).padStart(3, '0')}Z`;
}

function two(number: number): string {
  return number < 10 ? `0${number}` : `${number}`;
}

// Both directions count years from March, so that the leap day is the last day of a year (a 400-year era has 146,097 days).

function daysOf(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

/** The date of a day counted from 1970-01-01. */
export function dateOf(days: number): { year: number; month: number; day: number } {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day };
}
