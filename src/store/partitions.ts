/**
 * Partitions of the log, and what may be thrown away after a while (api 3.7). Only what has ended goes, whole trees at a time,
 * so that nobody's parent vanishes; deleting from the log needs `callboard.retention`, which nothing else sets.
 */
import type { HousekeepingStore, Kept } from '../../actors/housekeeping.ts';
import type { Fence } from '../../actors/lease.ts';
import { fenced } from './leases.ts';
import { onlyRow } from './only-row.ts';
import type { ReadPool, Sql } from './pool.ts';

export function createHousekeepingStore(pool: ReadPool): HousekeepingStore {
  const under = <T>(fence: Fence, work: (tx: Sql) => Promise<T>): Promise<T> =>
    pool.transaction(async (tx) => {
      await fenced(tx, fence);
      await tx.rows(`select set_config('callboard.retention', 'on', true)`);
      return work(tx);
    });

  return {
    ensurePartitions: (fence, span, ahead) =>
      under(
        fence,
        async (tx) =>
          onlyRow(await tx.rows<{ made: number }>('select core.ensure_partitions($1, $2) as made', [span, ahead])).made,
      ),
    async defaultRows() {
      return onlyRow(await pool.rows<{ count: number }>(DEFAULT_ROWS)).count;
    },
    dropEndedPartition: (fence, days) =>
      under(fence, async (tx) => {
        await tx.rows(`select set_config('lock_timeout', '2s', true)`);
        const [old] = await tx.rows<{ lower: number; upper: number }>(ENDED_PARTITION, [days]);
        if (old === undefined) return false;
        // Bounds are numbers read from the catalogue of the database.
        for (const table of ['event', 'command', 'result']) {
          await tx.run(`drop table core.${table}_p${Number(old.lower)}`);
        }
        for (const statement of FORGET_RANGE) await tx.run(statement, [old.lower, old.upper]);
        return true;
      }),
    removeEnded: (fence, days, limit) =>
      under(fence, async (tx) => {
        const ids = (await tx.rows<{ id: number }>(ENDED_TREES, [days, limit])).map((row) => row.id);
        if (ids.length > 0) for (const statement of FORGET_EXECUTIONS) await tx.run(statement, [ids]);
        return ids.length;
      }),
    removeOld: (fence, kept, limit) =>
      under(fence, async (tx) => {
        let removed = 0;
        for (const [statement, days] of oldRows(kept)) if (days > 0) removed += await tx.run(statement, [days, limit]);
        return removed;
      }),
  };
}

function oldRows(kept: Kept): readonly (readonly [string, number])[] {
  return [
    [OLD_AUDIT, kept.auditDays],
    [OLD_KEYCHAIN_LOG, kept.keychainLogDays],
  ];
}

const DEFAULT_ROWS = `
select (select count(*) from core.event_default) + (select count(*) from core.command_default)
  + (select count(*) from core.result_default) as count`;

const BOUNDS = `
select child.relname,
  (regexp_match(pg_get_expr(child.relpartbound, child.oid), 'FROM \\(''?(\\d+)''?\\)'))[1]::bigint as lower,
  (regexp_match(pg_get_expr(child.relpartbound, child.oid), 'TO \\(''?(\\d+)''?\\)'))[1]::bigint as upper
from pg_inherits join pg_class as child on child.oid = pg_inherits.inhrelid
where pg_inherits.inhparent = 'core.event'::regclass`;

/** An execution whose tree has ended before the limit, all of it. */
const OLD_TREE = `
  status <> 'running' and end_time < clock_timestamp() - $1::float8 * interval '1 day'
  and not exists (
    select from core.execution as kin
    where kin.root_execution_id = execution.root_execution_id
      and (kin.status = 'running' or kin.end_time >= clock_timestamp() - $1::float8 * interval '1 day'))`;

// The newest partition with executions in it is never dropped: ids of its range are still given out.
const ENDED_PARTITION = `
select bounds.lower, bounds.upper
from (${BOUNDS}) as bounds
where bounds.upper is not null
  and bounds.upper <= (select last_value from core.id_seq)
  and exists (
    select from core.execution where execution_id >= bounds.lower and execution_id < bounds.upper)
  and not exists (
    select from core.execution
    where execution_id >= bounds.lower and execution_id < bounds.upper and not (${OLD_TREE}))
order by bounds.lower
limit 1`;

const ENDED_TREES = `select execution_id as id from core.execution where ${OLD_TREE} order by end_time limit $2`;

const FORGET_RANGE = ['core.transient', 'core.batch_request', 'core.execution'].map(
  (table) => `delete from ${table} where execution_id >= $1 and execution_id < $2`,
);

const FORGET_EXECUTIONS = [
  'core.event',
  'core.command',
  'core.result',
  'core.transient',
  'core.batch_request',
  'core.execution',
].map((table) => `delete from ${table} where execution_id = any($1::bigint[])`);

const OLD_AUDIT = `
delete from core.audit where audit_id in (
  select audit_id from core.audit where at < clock_timestamp() - $1::float8 * interval '1 day' order by at limit $2)`;

// The log of an entry that still exists is what its row must be a fold of.
const OLD_KEYCHAIN_LOG = `
delete from core.keychain_event where (cache_key, seq) in (
  select cache_key, seq from core.keychain_event as old
  where at < clock_timestamp() - $1::float8 * interval '1 day'
    and not exists (select from core.keychain where keychain.cache_key = old.cache_key)
  order by at limit $2)`;
