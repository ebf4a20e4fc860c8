/**
 * Rows of `core.keychain` and their log; data comes and goes sealed. Whether an entry is live is judged by the
 * database's clock in the statement that counts the read, after the row is locked, so that no read is answered with an
 * entry that expired or was replaced while it waited.
 */
import {
  endingOf,
  type KeychainRow,
  type KeychainStore,
  type KeychainTransaction,
  type SeenRow,
  type Touch,
  type Touched,
} from '../../actors/keychain-store.ts';
import type { KeychainListing, KeychainLogRow } from '../../actors/services.ts';
import { insertAudit } from './audit.ts';
import type { ReadPool, Sql } from './pool.ts';

const SEEN_COLUMNS = `
  cache_key as "cacheKey", keychain_name as name, catalog_id as "catalogId", credential_type as "credentialType",
  cache_type as "cacheType", scope_type as scope, execution_id as "executionId",
  parent_execution_id as "parentExecutionId", root_execution_id as "rootExecutionId", data_encrypted as sealed,
  schema, expires_at as "expiresAt", auto_renew as "autoRenew", renew_config as "renewConfig",
  renewal_until as "renewalUntil"`;

/** The lock comes first, then the clock is read: what waited for the lock is judged by the time it got it. */
const touchWith = (audited: string) => `
with found as materialized (
  select * from core.keychain where cache_key = $1 for update
), timed as materialized (
  select found.*, clock_timestamp() as at from found
), judged as materialized (
  select timed.*, expires_at > at as live,
    $3::boolean and auto_renew and expires_at < at + $5 * interval '1 second'
      and coalesce(renewal_until <= at, true) as granted
  from timed
), written as (
  update core.keychain as entry
  set access_count = entry.access_count + case when judged.live then $2::int else 0 end,
    accessed_at = case when judged.live then judged.at else entry.accessed_at end,
    renewal_until = case when judged.granted then judged.at + $6 * interval '1 second' else entry.renewal_until end,
    renewal_by = case when judged.granted then $4::text else entry.renewal_by end
  from judged
  where entry.cache_key = judged.cache_key and (judged.live or judged.granted)
)${audited}
select ${SEEN_COLUMNS.replace('renewal_until as', `case when granted then at + $6 * interval '1 second' else renewal_until end as`)},
  at, live as "isLive", granted, access_count + case when live then $2::int else 0 end as "accessCount",
  case when live then at else accessed_at end as "accessedAt"
from judged`;

const AUDITED = `, audited as (
  insert into core.audit (audit_id, actor, role, action, target, outcome, request_id, ip, detail)
  select audit."auditId", audit.actor, audit.role, audit.action, audit.target, audit.outcome, audit."requestId",
    audit.ip, audit.detail
  from judged, json_to_recordset($7::json) as audit ("auditId" bigint, actor text, role text, action text, target text,
    outcome text, "requestId" text, ip text, detail jsonb)
  where judged.live or judged.auto_renew
)`;

const TOUCH = touchWith(AUDITED);
/** Names no table but the keychain's own: for when the audit is what fails. */
const TOUCH_UNSEEN = touchWith('');

const LOOK = `
select ${SEEN_COLUMNS}, clock_timestamp() as at, expires_at > clock_timestamp() as "isLive",
  access_count as "accessCount", accessed_at as "accessedAt"
from core.keychain
where cache_key = $1`;

/**
 * What the terminal event of an execution takes with it: its `local` entries and, when it is a root, the `shared` ones
 * of its tree. $1 are the executions that end. Part of every flush that ends something (commit.ts).
 */
export const REMOVE_ENDED = `
with removed as (
  delete from core.keychain
  where (execution_id = any ($1::bigint[]) and scope_type = 'local')
    or (root_execution_id = any ($1::bigint[]) and scope_type = 'shared')
  returning cache_key, scope_type
)
insert into core.keychain_event (cache_key, seq, event_type, context)
select cache_key,
  coalesce((select max(seq) from core.keychain_event as logged where logged.cache_key = removed.cache_key), 0) + 1,
  'entry.removed',
  jsonb_build_object('scope', scope_type, 'reason',
    case scope_type when 'shared' then '${endingOf('shared')}' else '${endingOf('local')}' end)
from removed`;

const REMOVE_EXPIRED = `
with doomed as (
  select cache_key from core.keychain
  where expires_at <= clock_timestamp() - case when auto_renew then $2::float8 else $1::float8 end * interval '1 second'
  order by expires_at
  limit $3
  for update skip locked
), removed as (
  delete from core.keychain where cache_key in (select cache_key from doomed) returning cache_key, scope_type
)
insert into core.keychain_event (cache_key, seq, event_type, context)
select cache_key,
  coalesce((select max(seq) from core.keychain_event as logged where logged.cache_key = removed.cache_key), 0) + 1,
  'entry.removed', jsonb_build_object('scope', scope_type, 'reason', 'expired')
from removed`;

export function createKeychainStore(database: ReadPool): KeychainStore {
  return {
    transaction: (work) => database.transaction((tx) => work(transactionOn(tx))),
    touch: (touch) => touchEntry(database, touch),
    find: (cacheKey) => findEntry(database, cacheKey),
    rootOf: (executionIds) => rootOf(database, executionIds),
    list: (catalogId) => listEntries(database, catalogId),
    log: (filter) => listEvents(database, filter),
    async removeOf(executionIds) {
      await database.run(REMOVE_ENDED, [executionIds]);
    },
    removeExpired: ({ plainSeconds, renewingSeconds }, limit) =>
      database.run(REMOVE_EXPIRED, [plainSeconds, renewingSeconds, limit]),
  };
}

function transactionOn(tx: Sql): KeychainTransaction {
  return {
    async hasCatalogEntry(catalogId) {
      return (await tx.rows('select from core.catalog where catalog_id = $1', [catalogId])).length > 0;
    },
    async holdOwner(executionId) {
      // The lock that every flush of this execution takes (commit.ts), shared with other stores.
      await tx.run(`select pg_advisory_xact_lock_shared(hashtextextended('core.execution', $1))`, [executionId]);
      const ended = await tx.rows(`select from core.execution where execution_id = $1 and status <> 'running'`, [
        executionId,
      ]);
      return ended.length > 0;
    },
    async claim(cacheKey) {
      await tx.run(`select pg_advisory_xact_lock(hashtextextended('core.keychain:' || $1, 0))`, [cacheKey]);
      const rows = await tx.rows<SeenRow>(`${LOOK} for update`, [cacheKey]);
      return rows[0] ?? null;
    },
    put: (row) => putEntry(tx, row),
    async remove(cacheKey) {
      await tx.run('delete from core.keychain where cache_key = $1', [cacheKey]);
    },
    async append(cacheKey, type, context) {
      await tx.run(
        `insert into core.keychain_event (cache_key, seq, event_type, context)
         select $1, coalesce(max(seq), 0) + 1, $2, $3::text::jsonb from core.keychain_event where cache_key = $1`,
        [cacheKey, type, JSON.stringify(context)],
      );
    },
    audit: (row) => insertAudit(tx, row),
  };
}

async function touchEntry(database: Sql, touch: Touch): Promise<Touched | null> {
  const { cacheKey, reads, renewer, refreshSeconds, grantSeconds, audit } = touch;
  const values = [cacheKey, reads, renewer !== null, renewer?.workerId ?? null, refreshSeconds, grantSeconds];
  const rows =
    audit.length === 0
      ? await database.rows<Touched>(TOUCH_UNSEEN, values)
      : await database.rows<Touched>(TOUCH, [...values, JSON.stringify(audit)]);
  return rows[0] ?? null;
}

async function findEntry(database: Sql, cacheKey: string): Promise<SeenRow | null> {
  const rows = await database.rows<SeenRow>(LOOK, [cacheKey]);
  return rows[0] ?? null;
}

async function putEntry(tx: Sql, row: KeychainRow): Promise<void> {
  await tx.run(
    `insert into core.keychain (cache_key, keychain_name, catalog_id, credential_type, cache_type, scope_type,
       execution_id, parent_execution_id, root_execution_id, data_encrypted, schema, expires_at, auto_renew, renew_config)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::jsonb, $12, $13, $14::text::jsonb)
     on conflict (cache_key) do update
     set credential_type = excluded.credential_type, cache_type = excluded.cache_type,
       execution_id = excluded.execution_id, parent_execution_id = excluded.parent_execution_id,
       root_execution_id = excluded.root_execution_id, data_encrypted = excluded.data_encrypted,
       schema = excluded.schema, expires_at = excluded.expires_at, created_at = excluded.created_at,
       accessed_at = excluded.accessed_at, access_count = 0, auto_renew = excluded.auto_renew, renew_config = excluded.renew_config,
       renewal_until = null, renewal_by = null`,
    [
      row.cacheKey,
      row.name,
      row.catalogId,
      row.credentialType,
      row.cacheType,
      row.scope,
      row.executionId,
      row.parentExecutionId,
      row.rootExecutionId,
      row.sealed,
      row.schema === null ? null : JSON.stringify(row.schema),
      row.expiresAt,
      row.autoRenew,
      row.renewConfig === null ? null : JSON.stringify(row.renewConfig),
    ],
  );
}

async function rootOf(database: Sql, executionIds: readonly number[]): Promise<number | null> {
  const rows = await database.rows<{ root: number }>(
    `select root_execution_id as root
     from core.execution
     where execution_id = any ($1::bigint[])
     order by array_position($1::bigint[], execution_id)
     limit 1`,
    [executionIds],
  );
  return rows[0]?.root ?? null;
}

async function listEntries(database: Sql, catalogId: number): Promise<readonly KeychainListing[]> {
  return database.rows<KeychainListing>(
    `select keychain_name as name, cache_key as "cacheKey", scope_type as scope, credential_type as "credentialType",
       cache_type as "cacheType", expires_at as "expiresAt", expires_at <= clock_timestamp() as expired,
       auto_renew as "autoRenew", access_count as "accessCount"
     from core.keychain
     where catalog_id = $1
     order by keychain_name collate "C", cache_key collate "C"`,
    [catalogId],
  );
}

/** The catalog id is the second part of a cache key; a name holds no colon. */
async function listEvents(
  database: Sql,
  { catalogId, name, after, limit }: Parameters<KeychainStore['log']>[0],
): Promise<readonly KeychainLogRow[]> {
  return database.rows<KeychainLogRow>(
    `select cache_key as "cacheKey", seq, event_type as type, at, context
     from core.keychain_event
     where split_part(cache_key, ':', 2) = $1::text
       and ($2::text is null or split_part(cache_key, ':', 1) = $2)
       and ($3::text is null or (cache_key, seq) > ($3, $4::bigint))
     order by cache_key, seq
     limit $5`,
    [String(catalogId), name, after?.cacheKey ?? null, after?.seq ?? null, limit],
  );
}
