/** Rows of `core.runtime` behind the registry of workers: registration, heartbeats in batches, and who fell silent. */

import type { Registration, WorkerRow } from '../../actors/services.ts';
import type { RuntimeStore, WorkerFilter } from '../../actors/worker-service.ts';
import { onlyRow } from './only-row.ts';
import type { ReadPool } from './pool.ts';
import { HELD } from './rows.ts';

export function createRuntimeStore(pool: ReadPool): RuntimeStore {
  return {
    async save(registration, runtimeId) {
      const { restarted, ...row } = onlyRow(
        await pool.rows<WorkerRow & { restarted: boolean }>(SAVE, valuesOf(registration, runtimeId)),
      );
      return { row, restarted };
    },
    async find(name) {
      return (await pool.rows<WorkerRow>(FIND, [name]))[0] ?? null;
    },
    list: (filter) => pool.rows<WorkerRow>(LIST, filterValues(filter)),
    async setStatus(name, kind, status) {
      return (await pool.run(SET_STATUS, [name, kind, status])) > 0;
    },
    async beat(beats) {
      await pool.run(BEAT, [beats.map((each) => each.name), beats.map((each) => each.at)]);
    },
    async expire(except) {
      return (await pool.rows<{ name: string }>(EXPIRE, [except])).map((row) => row.name);
    },
    async nextOverdueAt() {
      return onlyRow(await pool.rows<{ at: string | null }>(NEXT_OVERDUE, [])).at;
    },
  };
}

function valuesOf(registration: Registration, runtimeId: number): unknown[] {
  return [
    runtimeId,
    registration.name,
    registration.kind,
    registration.uri,
    registration.status,
    JSON.stringify(registration.labels),
    registration.capacity,
    registration.pools,
    registration.toolKinds,
    registration.runtime === null ? null : JSON.stringify(registration.runtime),
    registration.instance,
    registration.pid,
    registration.hostname,
    registration.version,
    JSON.stringify(registration.meta),
    Math.ceil(registration.heartbeatSeconds),
    Math.ceil(registration.offlineAfterSeconds),
  ];
}

function filterValues({ runtime, status, kind, pool }: WorkerFilter): unknown[] {
  return [runtime ?? null, status?.toLowerCase() ?? null, kind ?? null, pool ?? null];
}

const COLUMNS = `
  worker.name, worker.kind, worker.runtime, worker.uri, worker.status, worker.capacity, worker.pools,
  worker.tool_kinds as "toolKinds", worker.labels, worker.instance, worker.heartbeat_seconds as "heartbeatSeconds",
  worker.offline_after_seconds as "offlineAfterSeconds", worker.pid, worker.hostname, worker.meta, worker.version,
  worker.runtime_id as "runtimeId", worker.registered_at as "registeredAt", worker.heartbeat as "heartbeatAt",
  worker.created_at as "createdAt", worker.updated_at as "updatedAt",
  (
    select count(*)::int
    from core.command
    where worker_id = worker.name and ${HELD} and parked_on is null
  ) as "openCommands"`;

const SAVE = `
with before as (
  select instance
  from core.runtime
  where kind = $3 and name = $2
), worker as (
  insert into core.runtime (
    runtime_id, name, kind, uri, status, labels, capacity, pools, tool_kinds, runtime, instance, pid, hostname,
    version, meta, heartbeat_seconds, offline_after_seconds
  )
  values (
    $1, $2, $3, $4, $5, $6::jsonb, $7, $8::text[], $9::text[], $10::jsonb, $11, $12, $13,
    $14, $15::jsonb, $16, $17
  )
  on conflict (kind, name) do update set
    uri = excluded.uri,
    status = excluded.status,
    labels = excluded.labels,
    capacity = excluded.capacity,
    pools = excluded.pools,
    tool_kinds = excluded.tool_kinds,
    runtime = excluded.runtime,
    instance = coalesce(excluded.instance, runtime.instance),
    pid = excluded.pid,
    hostname = excluded.hostname,
    version = excluded.version,
    meta = excluded.meta,
    heartbeat_seconds = excluded.heartbeat_seconds,
    offline_after_seconds = excluded.offline_after_seconds,
    registered_at = case
      when excluded.instance is not null and excluded.instance is distinct from runtime.instance then clock_timestamp()
      else runtime.registered_at
    end,
    heartbeat = clock_timestamp(),
    updated_at = clock_timestamp()
  returning *
)
select
  ${COLUMNS},
  coalesce((select $11::text is not null and instance is distinct from $11::text from before), false) as restarted
from worker`;

const FIND = `
select ${COLUMNS}
from core.runtime as worker
where worker.name = $1
order by worker.kind = 'worker_pool' desc, worker.heartbeat desc
limit 1`;

const LIST = `
select ${COLUMNS}
from core.runtime as worker
where ($1::text is null or worker.runtime #>> '{}' = $1 or worker.runtime ->> 'kind' = $1)
  and ($2::text is null or worker.status = $2)
  and ($3::text is null or worker.kind = $3)
  and ($4::text is null or $4 = any (worker.pools))
order by worker.name, worker.kind`;

const SET_STATUS = `
update core.runtime
set status = $3, heartbeat = case when $3 = 'offline' then heartbeat else clock_timestamp() end,
  updated_at = clock_timestamp()
where name = $1 and ($2::text is null or kind = $2)`;

const BEAT = `
update core.runtime
set heartbeat = beat.at
from unnest($1::text[], $2::timestamptz[]) as beat (name, at)
where runtime.name = beat.name and runtime.heartbeat < beat.at and runtime.status <> 'offline'`;

const EXPIRE = `
update core.runtime
set status = 'offline', updated_at = clock_timestamp()
where status <> 'offline'
  and heartbeat < clock_timestamp() - make_interval(secs => offline_after_seconds)
  and not name = any ($1::text[])
returning name`;

const NEXT_OVERDUE = `
select min(heartbeat + make_interval(secs => offline_after_seconds)) as at
from core.runtime as worker
where status <> 'offline'
  and exists (select from core.command where worker_id = worker.name and ${HELD} and parked_on is null)`;
