/**
 * What is open right now, for the metrics of a process (api 7.1). Only partial indexes are read, and however often somebody
 * scrapes, the database is asked once in a few seconds; sealed rows have no index by key and are counted once in a minute.
 */
import type { Sql } from './pool.ts';

interface OpenCommands {
  readonly pool: string;
  readonly status: string;
  readonly count: number;
  /** Seconds since the oldest of them was issued, by the database's clock. */
  readonly oldestSeconds: number;
}

const FRESH_MS = 5_000;
const SEALED_FRESH_MS = 60_000;

export function createCounts(sql: Pick<Sql, 'rows'>) {
  return {
    commands: kept(FRESH_MS, () => sql.rows<OpenCommands>(OPEN_COMMANDS)),
    running: kept(FRESH_MS, async () => (await sql.rows<{ count: number }>(RUNNING))[0]?.count ?? 0),
    workers: kept(FRESH_MS, () => sql.rows<{ status: string; count: number }>(WORKERS)),
    sealed: kept(SEALED_FRESH_MS, () => sql.rows<{ kid: string; count: number }>(SEALED)),
  };
}

/** One answer for everybody who asks within a while; a failed one is not kept. */
function kept<T>(freshMs: number, ask: () => Promise<T>): () => Promise<T> {
  let last: { readonly at: number; readonly answer: Promise<T> } | null = null;
  return () => {
    if (last !== null && performance.now() - last.at <= freshMs) return last.answer;
    const mine = { at: performance.now(), answer: ask() };
    last = mine;
    mine.answer.catch(() => {
      if (last === mine) last = null;
    });
    return mine.answer;
  };
}

const OPEN_COMMANDS = `
select pool, status, count(*) as count,
  greatest(0, extract(epoch from clock_timestamp() - min(created_at)))::float8 as "oldestSeconds"
from core.command
where status in ('PENDING', 'CLAIMED', 'RUNNING')
group by pool, status
order by count(*) desc
limit 100`;

const RUNNING = `select count(*) as count from core.execution where status = 'running'`;

const WORKERS = `select status, count(*) as count from core.runtime where kind = 'worker_pool' group by status`;

/** A key with no rows left is a zero: that is what one waits for before retiring it. */
const SEALED = `
select coalesce(known.kid, sealed.key) as kid, count(sealed.key) as count
from (
  select split_part(data_encrypted, '.', 2) as key from core.credential
  union all
  select split_part(data_encrypted, '.', 2) from core.keychain
) as sealed
  full join (select kid from core.encryption_key where retired_at is null) as known on known.kid = sealed.key
group by 1
limit 20`;
