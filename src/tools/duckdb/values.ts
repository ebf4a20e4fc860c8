/**
 * DuckDB's values as JSON (language 11.11), by the same rules as PostgreSQL's, except that decimals are always text:
 * whole numbers are numbers where a double holds them, timestamps ISO, bytes base64.
 */
import {
  DuckDBArrayType,
  DuckDBArrayValue,
  DuckDBBlobValue,
  DuckDBListType,
  DuckDBListValue,
  DuckDBMapType,
  DuckDBMapValue,
  DuckDBStructType,
  DuckDBStructValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionType,
  DuckDBUnionValue,
  type DuckDBValue,
} from '@duckdb/node-api';
import type { Json } from '../../../machines/json.ts';
import { parseJson } from '../json-text.ts';
import { readNumeric } from '../postgres/values.ts';

/** The JSON of one value of a column of this type. */
export function toJson(value: DuckDBValue, type: DuckDBType): Json {
  if (value === null) return null;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'bigint') return readNumeric(String(value));
  if (typeof value === 'number') return toNumber(value, type.typeId === DuckDBTypeId.FLOAT);
  if (typeof value === 'string') return type.alias === 'JSON' ? parsed(value) : value;
  if (value instanceof DuckDBBlobValue) return Buffer.from(value.bytes).toString('base64');
  if (value instanceof DuckDBTimestampTZValue) return iso(new DuckDBTimestampValue(value.micros).toString(), 'Z');
  if (isTimestamp(type)) return iso(String(value), '');
  if (value instanceof DuckDBListValue && type instanceof DuckDBListType) {
    return value.items.map((item) => toJson(item, type.valueType));
  }
  if (value instanceof DuckDBArrayValue && type instanceof DuckDBArrayType) {
    return value.items.map((item) => toJson(item, type.valueType));
  }
  if (value instanceof DuckDBStructValue && type instanceof DuckDBStructType) {
    const members = type.entryNames.map((name, at) => {
      const inner = type.entryTypes[at];
      return [name, inner === undefined ? null : toJson(value.entries[name] ?? null, inner)] as const;
    });
    return Object.fromEntries(members);
  }
  if (value instanceof DuckDBMapValue && type instanceof DuckDBMapType) {
    const entries = value.entries.map(({ key, value: member }) => [
      String(toJson(key, type.keyType)),
      toJson(member, type.valueType),
    ]);
    return Object.fromEntries(entries);
  }
  if (value instanceof DuckDBUnionValue && type instanceof DuckDBUnionType) {
    return toJson(value.value, type.memberTypeForTag(value.tag));
  }
  return String(value);
}

/** A 32-bit float is read as the shortest decimal that means it; what is not finite is null. */
function toNumber(value: number, single: boolean): number | null {
  if (!Number.isFinite(value)) return null;
  if (!single) return value;
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

function isTimestamp({ typeId }: DuckDBType): boolean {
  return (
    typeId === DuckDBTypeId.TIMESTAMP ||
    typeId === DuckDBTypeId.TIMESTAMP_S ||
    typeId === DuckDBTypeId.TIMESTAMP_MS ||
    typeId === DuckDBTypeId.TIMESTAMP_NS
  );
}

/** Infinity and dates before our era keep their text. */
function iso(text: string, zone: string): string {
  const parts = /^(\d{4,6}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)$/.exec(text);
  return parts === null ? text : `${parts[1]}T${parts[2]}${zone}`;
}

function parsed(text: string): Json {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}
