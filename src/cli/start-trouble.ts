/**
 * Why a server did not start, in words an operator can act on. What nobody foresaw stays as it is, with its trace: that
 * is a defect, and the trace is what its finder needs.
 */
import type { Config } from '../config.ts';
import { Unavailable } from './command.ts';
import { EXIT } from './exit-code.ts';

/** Somebody else listens where this server was to listen. */
export class PortTaken extends Unavailable {}

/** Schema and program do not fit; starting again changes nothing, so it ends like bad settings do. */
class SchemaUnfit extends Unavailable {
  override readonly exitCode = EXIT.config;
}

/** An address that this machine does not have, or nobody knows: a bad setting that only listening finds out. */
class HostUnfit extends Unavailable {
  override readonly exitCode = EXIT.config;
}

const ENDS_AT_ONCE =
  'the database of SVC_DATABASE_URL ends connections at once; is it a PostgreSQL, and does it want TLS?';
const SILENT = 'the database of SVC_DATABASE_URL does not answer; check its address and what lies between';

/** By SQLSTATE, or the code of a system call; said after what the database said itself. */
const DATABASE_REMEDIES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the database of SVC_DATABASE_URL refuses connections; is it running?',
  ECONNRESET: ENDS_AT_ONCE,
  ETIMEDOUT: SILENT,
  EHOSTUNREACH: 'the database of SVC_DATABASE_URL cannot be reached; check its address and what lies between',
  ENOTFOUND: 'the host name in SVC_DATABASE_URL is not known',
  EAI_AGAIN: 'the host name in SVC_DATABASE_URL cannot be looked up now',
  '28P01': 'check user and password in SVC_DATABASE_URL',
  '28000': 'check the user in SVC_DATABASE_URL, and pg_hba.conf of the database',
  '25006': 'name a database in SVC_DATABASE_URL that can be written: the primary, not its copy',
  '3D000': 'make it (createdb), or name another one in SVC_DATABASE_URL',
  '42501': 'the user of SVC_DATABASE_URL must be able to make schemas there: make it the owner of the database',
  '53100': 'make room on the disk of the database',
  '53300': 'all connections of the database are taken; raise its max_connections',
  '57P03': 'the database is starting or stopping; try again',
};

/** What the driver says without a code. */
const DRIVER_REMEDIES: Readonly<Record<string, string>> = {
  'Connection terminated unexpectedly': ENDS_AT_ONCE,
  'timeout expired': SILENT,
  'There was an error establishing an SSL connection': ENDS_AT_ONCE,
  'The server does not support SSL connections':
    'the database of SVC_DATABASE_URL does not speak TLS; leave sslmode out',
};

/** `error`, or an Unavailable in its place whose message holds the remedy. */
export function remedied(error: unknown, config: Pick<Config, 'port' | 'host' | 'databaseUrl'>): unknown {
  if (!(error instanceof Error)) return error;
  const trouble = causeOf(error);
  if (trouble.name === 'SchemaError') return new SchemaUnfit(trouble.message, { cause: error });
  const code = 'code' in trouble && typeof trouble.code === 'string' ? trouble.code : '';
  if (code === 'EADDRINUSE') {
    return new PortTaken(
      `port ${config.port} on ${config.host} is taken; set SVC_PORT to another one (0 takes a free one)`,
      { cause: error },
    );
  }
  if (code === 'EACCES' && 'syscall' in trouble && trouble.syscall === 'listen') {
    return new Unavailable(`this user may not listen on port ${config.port}; set SVC_PORT to one above 1023`, {
      cause: error,
    });
  }
  if (isOfListening(trouble, code, config.host)) {
    const sentence = `this machine has no address ${config.host} to listen on; set SVC_HOST to one of its own`;
    return new HostUnfit(sentence, { cause: error });
  }
  if (config.databaseUrl === null) return error;
  const word = entryOf(DRIVER_REMEDIES, trouble.message);
  if (word !== undefined) return new Unavailable(word, { cause: error });
  const remedy = entryOf(DATABASE_REMEDIES, code);
  if (remedy === undefined) return error;
  return new Unavailable(code.startsWith('E') ? remedy : `${trouble.message}; ${remedy}`, { cause: error });
}

/** The host name of a database is looked up too, so the name itself tells which one was meant. */
function isOfListening(trouble: Error, code: string, host: string): boolean {
  if (code === 'EADDRNOTAVAIL') return 'syscall' in trouble && trouble.syscall === 'listen';
  return (code === 'ENOTFOUND' || code === 'EAI_AGAIN') && 'hostname' in trouble && trouble.hostname === host;
}

function entryOf(table: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** The innermost error: a failed migration and a host with several addresses wrap what happened. */
function causeOf(error: Error): Error {
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return error.errors[0];
  return error.cause instanceof Error ? causeOf(error.cause) : error;
}
