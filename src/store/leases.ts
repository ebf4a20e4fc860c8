/**
 * Rows of `core.lease` and of the servers in `core.runtime` behind the Leases port. Every decision is one statement by the
 * database's clock. `fenced` is how other statements of this folder prove that their lease still stands: it locks the row
 * for their transaction, so that nobody can take the lease over before that transaction has ended.
 */
import { type Fence, LeaseLostError, type LeaseRow, type LeaseStore } from '../../actors/lease.ts';
import { onlyRow } from './only-row.ts';
import type { Sql } from './pool.ts';

export function createLeaseStore(sql: Sql): LeaseStore {
  return {
    async take(name, holder, seconds) {
      const [taken] = await sql.rows<LeaseRow>(TAKE, [name, holder, seconds]);
      return taken ?? onlyRow(await sql.rows<LeaseRow>(`select ${COLUMNS} from core.lease where name = $1`, [name]));
    },
    async renew(holder, held, seconds) {
      const names = held.map((each) => each.name);
      const tokens = held.map((each) => each.token);
      return (await sql.rows<{ name: string }>(RENEW, [holder, names, tokens, seconds])).map((row) => row.name);
    },
    async release({ name, holder, token }) {
      await sql.run(RELEASE, [name, holder, token]);
    },
    list: () =>
      sql.rows<LeaseRow>(`select ${COLUMNS} from core.lease where expires_at > clock_timestamp() order by name`),
    async enrol(holder, card, seconds) {
      await sql.run(FORGET);
      const { uri, version, pid, hostname } = card;
      await sql.run(ENROL, [holder, uri, version, pid, hostname, Math.ceil(seconds / 3), Math.ceil(seconds)]);
    },
    async leave(holder) {
      await sql.run(
        `update core.runtime set status = 'offline', updated_at = clock_timestamp() where kind = 'server_api' and name = $1`,
        [holder],
      );
    },
    others: (holder) => sql.rows(OTHERS, [holder]),
  };
}

/** Proves, for the transaction of `sql`, that the lease is held under this token. Throws LeaseLostError. */
export async function fenced(sql: Sql, fence: Fence): Promise<void> {
  const rows = await sql.rows(
    `select from core.lease
     where name = $1 and holder = $2 and token = $3 and expires_at > clock_timestamp()
     for share`,
    [fence.name, fence.holder, fence.token],
  );
  if (rows.length === 0) throw new LeaseLostError(fence.name);
}

const COLUMNS = `name, holder, token, acquired_at as "acquiredAt", renewed_at as "renewedAt", expires_at as "expiresAt"`;

const TAKE = `
insert into core.lease as lease (name, holder, token, acquired_at, renewed_at, expires_at)
values ($1, $2, 1, clock_timestamp(), clock_timestamp(), clock_timestamp() + make_interval(secs => $3))
on conflict (name) do update set
  holder = excluded.holder,
  token = lease.token + 1,
  acquired_at = excluded.acquired_at,
  renewed_at = excluded.renewed_at,
  expires_at = excluded.expires_at
where lease.expires_at <= clock_timestamp() or lease.holder = excluded.holder
returning ${COLUMNS}`;

// A lease that has ended is not brought back: somebody may have looked at it meanwhile.
const RENEW = `
with alive as (
  update core.runtime
  set heartbeat = clock_timestamp(), status = 'ready', updated_at = clock_timestamp()
  where kind = 'server_api' and name = $1
)
update core.lease
set renewed_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => $4)
from unnest($2::text[], $3::bigint[]) as held (name, token)
where lease.name = held.name and lease.holder = $1 and lease.token = held.token and lease.expires_at > clock_timestamp()
returning lease.name`;

const RELEASE = `
update core.lease
set expires_at = clock_timestamp()
where name = $1 and holder = $2 and token = $3 and expires_at > clock_timestamp()`;

const ENROL = `
insert into core.runtime (runtime_id, name, kind, uri, status, version, pid, hostname, heartbeat_seconds,
  offline_after_seconds, instance)
values (nextval('core.id_seq'), $1, 'server_api', $2, 'ready', $3, $4, $5, $6, $7, $1)
on conflict (kind, name) do update set status = 'ready', heartbeat = clock_timestamp(), updated_at = clock_timestamp()`;

// A server has another name after each start; those of yesterday tell nobody anything.
const FORGET = `
delete from core.runtime
where kind = 'server_api' and heartbeat < clock_timestamp() - interval '1 day'`;

const OTHERS = `
select name, extract(epoch from heartbeat)::double precision * 1000 as "heartbeatAt",
  extract(epoch from heartbeat + make_interval(secs => offline_after_seconds))::double precision * 1000 as "goneAt"
from core.runtime
where kind = 'server_api' and name <> $1 and status <> 'offline'
  and heartbeat > clock_timestamp() - make_interval(secs => offline_after_seconds)`;
