/** Names of tables and columns as SQL: always quoted, so that whatever a document says stays a name. */
import { FieldProblem } from '../fields.ts';

export function quoted(name: string): string {
  if (name === '' || name.includes('\0')) throw new FieldProblem('a name of a column or table cannot be used');
  return `"${name.replaceAll('"', '""')}"`;
}

/** `schema.table`, each part quoted or not. Throws FieldProblem for anything else. */
export function quotedTable(text: string, maxParts: number): string {
  const parts = [...text.trim().matchAll(/(?:"((?:[^"]|"")+)"|([^".\s]+))(\.|$)/gy)];
  const length = parts.reduce((sum, [whole]) => sum + whole.length, 0);
  const closed = parts.at(-1)?.[3] === '';
  if (parts.length === 0 || !closed || length !== text.trim().length || parts.length > maxParts) {
    throw new FieldProblem(`'${text.slice(0, 100)}' is not the name of a table`);
  }
  return parts.map(([, inQuotes, plain = '']) => quoted(inQuotes?.replaceAll('""', '"') ?? plain)).join('.');
}

/** The tail of an insert that overwrites the rows with the same key. */
export function onConflict(columns: readonly string[], key: readonly string[]): string {
  const rest = columns.filter((column) => !key.includes(column));
  const target = `on conflict (${key.map(quoted).join(', ')})`;
  if (rest.length === 0) return `${target} do nothing`;
  return `${target} do update set ${rest.map((column) => `${quoted(column)} = excluded.${quoted(column)}`).join(', ')}`;
}
