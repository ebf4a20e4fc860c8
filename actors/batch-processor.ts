/**
 * Handling of accepted batches (api 4.3): `batch.processing`, the turns of every event through the mailbox of the
 * execution, `batch.completed` with what it took. Three writes, each of which bears being repeated: turns are taken
 * once because the inbox is empty afterwards, and a batch moves only from the state and the round it was read in. So a job may come
 * twice, or at two processes at once.
 */
import { isActionable } from '../machines/batch/actionable.ts';
import { type BatchFailure, couldNotHandle, timedOut } from '../machines/batch/failure.ts';
import { type BatchEventType, moveBatch } from '../machines/batch/machine.ts';
import { type BatchTimes, timingsOf } from '../machines/batch/timings.ts';
import { instantOf, isoOf } from '../machines/command/instant.ts';
import type { JsonMap } from '../machines/json.ts';
import type { TraceContext } from '../machines/trace-context.ts';
import { batchMarker } from './batch-marker.ts';
import { DomainError } from './errors.ts';
import type { Flusher } from './flush.ts';
import { drainInbox } from './inbox.ts';
import type { FlushTimes } from './job-queue.ts';
import {
  type BatchJob,
  type BatchRow,
  type BatchState,
  type BatchStore,
  type Clock,
  type Log,
  type Meter,
  RefusedWriteError,
  StaleError,
  type Store,
  type Tracer,
  UnavailableError,
} from './ports.ts';
import { executionContext } from './traces.ts';

export interface ProcessorParts {
  readonly store: Store;
  readonly batches: BatchStore;
  readonly flusher: Flusher;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  readonly timeoutSeconds: number;
  /** Milliseconds since this process accepted the batch; null when it was another one. */
  sinceAccepted(requestId: number): number | null;
  readonly tracer: Tracer;
  /** After the commit. */
  onState(batch: Pick<BatchRow, 'requestId' | 'executionId'>, state: BatchState): void;
}

export class BatchProcessor {
  readonly #parts: ProcessorParts;
  /** One batch of an execution at a time. */
  readonly #lanes = new Map<number, Promise<void>>();
  /** By request, from its turns to its end; empty while nothing is traced. */
  readonly #contexts = new Map<number, TraceContext>();

  constructor(parts: ProcessorParts) {
    this.#parts = parts;
  }

  /**
   * Handles the unfinished batches of the execution up to this one, oldest first. Rejects when the store does not answer:
   * then the job has to come again.
   */
  process(job: BatchJob): Promise<void> {
    const before = this.#lanes.get(job.executionId) ?? Promise.resolve();
    const lane = before.catch(() => {}).then(() => this.#processAll(job));
    this.#lanes.set(job.executionId, lane);
    const leave = (): void => {
      if (this.#lanes.get(job.executionId) === lane) this.#lanes.delete(job.executionId);
    };
    lane.then(leave, leave);
    return lane;
  }

  async #processAll(job: BatchJob): Promise<void> {
    for (const batch of await this.#parts.batches.openOf(job.executionId)) {
      await this.#process(batch);
      if (batch.requestId === job.requestId) return;
    }
  }

  async #process(accepted: BatchRow): Promise<void> {
    const { meter, log, timeoutSeconds, tracer } = this.#parts;
    const started = performance.now();
    try {
      const batch = await this.#begin(accepted);
      const handled = await this.#handle(batch, started);
      if ('failure' in handled) await this.#fail(batch, handled.failure);
      else await this.#complete(batch, started, handled.transaction);
      meter.observe('svc_batch_processing_seconds', (performance.now() - started) / 1000);
      if (tracer.isOn) this.#recordSpan(batch, performance.now() - started, 'failure' in handled);
    } catch (error) {
      this.#contexts.delete(accepted.requestId);
      // Another process has the same job, and was quicker.
      if (!(error instanceof RefusedWriteError)) throw error;
      log.debug('A batch was handled by another process', { request: accepted.requestId, timeout: timeoutSeconds });
    }
  }

  /** `batch.processing` is written once; a job that comes again only gets a new deadline. */
  async #begin(batch: BatchRow): Promise<BatchRow> {
    const { clock, meter, timeoutSeconds, sinceAccepted } = this.#parts;
    const now = clock.now();
    const waited = sinceAccepted(batch.requestId) ?? now - instantOf(batch.createdAt);
    const isFirst = batch.deadlineAt === null;
    const change = {
      deadlineAt: isoOf(now + timeoutSeconds * 1000),
      queueWaitMs: batch.queueWaitMs ?? Math.round(Math.max(0, waited) * 1000) / 1000,
    };
    const moved = await this.#move(batch, change, 'batch.processing', isFirst ? {} : null);
    if (isFirst) meter.observe('svc_batch_first_worker_claim_latency_seconds', change.queueWaitMs / 1000);
    return moved;
  }

  /** The turns of everything that waits in the execution's inbox, in one flush. */
  async #handle(
    batch: BatchRow,
    started: number,
  ): Promise<{ transaction: BatchTimes['transaction'] } | { failure: BatchFailure }> {
    const { flusher, timeoutSeconds, log } = this.#parts;
    const { executionId, requestId } = batch;
    const deadline = started + timeoutSeconds * 1000;
    let times: FlushTimes | null = null;
    try {
      const { turns, isLate } = await flusher.submit({
        executionId,
        inbox: 'leave',
        measure(measured) {
          times = measured;
        },
        apply: (actor) => {
          if (this.#parts.tracer.isOn) this.#contexts.set(requestId, executionContext(this.#parts.tracer, actor.row));
          // Asked when the turns would begin: from then on they are either written or leave nothing behind.
          if (performance.now() > deadline) throw new DeadlinePassed();
          const waiting = actor.inbox.length;
          drainInbox(actor);
          return { turns: waiting, isLate: waiting === 0 && actor.isEnded };
        },
      });
      return { transaction: transactionOf(times, turns, isLate) };
    } catch (error) {
      if (error instanceof DeadlinePassed) return { failure: timedOut(timeoutSeconds) };
      if (mayComeAgain(error)) throw error;
      log.error('The events of a batch could not be handled', { request: requestId, execution_id: executionId, error });
      return { failure: couldNotHandle(error instanceof Error ? error.name : 'unknown') };
    }
  }

  async #complete(batch: BatchRow, started: number, transaction: BatchTimes['transaction']): Promise<void> {
    const { store, batches } = this.#parts;
    const { executionId, requestId, eventIds, eventCount, queueWaitMs } = batch;
    // From the log, because the events may have taken their turns in another flush, or before a crash.
    const [{ issued, endedBy }, events] = await Promise.all([
      batches.effectsOf(executionId, requestId, eventIds),
      store.events(executionId, eventIds),
    ]);
    const brought = events.filter((event) => event.meta['batch_request_id'] === String(requestId));
    const processingMs = performance.now() - started;
    const timings: JsonMap = {
      ...timingsOf({ processingMs, transaction }),
      actionable_event: isActionable(brought, endedBy),
      commands_generated: issued,
      queue_wait_ms: queueWaitMs,
      event_count: eventCount,
    };
    await this.#move(batch, { commandsGenerated: issued, timings }, 'batch.completed', timings);
  }

  async #fail(batch: BatchRow, { code, message }: BatchFailure): Promise<void> {
    const { meter, log } = this.#parts;
    meter.count(`svc_batch_${code}_total`);
    log.warn('A batch has failed; its events stay in the log', { request: batch.requestId, code });
    await this.#move(batch, { errorCode: code, message }, 'batch.failed', { error_code: code }, message);
  }

  #recordSpan({ requestId, executionId, eventCount }: BatchRow, tookMs: number, failed: boolean): void {
    const { tracer } = this.#parts;
    const context = this.#contexts.get(requestId);
    this.#contexts.delete(requestId);
    if (context?.isSampled !== true) return;
    const endMs = tracer.now();
    tracer.record({
      name: 'batch.process',
      traceId: context.traceId,
      spanId: tracer.newSpanId(),
      parentSpanId: context.spanId,
      startMs: endMs - tookMs,
      endMs,
      attributes: {
        'callboard.execution_id': executionId,
        'callboard.request': requestId,
        'callboard.events': eventCount,
      },
      failed,
    });
  }

  /** Writes the marker (null: none) and the row; throws RefusedWriteError when the batch has moved meanwhile. */
  async #move(
    before: BatchRow,
    change: Partial<BatchRow>,
    type: BatchEventType,
    marker: JsonMap | null,
    error: string | null = null,
  ): Promise<BatchRow> {
    const { flusher, onState } = this.#parts;
    const state = moveBatch(before.state, type);
    if (state === null) throw new RefusedWriteError('batch_moved');
    const moved: BatchRow = { ...before, ...change, state };
    const from = { from: before.state, fromDeadlineAt: before.deadlineAt };
    await flusher.submit({
      executionId: before.executionId,
      inbox: 'leave',
      apply(actor) {
        if (marker !== null) actor.append(batchMarker(type, moved, marker, error));
        actor.moveBatch({ ...moved, ...from });
      },
    });
    onState(moved, state);
    return moved;
  }
}

/** A refusal, so that the flush goes on without this job. */
class DeadlinePassed extends DomainError {
  constructor() {
    super('queue_unavailable', 'The time of the batch is over');
  }
}

/** Failures that say nothing of the events: the job is delivered again. */
function mayComeAgain(error: unknown): boolean {
  return error instanceof UnavailableError || error instanceof StaleError || error instanceof DomainError;
}

function transactionOf(times: FlushTimes | null, turns: number, isLate: boolean): BatchTimes['transaction'] {
  if (times === null) return null;
  const { lock, append, issue, save, commit } = times.phases;
  return {
    waitMs: times.waitMs,
    totalMs: times.totalMs,
    loadMs: times.loadMs,
    lockMs: lock ?? 0,
    appendMs: append ?? 0,
    issueMs: issue ?? 0,
    saveMs: save ?? 0,
    commitMs: commit ?? 0,
    turns,
    isLate,
  };
}
