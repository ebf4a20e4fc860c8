/**
 * JSON values as parameters of a DuckDB statement. Lists of scalars of one type are lists; whatever else holds a list
 * or a map travels as JSON text, which DuckDB casts where a column wants it.
 */
import {
  BIGINT,
  BOOLEAN,
  DOUBLE,
  type DuckDBType,
  type DuckDBValue,
  INTEGER,
  LIST,
  listValue,
  SQLNULL,
  VARCHAR,
} from '@duckdb/node-api';
import type { Json } from '../../../machines/json.ts';

export interface Bound {
  readonly value: DuckDBValue;
  readonly type: DuckDBType;
}

export function bindable(value: Json): Bound {
  if (!Array.isArray(value))
    return typeof value === 'object' && value !== null ? text(JSON.stringify(value)) : scalar(value);
  const items = value.map((item: Json) => (typeof item === 'object' && item !== null ? null : scalar(item)));
  const typed = items.filter((item) => item !== null && item.type !== SQLNULL);
  const [first] = typed;
  const mixed = items.includes(null) || typed.some((item) => item?.type !== first?.type);
  if (first === undefined || first === null || mixed) return text(JSON.stringify(value));
  return { value: listValue(items.map((item) => item?.value ?? null)), type: LIST(first.type) };
}

function scalar(value: null | boolean | number | string): Bound {
  if (value === null) return { value, type: SQLNULL };
  if (typeof value === 'string') return text(value);
  if (typeof value === 'boolean') return { value, type: BOOLEAN };
  if (!Number.isSafeInteger(value)) return { value, type: DOUBLE };
  return Math.abs(value) < 2 ** 31 ? { value, type: INTEGER } : { value: BigInt(value), type: BIGINT };
}

function text(value: string): Bound {
  return { value, type: VARCHAR };
}
