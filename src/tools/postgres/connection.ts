/**
 * How a postgres task reaches its database: credential fields, overlaid with the fields of the task (language 11.2,
 * 12.2), as one plain config. Its digest names the pool; no part of it may appear in a message.
 */
import { createHash } from 'node:crypto';
import type { JsonMap } from '../../../machines/json.ts';
import { checkMeantFor, unusableCredential } from '../credentials.ts';
import { FieldProblem, fieldOf, textOf } from '../fields.ts';
import type { ResolvedAuth } from '../tool.ts';

export interface ConnectionConfig {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly ssl: boolean | { readonly rejectUnauthorized: boolean };
}

const usable = new Set(['postgres', 'postgresql', 'basic', 'custom', 'generic', 'none']);

/** Throws FieldProblem when there is no usable connection. */
export function readConnection(fields: JsonMap, auth: ResolvedAuth | null): ConnectionConfig {
  if (auth !== null && !usable.has(auth.type.toLowerCase())) throw unusableCredential(auth, 'postgres');
  const data = auth?.data ?? {};
  const url = readUrl(textOf(fields, 'connection_string') ?? textOf(data, 'connection_string', 'dsn', 'url'));
  const field = (...names: string[]) => textOf(fields, ...names) ?? textOf(url, ...names) ?? textOf(data, ...names);
  const host = field('host', 'db_host', 'hostname');
  if (host === undefined || host.trim() === '')
    throw new FieldProblem(`no connection: 'auth', 'connection_string' or 'host' must be given`);
  const user = field('user', 'db_user', 'username', 'db_username') ?? 'postgres';
  const port = Number(field('port', 'db_port') ?? 5432);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new FieldProblem(`field 'port' is not a port number`);
  checkMeantFor(auth, host, port);
  return {
    host,
    port,
    user,
    password: field('password', 'db_password') ?? '',
    database: field('database', 'db_name', 'dbname', 'db_database') ?? user,
    ssl: readSsl(field('sslmode', 'db_sslmode', 'ssl')),
  };
}

/** The digest of a config, under which its pool is kept. */
export function connectionKey(config: ConnectionConfig): string {
  return createHash('sha256').update(JSON.stringify(config)).digest('base64');
}

function readUrl(text: string | undefined): JsonMap {
  if (text === undefined || text === '') return {};
  if (!/^postgres(?:ql)?:\/\//.test(text)) return readKeywords(text);
  // The problem is told without the text, which holds a password.
  // `user@/database?host=/folder` names a socket; URLs need a host, so it gets one that the query replaces.
  const hosted = text.replace(/^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)(?=[/?]|$)/, '$1socket.invalid');
  if (!URL.canParse(hosted)) throw new FieldProblem(`field 'connection_string' cannot be read`);
  const url = new URL(hosted);
  const host = decoded(url.hostname).replace(/^\[(.*)\]$/, '$1');
  const pairs: [string, string][] = [
    ['host', url.searchParams.get('host') ?? (host === 'socket.invalid' ? 'localhost' : host)],
    ['port', url.searchParams.get('port') ?? url.port],
    ['user', decoded(url.username)],
    ['password', decoded(url.password)],
    ['database', decoded(url.pathname.slice(1))],
    ['sslmode', url.searchParams.get('sslmode') ?? ''],
  ];
  return Object.fromEntries(pairs.filter(([, value]) => value !== ''));
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** `host=... user=...`, libpq's other form; values may stand in single quotes. */
function readKeywords(text: string): JsonMap {
  const found = [...text.matchAll(/(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))/g)];
  if (found.length === 0) throw new FieldProblem(`field 'connection_string' cannot be read`);
  const pairs = found.map(([, name = '', quoted, plain = '']) => [
    name === 'dbname' ? 'database' : name,
    quoted === undefined ? plain : quoted.replace(/\\(.)/g, '$1'),
  ]);
  return Object.fromEntries(pairs);
}

/** libpq's modes: `require` encrypts without looking at the certificate, the `verify` modes look. */
function readSsl(mode: string | undefined): ConnectionConfig['ssl'] {
  switch ((mode ?? '').toLowerCase()) {
    case 'require':
    case 'no-verify':
      return { rejectUnauthorized: false };
    case 'verify-ca':
    case 'verify-full':
    case 'true':
      return true;
    default:
      return false;
  }
}

/** `schema` as a search path: one quoted identifier. */
export function searchPath(fields: JsonMap): string | null {
  const schema = fieldOf(fields, 'schema') === undefined ? undefined : textOf(fields, 'schema')?.trim();
  if (schema === undefined || schema === '') return null;
  if (schema.includes('\0')) throw new FieldProblem(`field 'schema' has a NUL character`);
  return `"${schema.replaceAll('"', '""')}"`;
}
