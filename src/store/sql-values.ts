/**
 * What PostgreSQL prints, as JSON values (language 11.2). Numbers become JSON numbers only when a double holds them;
 * everything without a JSON counterpart keeps its text. The session prints instants in UTC, so that no arithmetic on
 * dates is needed here.
 */
import pg from 'pg';
import type { Json } from '../../machines/json.ts';

type Read = (text: string) => Json;

const float: Read = (text) => (Number.isFinite(Number(text)) ? Number(text) : null);
const text: Read = (value) => value;

/** By type id, with the id of its array type. */
const SCALARS: readonly (readonly [type: number, arrayType: number, read: Read])[] = [
  [16, 1000, (value) => value === 't'],
  [17, 1001, (value) => Buffer.from(value.slice(2), 'hex').toString('base64')],
  [20, 1016, readNumber],
  [21, 1005, Number],
  [23, 1007, Number],
  [26, 1028, Number],
  [114, 199, readJson],
  [700, 1021, float],
  [701, 1022, float],
  [1114, 1115, (value) => value.replace(' ', 'T')],
  [1184, 1185, (value) => value.replace(/^(\S+) (\S+)\+00$/, '$1T$2Z')],
  [1700, 1231, readNumber],
  [3802, 3807, readJson],
];

const READERS: ReadonlyMap<number, Read> = new Map(
  SCALARS.flatMap(([type, arrayType, read]): [number, Read][] => [
    [type, read],
    [arrayType, (value) => readList(value, read)],
  ]),
);

/** True for a type whose values are neither known here nor plain text for certain: it may be an array. */
export function mayBeArray(type: number): boolean {
  return !READERS.has(type) && type !== 25 && type !== 1043;
}

/** `arrays` names the array types among those `mayBeArray` was true for. */
export function readValue(value: string | null, type: number, arrays: ReadonlySet<number>): Json {
  if (value === null) return null;
  const read = READERS.get(type);
  if (read !== undefined) return read(value);
  return arrays.has(type) ? readList(value, text) : value;
}

/** The driver reads the array grammar, as lists of lists of text; the elements are ours to read. */
const TEXT_LIST: number = 1009;
const readTexts: (text: string) => Texts = pg.types.getTypeParser(TEXT_LIST, 'text');
type Texts = readonly (string | null | Texts)[];

function readList(value: string, read: Read): Json {
  // Bounds other than 1 are printed in front: `[0:1]={a,b}`.
  return readItems(readTexts(value.startsWith('[') ? value.slice(value.indexOf('=') + 1) : value), read);
}

function readItems(items: Texts, read: Read): Json {
  return items.map((item) => (item === null ? null : typeof item === 'string' ? read(item) : readItems(item, read)));
}

/** A number when a double prints back to the same digits, else the digits; NaN and infinity have no JSON. */
export function readNumber(value: string): Json {
  const [, sign = '', whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(value) ?? [];
  if (whole === undefined) return null;
  const number = Number(value);
  const digits = `${whole}${fraction}`.replace(/^0+/, '').replace(/0+$/, '');
  // Fifteen significant digits survive the way through a double, whatever its size.
  if (digits.length <= 15) return Number.isFinite(number) ? number : value;
  if (/^0*$/.test(fraction)) return Number.isFinite(number) && BigInt(number) === BigInt(sign + whole) ? number : value;
  return String(number) === `${sign}${whole}.${fraction.replace(/0+$/, '')}` ? number : value;
}

/** Whole numbers inside JSON that a double cannot hold become their digits. */
function readJson(value: string): Json {
  // What the database prints as JSON is JSON.
  if (!/\d{16}/.test(value)) return JSON.parse(value) as Json;
  return JSON.parse(value, (_key, member: Json, context?: { readonly source?: string }) => {
    const source = context?.source;
    return typeof member === 'number' && source !== undefined && /^-?\d+$/.test(source) ? readNumber(source) : member;
  }) as Json;
}

/** A JSON value as the text of a parameter; lists become arrays, or JSON when they hold maps. */
export function writeParameter(value: Json): string | null {
  if (value === null) return null;
  if (typeof value !== 'object') return String(value);
  return Array.isArray(value) && !holdsMap(value) ? writeList(value) : JSON.stringify(value);
}

function holdsMap(value: Json): boolean {
  if (Array.isArray(value)) return value.some(holdsMap);
  return typeof value === 'object' && value !== null;
}

function writeList(items: readonly Json[]): string {
  const parts = items.map((item) => {
    if (item === null) return 'null';
    if (Array.isArray(item)) return writeList(item);
    return `"${String(item).replace(/["\\]/g, '\\$&')}"`;
  });
  return `{${parts.join(',')}}`;
}
