/**
 * The login that statements of the SQL endpoint use on the embedded database: it can read what is no secret, and owns,
 * changes and locks nothing. A transaction that is declared read only does not hold a superuser back (it can write
 * files, take advisory locks and undo any role), so the login itself is what holds. Run at each start: tables of newer
 * migrations are granted then, and whatever was granted by hand is taken back.
 */
import pg from 'pg';

const LOGIN = 'callboard_query';
const ATTEMPTS = 5;
const CONNECT_WITHIN_MS = 10_000;

/** Tables nobody reads through the endpoint, and columns left out of the others. */
const SECRET_TABLES: readonly string[] = ['session', 'api_token', 'encryption_key'];
const SECRET_COLUMNS: readonly string[] = ['data_encrypted', 'renew_config'];

/**
 * Functions that reach beyond reading: advisory locks (executions are locked with them), large objects, files, other
 * sessions, and reading a whole database as one value. Some are closed by default; saying it again costs nothing.
 */
const CLOSED_FUNCTIONS =
  '^(pg_(try_)?advisory_.*|lo_.*|loread|lowrite|pg_(read|write|ls|stat)_.*file.*|pg_ls_.*|pg_stat_file|' +
  'pg_(cancel|terminate)_backend|pg_notify|pg_export_snapshot|pg_logical_emit_message|pg_reload_conf|pg_rotate_logfile|' +
  '(database|schema)_to_xml.*|cursor_to_xml.*|pg_import_system_collations|pg_create_.*|pg_drop_.*|pg_replication_.*)$';

/**
 * Makes or repairs the login in the database of `serviceUrl`, which must be a superuser's, and returns its URL. The
 * password follows from the service's own, so that several servers of one database agree on it without telling it.
 */
export async function ensureQueryLogin(serviceUrl: string, password: string | null): Promise<string> {
  const client = new pg.Client({ connectionString: serviceUrl, application_name: 'callboard:query-login' });
  client.on('error', () => {});
  await client.connect();
  try {
    await shapeRole(client, password);
    await grant(client);
  } finally {
    await client.end();
  }
  return loginUrl(serviceUrl, password);
}

/**
 * What a login of somebody else's making may do beyond reading what is no secret (api 8.3), as ends of the sentence "The
 * login …"; empty where it is as it should be. Throws what connecting throws.
 */
export async function excessOf(url: string): Promise<readonly string[]> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'callboard:query-login',
    connectionTimeoutMillis: CONNECT_WITHIN_MS,
  });
  client.on('error', () => {});
  await client.connect();
  try {
    const { rows } = await client.query<Record<'super' | 'member' | 'secrets' | 'writes', boolean>>(
      `select role.rolsuper as super,
         exists (select from pg_auth_members where member = role.oid) as member,
         exists (
           select from pg_class class join pg_attribute attribute on attribute.attrelid = class.oid
           where class.relnamespace = 'core'::regnamespace and class.relkind in ('r', 'p')
             and attribute.attnum > 0 and not attribute.attisdropped
             and (class.relname = any ($1) or attribute.attname = any ($2))
             and has_column_privilege(class.oid, attribute.attnum, 'select')) as secrets,
         exists (
           select from pg_class class
           where class.relnamespace = 'core'::regnamespace and class.relkind in ('r', 'p')
             and has_table_privilege(class.oid, 'insert, update, delete, truncate')) as writes
       from pg_roles role where role.rolname = current_user`,
      [SECRET_TABLES, SECRET_COLUMNS],
    );
    const [found] = rows;
    return [
      ...(found?.super === true ? ['is a superuser'] : []),
      ...(found?.member === true ? ['is a member of other roles'] : []),
      ...(found?.secrets === true ? ['may read sealed data, sessions, tokens or keys'] : []),
      ...(found?.writes === true ? ['may write'] : []),
    ];
  } finally {
    await client.end();
  }
}

/** Roles belong to the whole server: another database of it may be doing the same just now, which fails one of the two. */
async function shapeRole(client: pg.Client, password: string | null): Promise<void> {
  const secret = password === null ? 'null' : client.escapeLiteral(password);
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.query(`
        do $$ begin
          create role ${LOGIN};
        exception when duplicate_object or unique_violation then null;
        end $$`);
      await client.query(`
        alter role ${LOGIN} login nosuperuser nocreatedb nocreaterole noinherit noreplication nobypassrls
          connection limit 16 password ${secret}`);
      await client.query(`
        do $$ declare held record; begin
          for held in select roleid::regrole as role from pg_auth_members where member = '${LOGIN}'::regrole loop
            execute format('revoke %s from ${LOGIN}', held.role);
          end loop;
        end $$`);
      return;
    } catch (error) {
      if (attempt === ATTEMPTS || !isConcurrentChange(error)) throw error;
    }
  }
}

async function grant(client: pg.Client): Promise<void> {
  await client.query('begin');
  await client.query(`select pg_advisory_xact_lock(hashtextextended('core.query-login', 0))`);
  await client.query(`
    do $$ begin
      execute format('revoke create, temporary on database %I from public', current_database());
      execute format('revoke all on database %I from ${LOGIN}', current_database());
      execute format('grant connect on database %I to ${LOGIN}', current_database());
      execute format('alter role ${LOGIN} in database %I set default_transaction_read_only = on', current_database());
      execute format('alter role ${LOGIN} in database %I set temp_file_limit = ''256MB''', current_database());
    end $$`);
  await client.query('revoke create on schema public from public');
  await client.query('revoke usage on language plpgsql from public');
  await client.query('revoke execute on all functions in schema core from public');
  await client.query(`revoke all on all tables in schema core from ${LOGIN}, public`);
  await client.query(`grant usage on schema core to ${LOGIN}`);
  await closeFunctions(client);
  // Waiting is bounded by the time-out of the statement; earlier versions took it away from everybody.
  await client.query(`grant execute on function pg_catalog.pg_sleep(double precision) to ${LOGIN}`);
  for (const { name, columns } of await readableTables(client)) {
    await client.query(`grant select (${columns.map(quoted).join(', ')}) on core.${quoted(name)} to ${LOGIN}`);
  }
  await client.query('commit');
}

async function closeFunctions(client: pg.Client): Promise<void> {
  await client.query(
    `do $$ declare closed record; begin
       for closed in
         select oid::regprocedure as name from pg_proc
         where pronamespace = 'pg_catalog'::regnamespace and prokind = 'f' and proname ~ '${CLOSED_FUNCTIONS}'
           and has_function_privilege('${LOGIN}', oid, 'execute')
       loop
         execute format('revoke execute on function %s from public', closed.name);
       end loop;
     end $$`,
  );
}

/** Partitions are read through their parents only, which carry the grant. */
async function readableTables(client: pg.Client): Promise<readonly { name: string; columns: string[] }[]> {
  const answer = await client.query<{ name: string; columns: string[] }>(
    `select class.relname as name, array_agg(attribute.attname::text order by attribute.attnum) as columns
     from pg_class class
     join pg_attribute attribute on attribute.attrelid = class.oid
     where class.relnamespace = 'core'::regnamespace
       and class.relkind in ('r', 'p', 'v') and not class.relispartition
       and class.relname <> all ($1)
       and attribute.attnum > 0 and not attribute.attisdropped and attribute.attname <> all ($2)
     group by class.relname`,
    [SECRET_TABLES, SECRET_COLUMNS],
  );
  return answer.rows;
}

function isConcurrentChange(error: unknown): boolean {
  return error instanceof pg.DatabaseError && (error.code === '40001' || error.message.includes('concurrently'));
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function loginUrl(serviceUrl: string, password: string | null): string {
  const authority = password === null ? LOGIN : `${LOGIN}:${encodeURIComponent(password)}`;
  return serviceUrl.replace(/^(postgres(?:ql)?:\/\/)[^@/]*@/, `$1${authority}@`);
}
