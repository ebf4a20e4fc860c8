/**
 * Batches of one process, put together: intake, processing and those who follow. Between processes they tell each other
 * by hints; what a hint or a job was lost for is found again by looking at the rows.
 */
import { BatchIntake, type IntakeParts } from './batch-intake.ts';
import { BatchProcessor } from './batch-processor.ts';
import { BatchWatch } from './batch-watch.ts';
import type { Flusher } from './flush.ts';
import {
  type BatchJobs,
  type BatchRow,
  type BatchState,
  type BatchStore,
  type Bus,
  type Clock,
  type Ids,
  type Log,
  type Meter,
  NO_TRACER,
  type Store,
  type Tracer,
} from './ports.ts';
import type { BatchService } from './services.ts';

export interface BatchSettings {
  readonly enqueueTimeoutSeconds: number;
  readonly queueMax: number;
  /** Batches at a time; 0: this process only accepts. */
  readonly workers: number;
  readonly processingTimeoutSeconds: number;
  readonly pollSeconds: number;
}

export interface BatchParts {
  readonly store: Store;
  readonly batches: BatchStore;
  readonly jobs: BatchJobs;
  readonly flusher: Flusher;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Log;
  readonly meter: Meter;
  readonly tracer?: Tracer;
  /** Unique among the processes of a service. */
  readonly holder: string;
  seen: IntakeParts['seen'];
}

export interface Batches extends BatchService {
  start(): Promise<void>;
  /** Refuses new batches, or takes them again. */
  drain(on: boolean): void;
  /** Refuses new batches for good; those under way go on for as long as jobs are delivered. */
  stop(): Promise<void>;
  /** Queues again what has been waiting for so long that its job must be lost; how many. */
  heal(): Promise<number>;
  /** Accepted and not finished, of all processes. */
  depth(): Promise<number>;
}

const ANNOUNCE_SECONDS = 45;
const ASK_AGAIN_MS = 1_000;
const STRANDED_SECONDS = 30;
const PAGE = 1_000;
const REMEMBERED = 4_096;

export function createBatches(parts: BatchParts, settings: BatchSettings): Batches {
  const { store, batches, jobs, flusher, ids, clock, bus, log, meter, holder, seen } = parts;
  const watch = new BatchWatch(batches, settings.pollSeconds);
  /** Instants of the monotonic clock at which this process accepted a batch. */
  const acceptedAt = new Map<number, number>();
  let asked = { at: Number.NEGATIVE_INFINITY, live: false };
  const timers = new Set<ReturnType<typeof setTimeout>>();
  let isStopped = false;

  function onState(batch: Pick<BatchRow, 'requestId' | 'executionId'>, state: BatchState): void {
    const { requestId, executionId } = batch;
    if (state === 'accepted') {
      acceptedAt.set(requestId, performance.now());
      if (acceptedAt.size > REMEMBERED)
        for (const oldest of acceptedAt.keys()) {
          acceptedAt.delete(oldest);
          break;
        }
      jobs.wake();
    }
    watch.hint(requestId, state);
    bus.publish('batches', [{ request_id: requestId, execution_id: executionId, state, holder }]);
  }

  const intake = new BatchIntake({
    ...{ store, batches, jobs, flusher, ids, log, meter, seen, onState },
    enqueueTimeoutSeconds: settings.enqueueTimeoutSeconds,
    queueMax: settings.queueMax,
    someEnd: (ms) => watch.someEnd(ms),
    async hasProcessor() {
      if (settings.workers > 0) return true;
      const now = performance.now();
      if (now - asked.at > ASK_AGAIN_MS) asked = { at: now, live: (await batches.liveProcessors()) > 0 };
      return asked.live;
    },
  });
  const processor = new BatchProcessor({
    ...{ store, batches, flusher, clock, log, meter, onState },
    tracer: parts.tracer ?? NO_TRACER,
    timeoutSeconds: settings.processingTimeoutSeconds,
    sinceAccepted(requestId) {
      const at = acceptedAt.get(requestId);
      acceptedAt.delete(requestId);
      return at === undefined ? null : performance.now() - at;
    },
  });
  const unsubscribe = bus.subscribe((topic, hints) => {
    if (topic !== 'batches') return;
    for (const { request_id: requestId, state, holder: from } of hints) {
      if (typeof requestId !== 'number' || typeof state !== 'string' || from === holder) continue;
      watch.hint(requestId, state);
      if (state === 'accepted') jobs.wake();
    }
  });

  /** What a process that died had begun. Jobs of it come again by themselves, but late. */
  async function resume(): Promise<void> {
    for (const job of await batches.stranded(0, PAGE)) {
      processor.process(job).catch((error: unknown) => {
        log.warn('A batch waits for its job to come again', { request: job.requestId, error });
      });
    }
  }

  function every(ms: number, work: () => Promise<unknown>, isOnce = false): void {
    const timer = setTimeout(() => {
      timers.delete(timer);
      work()
        .catch((error: unknown) => log.warn('Batches will be looked at again', { error }))
        .finally(() => {
          if (!isOnce && !isStopped) every(ms, work);
        });
    }, ms);
    timer.unref?.();
    timers.add(timer);
  }

  return {
    accept: (request) => intake.accept(request),
    find: async (requestId) => (await batches.find([requestId]))[0] ?? null,
    follow: (requestId, onChange) => watch.follow(requestId, onChange),
    depth: () => batches.depth(),
    drain: (on) => intake.drain(on),
    async start() {
      if (settings.workers === 0) return;
      const announce = () => batches.announceProcessor(holder, ANNOUNCE_SECONDS);
      await announce();
      every((ANNOUNCE_SECONDS * 1000) / 3, announce);
      await jobs.work(settings.workers, (job) => processor.process(job));
      await resume();
      // Those whose deadline had not passed yet may still have had a processor.
      every(settings.processingTimeoutSeconds * 1000 + 1_000, resume, true);
    },
    async stop() {
      if (isStopped) return;
      isStopped = true;
      intake.drain(true);
      unsubscribe();
      watch.stop();
      for (const timer of timers) clearTimeout(timer);
      if (settings.workers > 0)
        await batches.withdrawProcessor(holder).catch((error: unknown) => {
          log.debug('A processor of batches could not be withdrawn', { error });
        });
    },
    async heal() {
      const stranded = await batches.stranded(STRANDED_SECONDS, PAGE);
      if (stranded.length > 0) await jobs.enqueue(stranded);
      return stranded.length;
    },
  };
}
