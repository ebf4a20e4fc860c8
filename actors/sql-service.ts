/**
 * One SQL statement for an administrator (api 2.11, 8.3): against the database of a stored credential with that
 * credential's rights, or against the service's own with a login that can read and nothing else. What may run is decided
 * by which login runs it, never by looking at the text. The audit row is written before the statement runs, so that
 * nothing ever runs without a trace; a failure adds a second one. What is refused leaves one too.
 */
import type { Json, JsonMap } from '../machines/json.ts';
import { maskStatement } from '../machines/sql/mask-statement.ts';
import type { AuditRow, CurrentCaller } from './audit.ts';
import { DomainError } from './errors.ts';
import type { Ids } from './ports.ts';
import type { SqlService } from './services.ts';

export interface SqlConnection {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** libpq's `sslmode`; null: no encryption asked for. */
  readonly sslMode: string | null;
}

/** `own` is the service's database, through the login its mode allows. */
export type SqlTarget = { readonly kind: 'own' } | { readonly kind: 'credential'; readonly connection: SqlConnection };

export interface SqlStatement {
  readonly query: string;
  readonly parameters: readonly Json[];
  readonly schema: string | null;
  readonly maxRows: number;
  readonly timeoutSeconds: number;
}

export type SqlOutcome =
  | {
      readonly ok: true;
      readonly rows: readonly JsonMap[];
      readonly rowCount: number;
      readonly columns: readonly string[];
      readonly truncated: boolean;
    }
  /** `message` names no data values. */
  | { readonly ok: false; readonly message: string; readonly sqlstate: string };

export interface SqlRunner {
  /** Throws UnavailableError when too many statements wait already. */
  run(target: SqlTarget, statement: SqlStatement): Promise<SqlOutcome>;
}

export interface SqlPorts {
  readonly mode: 'off' | 'read' | 'write';
  /** There is a login for the service's own database in this mode. */
  readonly ownDatabase: boolean;
  readonly runner: SqlRunner;
  /** Type and opened data of a credential; null when there is none of that name. */
  readonly credential: (name: string) => Promise<{ readonly type: string; readonly data: JsonMap } | null>;
  readonly audit: (row: AuditRow) => Promise<void>;
  readonly sha256: (text: string) => Promise<string>;
  readonly ids: Ids;
  readonly caller: CurrentCaller;
}

const SHOWN_MAX = 200;
const POSTGRES_TYPES: readonly string[] = ['postgres', 'postgresql'];

export function createSqlService(ports: SqlPorts): SqlService {
  async function targetOf(credentialName: string | null): Promise<SqlTarget> {
    if (ports.mode === 'off') {
      throw new DomainError('sql_not_allowed', 'The SQL endpoint is switched off by SVC_POSTGRES_EXECUTE');
    }
    if (credentialName === null) {
      if (ports.ownDatabase) return { kind: 'own' };
      throw new DomainError(
        'sql_not_allowed',
        'SVC_QUERY_DATABASE_URL is not set: give it a login that can only read, or name a credential',
      );
    }
    const credential = await ports.credential(credentialName);
    if (credential === null) throw new DomainError('not_found', `Credential '${credentialName}' not found`);
    const usable = POSTGRES_TYPES.includes(credential.type.toLowerCase());
    const connection = usable ? readConnection(credential.data) : null;
    if (connection === null) {
      throw new DomainError('validation_error', `Credential '${credentialName}' is not a postgres credential`);
    }
    return { kind: 'credential', connection };
  }

  async function audit(
    request: Parameters<SqlService['execute']>[0],
    outcome: AuditRow['outcome'],
    why: JsonMap = {},
  ): Promise<void> {
    await ports.ids.reserve(1);
    await ports.audit({
      ...ports.caller(),
      auditId: ports.ids.next(),
      action: 'postgres.execute',
      target: request.credentialName ?? 'own database',
      outcome,
      detail: {
        sha256: await ports.sha256(request.query),
        statement: maskStatement(request.query, SHOWN_MAX),
        ...why,
      },
    });
  }

  /** What was refused was asked for, and a credential that does not open was touched by somebody. */
  async function auditedTargetOf(request: Parameters<SqlService['execute']>[0]): Promise<SqlTarget> {
    try {
      return await targetOf(request.credentialName);
    } catch (error) {
      if (error instanceof DomainError) {
        await audit(request, error.code === 'sql_not_allowed' ? 'denied' : 'error', { code: error.code });
      }
      throw error;
    }
  }

  return {
    async execute(request) {
      if (request.query.includes('\0')) throw new DomainError('validation_error', 'query: must not contain NUL');
      const target = await auditedTargetOf(request);
      await audit(request, 'ok');
      const outcome = await ports.runner.run(target, request);
      if (outcome.ok) {
        const { rows: result, rowCount, columns, truncated } = outcome;
        return { result, rowCount, columns, truncated };
      }
      const { message, sqlstate } = outcome;
      await audit(request, 'error', { sqlstate });
      throw new DomainError('sql_error', message, { status: 'error', error: message, sqlstate });
    },
  };
}

/** The fields of a postgres credential, also with `db_` in front (language 12.2); null when they name no server. */
export function readConnection(data: JsonMap): SqlConnection | null {
  const host = fieldOf(data, 'host', 'db_host', 'hostname');
  const user = fieldOf(data, 'user', 'db_user', 'username', 'db_username');
  const port = Number(fieldOf(data, 'port', 'db_port') ?? 5432);
  if (host === null || user === null || !Number.isInteger(port) || port < 1 || port > 65_535) return null;
  return {
    host,
    port,
    user,
    password: fieldOf(data, 'password', 'db_password') ?? '',
    database: fieldOf(data, 'database', 'db_name', 'dbname', 'db_database') ?? user,
    sslMode: fieldOf(data, 'sslmode', 'db_sslmode'),
  };
}

function fieldOf(data: JsonMap, ...names: readonly string[]): string | null {
  for (const name of names) {
    const value = Object.hasOwn(data, name) ? data[name] : undefined;
    if (typeof value === 'number' || (typeof value === 'string' && value !== '')) return String(value);
  }
  return null;
}
