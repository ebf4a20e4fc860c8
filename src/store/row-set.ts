/**
 * Rows of one kind as one JSON text: a list of lists, in the order of the fields told here once. PostgreSQL takes a value
 * out of a list by its number; out of objects it would read and look up the name of every field of every row, which was
 * a third of what a flush of sixteen executions cost it (docs/decisions/0011).
 */

/** `hex`: bytes that travel as hexadecimal digits. A list travels as the text of an array. */
type FieldType =
  | 'bigint'
  | 'int'
  | 'smallint'
  | 'double precision'
  | 'boolean'
  | 'text'
  | 'timestamptz'
  | 'jsonb'
  | 'hex'
  | 'bigint[]';

export interface RowSet<Row> {
  /** Columns of the table, in the order of `values`. */
  readonly columns: string;
  /** Expressions over `SOURCE`. */
  readonly values: string;
  /** A relation whose columns have the names of the fields; give it an alias. */
  readonly relation: string;
  /** What the parameter of `SOURCE` is given. */
  text(rows: readonly Row[]): string;
}

/** The rows of the first parameter, for `from`. */
export const SOURCE = 'jsonb_array_elements($1::jsonb) as item';

/** A column has its field's name in snake case, unless `names` has another for it. */
export function rowSet<Row>(
  fields: { readonly [Field in keyof Row]?: FieldType },
  names: { readonly [Field in keyof Row]?: string } = {},
): RowSet<Row> {
  // Of an object literal with the keys of a row: nothing else is in it.
  const keys = Object.keys(fields) as (keyof Row & string)[];
  const isList = keys.map((key) => fields[key] === 'bigint[]');
  const values = keys.map((key, place) => expression(fields[key] ?? 'text', place));
  const named = keys.map((key, place) => `${values[place]} as "${key}"`);
  return {
    columns: keys.map((key) => names[key] ?? snakeCase(key)).join(', '),
    values: values.join(', '),
    relation: `(select ${named.join(', ')} from ${SOURCE})`,
    text: (rows) =>
      JSON.stringify(
        rows.map((row) => keys.map((key, place) => (isList[place] === true ? arrayText(row[key]) : row[key]))),
      ),
  };
}

function expression(type: FieldType, place: number): string {
  switch (type) {
    case 'jsonb':
      return `nullif(item -> ${place}, 'null')`;
    case 'text':
      return `item ->> ${place}`;
    case 'hex':
      return `decode(item ->> ${place}, 'hex')`;
    default:
      return `(item ->> ${place})::${type}`;
  }
}

function arrayText(value: unknown): string | null {
  return Array.isArray(value) ? `{${value.join(',')}}` : null;
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
