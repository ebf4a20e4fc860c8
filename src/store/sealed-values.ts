/**
 * Every place where a sealed value lies (api 8.1): data of credentials, data of keychain entries, and the renewal request of
 * those. A value carries the id of its key as its second part, which is how the rows of a key are found.
 */
import { credentialBinding } from '../../actors/credential-service.ts';
import type { KeyUse, SealedStore } from '../../actors/key-rotation.ts';
import { keychainBinding, renewalBinding } from '../../actors/keychain-service.ts';
import type { EntryScope } from '../../machines/keychain/scope.ts';
import { insertAudit } from './audit.ts';
import type { ReadPool, Sql } from './pool.ts';

type Again = Parameters<SealedStore['rewrap']>[2];

export function createSealedStore(pool: ReadPool): SealedStore {
  return {
    uses: () => pool.rows<KeyUse>(USES),
    audit: (row) => insertAudit(pool, row),
    rewrap: (activeKid, limit, again) =>
      pool.transaction(async (tx) => {
        const credentials = await rewrapCredentials(tx, activeKid, limit, again);
        const left = limit - credentials;
        return credentials + (left > 0 ? await rewrapKeychain(tx, activeKid, left, again) : 0);
      }),
    retire: (kid, audit) =>
      pool.transaction(async (tx) => {
        await tx.rows('select from core.encryption_key where kid = $1 for update', [kid]);
        if ((await tx.run(RETIRE, [kid])) === 0) return false;
        await insertAudit(tx, audit);
        return true;
      }),
  };
}

async function rewrapCredentials(tx: Sql, activeKid: string, limit: number, again: Again): Promise<number> {
  const rows = await tx.rows<{ id: string; name: string; sealed: string }>(OLD_CREDENTIALS, [activeKid, limit]);
  const moved = rows.map((row) => ({ id: row.id, sealed: again(credentialBinding(row), row.sealed) ?? row.sealed }));
  if (moved.length > 0) await tx.run(UPDATE_CREDENTIALS, [JSON.stringify(moved)]);
  return rows.length;
}

async function rewrapKeychain(tx: Sql, activeKid: string, limit: number, again: Again): Promise<number> {
  const rows = await tx.rows<{
    cacheKey: string;
    name: string;
    scope: EntryScope;
    sealed: string;
    renewal: string | null;
  }>(OLD_ENTRIES, [activeKid, limit]);
  const moved = rows.map((row) => ({
    key: row.cacheKey,
    sealed: again(keychainBinding(row), row.sealed) ?? row.sealed,
    renewal: row.renewal === null ? null : (again(renewalBinding(row), row.renewal) ?? row.renewal),
  }));
  if (moved.length > 0) await tx.run(UPDATE_ENTRIES, [JSON.stringify(moved)]);
  return rows.length;
}

const VALUES = `
  select split_part(data_encrypted, '.', 2) as kid from core.credential
  union all
  select split_part(data_encrypted, '.', 2) from core.keychain
  union all
  select split_part(renew_config ->> 'sealed', '.', 2) from core.keychain where renew_config ? 'sealed'`;

const USES = `
select known.kid, count(used.kid) as rows
from (select kid, created_at from core.encryption_key where retired_at is null) as known
  left join (${VALUES}) as used on used.kid = known.kid
group by known.kid, known.created_at
order by known.created_at desc, known.kid`;

const RETIRE = `
update core.encryption_key
set retired_at = clock_timestamp()
where kid = $1 and retired_at is null and not exists (select from (${VALUES}) as used where used.kid = $1)`;

const OLD_CREDENTIALS = `
select id::text as id, name, data_encrypted as sealed
from core.credential
where split_part(data_encrypted, '.', 2) <> $1
order by id
limit $2
for update skip locked`;

const OLD_ENTRIES = `
select cache_key as "cacheKey", keychain_name as name, scope_type as scope, data_encrypted as sealed,
  renew_config ->> 'sealed' as renewal
from core.keychain
where split_part(data_encrypted, '.', 2) <> $1
  or renew_config ? 'sealed' and split_part(renew_config ->> 'sealed', '.', 2) <> $1
order by cache_key
limit $2
for update skip locked`;

const UPDATE_CREDENTIALS = `
update core.credential
set data_encrypted = moved.sealed
from json_to_recordset($1::json) as moved (id bigint, sealed text)
where credential.id = moved.id`;

const UPDATE_ENTRIES = `
update core.keychain
set data_encrypted = moved.sealed,
  renew_config = case when moved.renewal is null then renew_config
    else jsonb_set(renew_config, '{sealed}', to_jsonb(moved.renewal)) end
from json_to_recordset($1::json) as moved (key text, sealed text, renewal text)
where cache_key = moved.key`;
