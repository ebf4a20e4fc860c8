/**
 * The queue of batches on pg-boss, schema `core_jobs`; the only file that knows pg-boss. Its own small pool keeps it from
 * standing in front of the service's other work. A job is put in by the very transaction that makes it: pg-boss writes
 * the statement, the flush sends it.
 *
 * Workers are woken by this process's own commits and by hints on the bus; the poll only finds what a hint was lost for.
 */
import { PgBoss } from 'pg-boss';
import type { BatchJob, BatchJobs, Log } from '../../actors/ports.ts';
import { isMap } from '../../machines/json.ts';
import type { Statement } from '../store/pipeline.ts';
import { sessionConfig } from '../store/session.ts';

export interface Boss extends BatchJobs {
  /** The statements that put these jobs into the queue; run them in the transaction that makes the jobs. */
  statements(jobs: readonly BatchJob[]): Promise<readonly Statement[]>;
  /** Takes no new job, and resolves when those under way have ended. Idempotent. */
  stop(): Promise<void>;
}

const SCHEMA = 'core_jobs';
const QUEUE = 'batch';
const POOL_MAX = 4;
/** Wakes find nearly everything at once; the poll is for retries and for hints that were lost. */
const POLL_SECONDS = 10;
/** A job of a process that died comes again after this; a batch has its own deadline, which is shorter. */
const EXPIRE_SECONDS = 120;
/** Beyond any fault that ends; what is lost then is found by its row. */
const RETRIES = 1_000;
const RETRY_MAX_SECONDS = 30;
const KEEP_DONE_SECONDS = 600;
const STOP_WITHIN_MS = 10_000;
/** For so long after an error the queue counts as degraded. */
const DOUBT_MS = 10_000;

/** Creates or migrates the schema. Throws when the database does not answer. */
export async function startBoss(url: string, log: Log): Promise<Boss> {
  const { options = '' } = sessionConfig(url, 'jobs');
  const boss = new PgBoss({
    connectionString: url,
    schema: SCHEMA,
    application_name: 'callboard:jobs',
    options,
    max: POOL_MAX,
    connectionTimeoutMillis: 5_000,
    schedule: false,
    // The queue's own housekeeping; nothing here waits for it, and an idle server should be quiet.
    superviseIntervalSeconds: 300,
    maintenanceIntervalSeconds: 600,
    monitorIntervalSeconds: 600,
    queueCacheIntervalSeconds: 600,
    bamIntervalSeconds: 600,
    flowIntervalSeconds: 600,
  });
  let doubtUntil = 0;
  let state: 'up' | 'down' = 'up';
  // Unheard, an error of the pool would end the process.
  boss.on('error', (error) => {
    doubtUntil = performance.now() + DOUBT_MS;
    log.warn('The job queue met an error', { error });
  });
  boss.on('warning', ({ message }) => log.warn('The job queue has a warning', { reason: message }));
  await boss.start();
  const queue = {
    policy: 'standard',
    expireInSeconds: EXPIRE_SECONDS,
    retryLimit: RETRIES,
    retryDelay: 1,
    retryBackoff: true,
    retryDelayMax: RETRY_MAX_SECONDS,
    deleteAfterSeconds: KEEP_DONE_SECONDS,
  };
  try {
    await boss.createQueue(QUEUE, queue);
  } catch (error) {
    await boss.stop({ graceful: false }).catch(() => {});
    throw error;
  }
  const workers: string[] = [];
  let stopping: Promise<void> | null = null;

  function wake(): void {
    for (const worker of workers) boss.notifyWorker(worker);
  }

  return {
    async statements(jobs) {
      const recorded: Statement[] = [];
      await boss.insert(QUEUE, rowsOf(jobs), {
        db: {
          async executeSql(text, values = []) {
            recorded.push({ name: 'enqueue', text, values });
            return { rows: [] };
          },
        },
      });
      return recorded;
    },
    async enqueue(jobs) {
      await boss.insert(QUEUE, rowsOf(jobs));
      wake();
    },
    async work(concurrency, handle) {
      for (let index = 0; index < concurrency; index += 1) {
        const worker: string = await boss.work(
          QUEUE,
          { batchSize: 1, pollingIntervalSeconds: POLL_SECONDS },
          async (jobs) => {
            for (const { data } of jobs) {
              const job = jobOf(data);
              if (job === null) log.warn('A job that cannot be read was dropped');
              else await handle(job);
            }
            // There may be more, and the poll is slow.
            boss.notifyWorker(worker);
          },
        );
        workers.push(worker);
      }
    },
    wake,
    state: () => (state === 'down' ? 'down' : performance.now() < doubtUntil ? 'degraded' : 'ok'),
    stop() {
      state = 'down';
      stopping ??= boss.stop({ graceful: true, timeout: STOP_WITHIN_MS });
      return stopping;
    },
  };
}

function rowsOf(jobs: readonly BatchJob[]): { data: object }[] {
  return jobs.map(({ requestId, executionId }) => ({ data: { request_id: requestId, execution_id: executionId } }));
}

function jobOf(data: unknown): BatchJob | null {
  if (!isMap(data)) return null;
  const { request_id: requestId, execution_id: executionId } = data;
  return typeof requestId === 'number' && typeof executionId === 'number' ? { requestId, executionId } : null;
}
