/**
 * What the recovery helper asks a database directly (api 4.11): a connection of its own that may not write, so that it also
 * works while no server answers. Opened by the first question.
 */
import pg from 'pg';
import { createInvariantStore } from './invariants.ts';
import type { Sql } from './pool.ts';
import { HELD, OPEN } from './rows.ts';
import { sessionConfig } from './session.ts';

interface ExecutionFinding {
  readonly execution_id: number;
  readonly path: string;
  readonly last_event_at: string;
  readonly stuck_seconds: number;
  readonly non_terminal_command_count: number;
}

interface CommandFinding {
  readonly event_id: number;
  readonly execution_id: number;
  readonly command_id: number;
  readonly step: string;
  readonly status: string;
  readonly worker_id: string | null;
  readonly claim_age_seconds: number | null;
  readonly pending_age_seconds: number | null;
  readonly worker_status: string | null;
  readonly worker_heartbeat_age_seconds: number | null;
}

export interface Diagnosis {
  silentExecutions(staleSeconds: number, limit: number): Promise<readonly ExecutionFinding[]>;
  staleCommands(thresholds: {
    readonly staleSeconds: number;
    readonly pendingRetrySeconds: number;
    readonly maxRows: number;
  }): Promise<readonly CommandFinding[]>;
  invariants(): Promise<readonly { readonly name: string; readonly ok: boolean; readonly count: number }[]>;
  workers(): Promise<readonly { readonly status: string; readonly heartbeat_age_seconds: number }[]>;
  /** Throws what the database or the way to it says. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

const CONNECT_WITHIN_MS = 5_000;

export function openDiagnosis(url: string): Diagnosis {
  let connecting: Promise<pg.Client> | null = null;

  async function connect(): Promise<pg.Client> {
    const client = new pg.Client({
      ...sessionConfig(url, 'doctor', { default_transaction_read_only: 'on' }),
      connectionTimeoutMillis: CONNECT_WITHIN_MS,
    });
    client.on('error', () => {
      connecting = null;
    });
    await client.connect();
    return client;
  }

  function current(): Promise<pg.Client> {
    connecting ??= connect().catch((error: unknown) => {
      connecting = null;
      throw error;
    });
    return connecting;
  }

  const sql: Sql = {
    async rows<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) {
      return (await (await current()).query<Row>(text, [...values])).rows;
    },
    run: () => Promise.reject(new Error('the recovery helper writes nothing')),
  };
  const laws = createInvariantStore(sql);

  return {
    silentExecutions: (staleSeconds, limit) => sql.rows(SILENT, [staleSeconds, limit]),
    staleCommands: ({ staleSeconds, pendingRetrySeconds, maxRows }) =>
      sql.rows(STALE, [staleSeconds, pendingRetrySeconds, maxRows]),
    async invariants() {
      const found: { name: string; ok: boolean; count: number }[] = [];
      for (const name of laws.names()) {
        const { count } = await laws.check(name);
        found.push({ name, ok: count === 0, count });
      }
      return found;
    },
    workers: () => sql.rows(WORKERS),
    async ping() {
      await sql.rows('select');
    },
    async close() {
      const client = await connecting?.catch(() => null);
      await client?.end();
    },
  };
}

const AGE = (instant: string): string =>
  `greatest(0, extract(epoch from clock_timestamp() - ${instant}))::double precision`;

const SILENT = `
select execution.execution_id, path, newest.created_at as last_event_at, ${AGE('newest.created_at')} as stuck_seconds,
  (select count(*) from core.command where command.execution_id = execution.execution_id and command.${OPEN})
    as non_terminal_command_count
from core.execution
  join core.event as newest on newest.execution_id = execution.execution_id
    and newest.event_id = execution.last_event_id
where execution.status = 'running' and execution.start_time <= clock_timestamp() - make_interval(secs => $1)
  and newest.created_at <= clock_timestamp() - make_interval(secs => $1)
order by execution.start_time, execution.execution_id
limit $2`;

const STALE = `
select command.event_id, command.execution_id, command.command_id, command.step_name as step, command.status,
  command.worker_id, ${AGE('command.claimed_at')} as claim_age_seconds,
  case when command.worker_id is null then ${AGE('command.created_at')} end as pending_age_seconds,
  holder.status as worker_status, ${AGE('holder.heartbeat')} as worker_heartbeat_age_seconds
from core.command
  left join lateral (
    select status, heartbeat from core.runtime
    where runtime.name = command.worker_id
    order by runtime.kind = 'worker_pool' desc, runtime.heartbeat desc
    limit 1
  ) as holder on command.worker_id is not null
where command.${OPEN} and command.parked_on is null
  and (
    command.status = 'PENDING' and command.created_at < clock_timestamp() - make_interval(secs => $2)
    or command.${HELD} and (
      holder.status is null or holder.status not in ('ready', 'draining')
      or holder.heartbeat < clock_timestamp() - make_interval(secs => $1))
  )
order by command.created_at, command.command_id
limit $3`;

const WORKERS = `
select status, ${AGE('heartbeat')} as heartbeat_age_seconds
from core.runtime
where kind = 'worker_pool'`;
