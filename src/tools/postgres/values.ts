/**
 * PostgreSQL's text output as JSON values (language 11.2). A number becomes a JSON number only when a double holds it
 * exactly; everything without a JSON counterpart keeps the text the database prints.
 */
import type { Json } from '../../../machines/json.ts';
import { parseJson } from '../json-text.ts';

type Reader = (text: string) => Json;

const bool: Reader = (text) => text === 't';
const small: Reader = Number;
const float: Reader = (text) => (Number.isFinite(Number(text)) ? Number(text) : null);
const bytes: Reader = (text) => Buffer.from(text.startsWith('\\x') ? text.slice(2) : text, 'hex').toString('base64');

/** Element types by type id. The id of each one's array type is beside it. */
const known: readonly (readonly [id: number, arrayId: number, read: Reader])[] = [
  [16, 1000, bool],
  [17, 1001, bytes],
  [20, 1016, readNumeric],
  [21, 1005, small],
  [23, 1007, small],
  [26, 1028, small],
  [114, 199, parseJson],
  [700, 1021, float],
  [701, 1022, float],
  [1114, 1115, (text) => readTimestamp(text)],
  [1184, 1185, (text) => readTimestamp(text)],
  [1700, 1231, readNumeric],
  [3802, 3807, parseJson],
];
/** Array types of elements that stay text. */
const textArrays = [
  ...[143, 651, 719, 775, 791, 1002, 1003, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1017, 1018, 1019, 1027],
  ...[1034, 1040, 1041, 1182, 1183, 1187, 1263, 1270, 1561, 1563, 2201, 2207, 2208, 2209, 2210, 2211, 2949, 2951],
  ...[3221, 3643, 3644, 3645, 3735, 3770, 3905, 3907, 3909, 3911, 3913, 3927, 4090, 4097, 4192],
];
const text: Reader = (value) => value;

const readers = new Map<number, Reader>([
  ...known.flatMap(([id, arrayId, read]): [number, Reader][] => [
    [id, read],
    [arrayId, (value) => readArray(value, read)],
  ]),
  ...textArrays.map((id): [number, Reader] => [id, (value) => readArray(value, text)]),
  [1020, (value: string) => readArray(value, text, ';')],
]);

/** First type id that is not built in; such a type may be an array and has to be asked for. */
export const firstUserTypeId = 16_384;

/** The value of one column; null stays null. `arrays` names user-defined array types. */
export function readValue(value: string | null, typeId: number, arrays: ReadonlySet<number>): Json {
  if (value === null) return null;
  const read = readers.get(typeId);
  if (read !== undefined) return read(value);
  return arrays.has(typeId) ? readArray(value, text) : value;
}

/** int8 and numeric: a number when the double prints back to the same digits, else the text; NaN and infinity null. */
export function readNumeric(value: string): Json {
  const parts = /^(-?)(\d+)(?:\.(\d+))?$/.exec(value);
  if (parts === null) return null;
  const [, sign = '', whole = '', fraction = ''] = parts;
  const canonical = canonicalDecimal(sign, whole, fraction);
  const number = Number(value);
  // Up to 15 significant digits always survive the way through a double.
  const digits = canonical.replace(/^-?0\.0*|[-.]/g, '').length;
  if (digits <= 15) return Number.isFinite(number) ? number : value;
  return String(number) === canonical ? number : value;
}

function canonicalDecimal(sign: string, whole: string, fraction: string): string {
  const trimmed = fraction.replace(/0+$/, '');
  const digits = `${whole.replace(/^0+(?=\d)/, '')}${trimmed === '' ? '' : `.${trimmed}`}`;
  return digits === '0' ? '0' : sign + digits;
}

/**
 * `2024-05-01 10:00:00.5+02` as ISO: in UTC with `Z` when it has an offset, else without a zone. Infinity and dates
 * before our era keep their text. Microseconds survive because only the part above seconds passes through Date.
 */
export function readTimestamp(value: string): string {
  const parts = /^(\d{4,6})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d+)?(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?$/.exec(
    value,
  );
  if (parts === null) return value;
  const [, year = '', month, day, hour, minute, second, fraction = '', sign] = parts;
  if (sign === undefined) return `${year}-${month}-${day}T${hour}:${minute}:${second}${fraction}`;
  const [, , , , , , , , , offsetHours, offsetMinutes = '0', offsetSeconds = '0'] = parts;
  const offset = (Number(offsetHours) * 60 + Number(offsetMinutes)) * 60 + Number(offsetSeconds);
  const local = Date.UTC(2000, Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  const at = new Date(local);
  at.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  const utc = new Date(at.getTime() - (sign === '-' ? -offset : offset) * 1000);
  if (Number.isNaN(utc.getTime())) return value;
  return `${utc.toISOString().replace(/^\+0?/, '').slice(0, -5)}${fraction}Z`;
}

/** `{1,NULL,"a,b"}` as a list; nested braces are nested lists. Text that is not an array is returned as it is. */
export function readArray(value: string, read: Reader, delimiter = ','): Json {
  let at = value.startsWith('[') ? value.indexOf('=') + 1 : 0;
  const list = (): Json[] => {
    const items: Json[] = [];
    at += 1;
    while (at < value.length && value[at] !== '}') {
      if (value[at] === delimiter) at += 1;
      else items.push(value[at] === '{' ? list() : value[at] === '"' ? read(quoted()) : bare());
    }
    at += 1;
    return items;
  };
  const quoted = (): string => {
    let out = '';
    for (at += 1; at < value.length && value[at] !== '"'; at += 1) {
      if (value[at] === '\\') at += 1;
      out += value[at] ?? '';
    }
    at += 1;
    return out;
  };
  const bare = (): Json => {
    const from = at;
    while (at < value.length && value[at] !== delimiter && value[at] !== '}') at += 1;
    const item = value.slice(from, at);
    return item === 'NULL' ? null : read(item);
  };
  return value[at] === '{' ? list() : value;
}
