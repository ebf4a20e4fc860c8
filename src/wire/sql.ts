/** One SQL statement over a stored credential (api 2.11). Targets come from credentials, never from the request. */
import * as v from 'valibot';
import { described } from './described.ts';
import { integer, json, list, map, maybe, text } from './fields.ts';
import { name } from './ids.ts';

const QUERY_CHARS_MAX = 1_048_576;
const refused = described(
  v.custom<null>((value) => value === null, 'is refused: the target comes from credential_name'),
  { type: 'null' },
);
/** Identifier grammar, as PostgreSQL folds it. */
const schemaName = described(
  v.custom<string>(
    (value) => typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_$]{0,62}$/.test(value),
    'must be a schema name',
  ),
  { type: 'string', pattern: '^[A-Za-z_][A-Za-z0-9_$]{0,62}$' },
);
const base64 = described(
  v.custom<string>(
    (value) => typeof value === 'string' && decodeBase64(value) !== null,
    'must be base64 of UTF-8 text',
  ),
  { type: 'string', contentEncoding: 'base64' },
);

export const sqlBody = v.pipe(
  v.object({
    query: maybe(text(QUERY_CHARS_MAX, 1)),
    query_base64: maybe(base64),
    parameters: maybe(list(json, 65_535)),
    credential_name: maybe(name),
    credential: maybe(name),
    schema: maybe(schemaName),
    max_rows: maybe(integer(1, 100_000)),
    timeout_seconds: maybe(integer(1, 300)),
    connection_string: v.optional(refused),
    database: v.optional(refused),
  }),
  v.check((body) => (body.query == null) !== (body.query_base64 == null), 'needs either query or query_base64'),
  // Who gives none at all has been told so.
  v.check((body) => (body.query ?? body.query_base64) == null || /[^\s;]/.test(queryOf(body)), 'holds no statement'),
);

export function queryOf(body: {
  readonly query?: string | null | undefined;
  readonly query_base64?: string | null | undefined;
}): string {
  return body.query ?? decodeBase64(body.query_base64 ?? '') ?? '';
}

export const sqlAnswer = v.object({
  status: v.literal('ok'),
  result: v.array(map),
  row_count: v.number(),
  columns: v.array(v.string()),
  truncated: v.boolean(),
  error: v.null(),
});

function decodeBase64(value: string): string | null {
  if (value.length === 0 || value.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(value, 'base64'));
  } catch {
    return null;
  }
}
