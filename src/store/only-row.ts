/** The one row of a statement that gives exactly one (an insert with `returning`, an aggregate). */
export function onlyRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined || rows.length > 1) throw new Error('a statement gave another number of rows than one');
  return row;
}
