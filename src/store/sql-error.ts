/**
 * What a caller of the SQL endpoint may read of a failure. PostgreSQL quotes data in its messages ("invalid input syntax
 * for type integer: "hunter2""), so a message passes only where its class is known to speak of names and syntax;
 * detail, hint, where and the statement itself never do.
 */
import type pg from 'pg';

export interface SqlFailure {
  readonly message: string;
  readonly sqlstate: string;
}

/** Classes whose messages name objects, types and settings, but no values. */
const SPEAK_OF_NAMES = new Set([
  '0A',
  '21',
  '23',
  '25',
  '26',
  '2B',
  '2D',
  '34',
  '3F',
  '40',
  '42',
  '53',
  '54',
  '55',
  '57',
]);

const PARAMETER_COUNT = /^bind message supplies \d+ parameters, but prepared statement "" requires \d+$/;

export function describeFailure(error: pg.DatabaseError): SqlFailure {
  const sqlstate = error.code ?? 'XX000';
  const kind = sqlstate.slice(0, 2);
  if (SPEAK_OF_NAMES.has(kind)) return { message: withoutLiterals(error.message), sqlstate };
  // The numbers of parameters given and wanted.
  if (sqlstate === '08P01' && PARAMETER_COUNT.test(error.message)) return { message: error.message, sqlstate };
  if (kind === '22') return { message: withoutQuotes(error.message), sqlstate };
  return { message: 'The statement failed', sqlstate };
}

/** Syntax errors quote the token they stumbled over; a name helps, a literal is a value. */
function withoutLiterals(message: string): string {
  return message.replace(/"['$\d][\s\S]*"/g, '"***"');
}

function withoutQuotes(message: string): string {
  return message.replace(/:? ?["'][\s\S]*["']/, '');
}
