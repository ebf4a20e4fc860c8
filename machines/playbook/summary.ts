/**
 * What stays in the log of a value that is stored apart (language 10.3): the fields an author selected, what is small
 * at the top, counts instead of lists, and where the whole is. Also the paths of `output.select`.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';
import { known } from '../known.ts';
import { ownMember } from './values.ts';

export interface Selection {
  readonly path: string;
  readonly as: string;
}

export interface SummaryOptions {
  readonly ref: string;
  readonly store: string;
  /** Of the compact JSON. */
  readonly bytes: number;
  readonly select: readonly Selection[];
  /** Bytes of `_preview`; the language's default is 1024. */
  readonly previewMaxBytes: number;
}

export const PREVIEW_MAX_BYTES = 1024;

const STRING_MAX = 1000;
const LIST_MAX = 10;

/** `json` is the compact JSON of `value`, which the caller has at hand because it measured it. */
export function summarise(value: Json, json: string, options: SummaryOptions): JsonMap {
  const entries = new Map<string, Json>();
  if (isMap(value)) for (const [key, member] of Object.entries(value)) addMember(entries, key, member);
  else if (Array.isArray(value)) entries.set('count', value.length);
  for (const [as, selected] of Object.entries(selectedOf(value, options.select))) entries.set(as, selected);
  entries.set('_ref', options.ref);
  entries.set('_store', options.store);
  entries.set('_size_bytes', options.bytes);
  entries.set('_preview', cutToBytes(json, options.previewMaxBytes));
  return Object.fromEntries(entries);
}

/** An inline map with the selected fields added where the key is absent; any other value as it is. */
export function withSelected(value: Json, select: readonly Selection[]): Json {
  if (!isMap(value) || select.length === 0) return value;
  const added = Object.entries(selectedOf(value, select)).filter(([as]) => !Object.hasOwn(value, as));
  return added.length === 0 ? value : Object.fromEntries([...Object.entries(value), ...added]);
}

/** The parts of a path such as `meta.total` or `rows[0].id`: names of members and positions in lists. */
export function partsOfPath(path: string): readonly string[] {
  return path.match(/[^.[\]]+/g) ?? [];
}

/** What a selected value is kept as where nobody says: `rows[0].id` as `id`, `rows[0]` as `0`. */
export function nameOfPath(path: string): string {
  const parts = path.split(/[.[\]'"]+/).filter((part) => part !== '');
  return parts.at(-1) ?? path;
}

/** The value at a path; undefined where there is none. */
export function valueAt(value: Json, path: string): Json | undefined {
  let found: Json | undefined = value;
  for (const part of partsOfPath(path)) {
    if (isMap(found)) found = ownMember(found, part);
    else if (Array.isArray(found) && /^-?\d+$/.test(part)) found = found.at(Number(part));
    else return undefined;
  }
  return found;
}

/** The longest prefix of at most `bytes` bytes in UTF-8; never half a character. */
export function cutToBytes(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text;
  let used = 0;
  let end = 0;
  for (const character of text) {
    used += utf8Bytes(known(character.codePointAt(0)));
    if (used > bytes) break;
    end += character.length;
  }
  return text.slice(0, end);
}

function addMember(entries: Map<string, Json>, key: string, member: Json): void {
  if (isSmallScalar(member)) entries.set(key, member);
  else if (Array.isArray(member)) {
    if (member.length <= LIST_MAX && member.every(isSmallScalar)) entries.set(key, member);
    else addAbsent(entries, `${key}_count`, member.length);
  } else if (isMap(member)) {
    for (const [sub, inner] of Object.entries(member)) {
      if (isSmallScalar(inner)) addAbsent(entries, `${key}_${sub}`, inner);
    }
  }
}

/** Names made up here never hide a member that the value has. */
function addAbsent(entries: Map<string, Json>, key: string, member: Json): void {
  if (!entries.has(key)) entries.set(key, member);
}

function selectedOf(value: Json, select: readonly Selection[]): JsonMap {
  const found = select.flatMap(({ path, as }) => {
    const selected = valueAt(value, path);
    return selected === undefined ? [] : [[as, selected] as const];
  });
  return Object.fromEntries(found);
}

function isSmallScalar(value: Json): boolean {
  return typeof value === 'string' ? value.length <= STRING_MAX : value === null || typeof value !== 'object';
}

function utf8Bytes(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}
