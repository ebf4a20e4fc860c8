/** Rows as lists arrive as what they were told to be. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rowSet } from '../../src/store/row-set.ts';
import { queryRows, startTestPostgres, type TestPostgres } from '../support/postgres.ts';

let database: TestPostgres;

beforeAll(async () => {
  database = await startTestPostgres();
});
afterAll(() => database.stop());

interface Row {
  readonly rowId: number;
  readonly small: number | null;
  readonly share: number | null;
  readonly isOpen: boolean | null;
  readonly name: string | null;
  readonly at: string | null;
  readonly data: unknown;
  readonly hash: string | null;
  readonly ids: readonly number[] | null;
  readonly ignored?: string;
}

const ROWS = rowSet<Row>(
  {
    rowId: 'bigint',
    small: 'smallint',
    share: 'double precision',
    isOpen: 'boolean',
    name: 'text',
    at: 'timestamptz',
    data: 'jsonb',
    hash: 'hex',
    ids: 'bigint[]',
  },
  { at: 'happened_at' },
);

test('every kind of field, and null in each', async () => {
  const whole: Row = {
    rowId: Number.MAX_SAFE_INTEGER,
    small: -7,
    share: 0.1,
    isOpen: false,
    name: `it's "quoted", {braced}, \\ and ☃\n`,
    at: '2026-11-20T10:15:02.123Z',
    data: { b: [1.5, null, { deep: 'x' }], a: 'null' },
    hash: '00ff10',
    ids: [1, Number.MAX_SAFE_INTEGER],
    ignored: 'not sent',
  };
  const none: Row = { ...whole, rowId: 2, small: null, share: null, isOpen: null, name: null, at: null, data: null };
  const empty: Row = { ...none, rowId: 3, name: '', data: 'null', hash: null, ids: [] };
  const text = ROWS.text([whole, none, empty]);
  expect(text).not.toContain('not sent');
  const rows = await queryRows(
    database.url,
    `select "rowId"::text, small, share, "isOpen", name, to_jsonb(at at time zone 'UTC') as at, data,
       jsonb_typeof(data) as kind, encode(hash, 'hex') as hash, ids::text
     from ${ROWS.relation.replace('$1', `'${text.replaceAll("'", "''")}'`)} as item order by 1 desc`,
  );
  const nothing = { small: null, share: null, isOpen: null, at: null };
  expect(rows).toEqual([
    {
      ...whole,
      rowId: '9007199254740991',
      at: '2026-11-20T10:15:02.123',
      kind: 'object',
      ids: '{1,9007199254740991}',
      ignored: undefined,
    },
    { ...nothing, rowId: '3', name: '', data: 'null', kind: 'string', hash: null, ids: '{}' },
    { ...nothing, rowId: '2', name: null, data: null, kind: null, hash: '00ff10', ids: '{1,9007199254740991}' },
  ]);
});

test('columns have the names of their fields, or those they are given', () => {
  expect(ROWS.columns).toBe('row_id, small, share, is_open, name, happened_at, data, hash, ids');
});
