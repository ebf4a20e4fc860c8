/**
 * Gauges of the moment (api 7.1): read when somebody scrapes and at no other time. While the database is away the last
 * known values stand; a scrape never fails for it.
 */
import type { RunningEngine } from '../../actors/engine.ts';
import type { Bus } from '../../actors/ports.ts';
import { ENGINE_VERSION } from '../../machines/execution/take-turn.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';

/** What is open right now. Answers may be a few seconds old. */
export interface Counts {
  /** Largest pools first, a bounded number of them. */
  commands(): Promise<
    readonly {
      readonly pool: string;
      readonly status: string;
      readonly count: number;
      /** Seconds since the oldest of them was issued. */
      readonly oldestSeconds: number;
    }[]
  >;
  running(): Promise<number>;
  workers(): Promise<readonly { readonly status: string; readonly count: number }[]>;
  /** Sealed rows by the key they are sealed with. */
  sealed(): Promise<readonly { readonly kid: string; readonly count: number }[]>;
}

export interface GaugeSources {
  readonly metrics: Metrics;
  readonly engine: Pick<RunningEngine, 'board' | 'tell'>;
  readonly bus: Pick<Bus, 'state'>;
  readonly log: Pick<Log, 'masked'>;
  readonly counts: Counts;
  pool(): { readonly size: number; readonly available: number; readonly waiting: number };
  batchDepth(): Promise<number>;
}

const BUS_STATES = ['ok', 'degraded', 'down'] as const;
const COMMAND_STATUSES = ['PENDING', 'CLAIMED', 'RUNNING'] as const;
const WORKER_STATUSES = ['ready', 'draining', 'offline'] as const;

/** What stays as it is for the life of the process. */
export function describeProcess(
  metrics: Metrics,
  { version, schemaVersion }: { readonly version: string; readonly schemaVersion: number },
): void {
  metrics.gauge('svc_up', 1);
  metrics.gauge('svc_info', 1, {
    version,
    schema_version: String(schemaVersion),
    engine_version: String(ENGINE_VERSION),
  });
  metrics.gauge('svc_process_start_time_seconds', performance.timeOrigin / 1000);
}

/** To be run before each scrape. */
export function readGauges(sources: GaugeSources): () => Promise<void> {
  const { metrics, engine, bus, log, counts, pool, batchDepth } = sources;
  let masked = 0;
  /** Pools that had open commands once: an empty one is 0, not absent. */
  const pools = new Set<string>();

  async function readCommands(): Promise<void> {
    const open = await counts.commands();
    for (const row of open) pools.add(row.pool);
    for (const name of pools) {
      for (const status of COMMAND_STATUSES) {
        const row = open.find((each) => each.pool === name && each.status === status);
        metrics.gauge('svc_commands_open', row?.count ?? 0, { status, pool: name });
        if (status === 'PENDING')
          metrics.gauge('svc_commands_oldest_pending_seconds', row?.oldestSeconds ?? 0, { pool: name });
      }
    }
  }

  async function readWorkers(): Promise<void> {
    const workers = await counts.workers();
    const open = new Map<string, number>([...WORKER_STATUSES, 'other'].map((status) => [status, 0]));
    // Workers may call their state what they like.
    for (const { status, count } of workers) {
      const label = open.has(status) ? status : 'other';
      open.set(label, (open.get(label) ?? 0) + count);
    }
    for (const [status, count] of open) metrics.gauge('svc_workers', count, { status });
  }

  return async () => {
    engine.tell();
    metrics.gauge('svc_claim_waiters', engine.board.waiters);
    for (const state of BUS_STATES) metrics.gauge('svc_bus_state', bus.state() === state ? 1 : 0, { state });
    const { size, available, waiting } = pool();
    for (const [state, count] of Object.entries({ total: size, idle: available, waiting }))
      metrics.gauge('svc_db_pool', count, { state });
    const now = log.masked?.() ?? 0;
    if (now > masked) metrics.count('svc_log_scrubbed_total', {}, now - masked);
    masked = now;
    await Promise.allSettled([
      readCommands(),
      readWorkers(),
      counts.running().then((count) => metrics.gauge('svc_executions_running', count)),
      counts.sealed().then((rows) => {
        for (const { kid, count } of rows) metrics.gauge('svc_crypto_rows', count, { kid });
      }),
      batchDepth().then((depth) => metrics.gauge('svc_batch_queue_depth', depth)),
    ]);
  };
}
