/**
 * The intake of batches (api 2.6.1). Everything a batch is, its events, marker, row and job, is one write of its
 * execution's mailbox, so an answer of 202 means that all of it is there, and a refusal that none is.
 *
 * Misbehaves when the store is slow: the caller hears `ack_timeout` and the write goes on. A repeat with the same key
 * finds it, or waits for it.
 */
import { moveBatch } from '../machines/batch/machine.ts';
import { fileEvent } from './batch-filing.ts';
import { batchMarker } from './batch-marker.ts';
import { DomainError } from './errors.ts';
import type { Flusher } from './flush.ts';
import { drainInbox, endsBefore } from './inbox.ts';
import {
  type BatchJobs,
  type BatchRow,
  type BatchState,
  type BatchStore,
  type FiledBefore,
  type Ids,
  type Log,
  type Meter,
  RefusedWriteError,
  type Store,
} from './ports.ts';
import { isReserved } from './record-event.ts';
import type { BatchReceipt, BatchRequest } from './services.ts';

export interface IntakeParts {
  readonly store: Store;
  readonly batches: BatchStore;
  readonly jobs: BatchJobs;
  readonly flusher: Flusher;
  readonly ids: Ids;
  readonly log: Log;
  readonly meter: Meter;
  readonly enqueueTimeoutSeconds: number;
  readonly queueMax: number;
  /** Whether any process handles batches. */
  hasProcessor(): Promise<boolean>;
  /** A call that names a worker counts as its heartbeat. */
  seen(workerId: string): void;
  /** Resolves when some batch has ended, or after the time. */
  someEnd(ms: number): Promise<void>;
  /** After the commit. */
  onState(batch: Pick<BatchRow, 'requestId' | 'executionId'>, state: BatchState): void;
}

const FILING_TRIES = 5;

export class BatchIntake {
  readonly #parts: IntakeParts;
  /** Requests under way that have a key, by execution and key; a second use waits for the first. */
  readonly #firstUses = new Map<string, { readonly requestId: number; readonly done: Promise<void> }>();
  /** Batches being written, which the store does not count yet. */
  #writing = 0;
  #isStopped = false;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
  }

  /** From here on everything is refused, or not any more. */
  drain(on: boolean): void {
    this.#isStopped = on;
  }

  async accept(request: BatchRequest): Promise<BatchReceipt> {
    const { ids, seen, meter } = this.#parts;
    try {
      await this.#refuseEarly();
      if (request.workerId !== null) seen(request.workerId);
      await ids.reserve(1);
      if (request.idempotencyKey === null) return await this.#take(request, ids.next(), () => {});
      const key = `${request.executionId}:${request.idempotencyKey}`;
      for (let first = this.#firstUses.get(key); first !== undefined; first = this.#firstUses.get(key)) {
        await this.#within(first.done, first.requestId);
      }
      const requestId = ids.next();
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#firstUses.set(key, { requestId, done: promise });
      return await this.#take(request, requestId, () => {
        this.#firstUses.delete(key);
        resolve();
      });
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal instanceof DomainError && REFUSALS.has(refusal.code)) meter.count(`svc_batch_${refusal.code}_total`);
      throw refusal;
    }
  }

  async #refuseEarly(): Promise<void> {
    const { jobs, hasProcessor } = this.#parts;
    if (this.#isStopped) throw new DomainError('queue_unavailable', 'The intake of batches has stopped');
    if (jobs.state() === 'down') throw new DomainError('queue_unavailable', 'The queue of batches is not available');
    if (!(await hasProcessor())) throw new DomainError('worker_unavailable', 'No process handles batches');
  }

  /** `onSettled` is called when nothing of this request is under way any more, which may be after the answer. */
  async #take(request: BatchRequest, requestId: number, onSettled: () => void): Promise<BatchReceipt> {
    const { store, batches, meter, onState } = this.#parts;
    const { executionId, idempotencyKey } = request;
    let write: Promise<unknown> = Promise.resolve();
    try {
      const known = idempotencyKey === null ? null : await batches.byKey(executionId, idempotencyKey);
      if (known !== null) return await this.#repeat(known, request);
      if ((await store.execution(executionId)) === null)
        throw new DomainError('not_found', `Execution ${executionId} not found`);
      const before = await this.#read(request);
      refuseMisfits(request, before);
      const depth = await this.#room(requestId);
      const started = performance.now();
      const filing = this.#file(request, requestId, before).then((eventIds) => {
        meter.observe('svc_batch_enqueue_latency_seconds', (performance.now() - started) / 1000);
        meter.count('svc_batch_accepted_total');
        onState({ requestId, executionId }, 'accepted');
        return eventIds;
      });
      write = filing;
      const eventIds = await this.#within(filing, requestId);
      return { requestId, eventIds, queueDepth: depth + 1, duplicate: false, idempotencyKey };
    } catch (error) {
      // Another process was first.
      const isTaken = error instanceof RefusedWriteError && error.reason === 'batch_key' && idempotencyKey !== null;
      const known = isTaken ? await batches.byKey(executionId, idempotencyKey) : null;
      if (known === null) throw error;
      return await this.#repeat(known, request);
    } finally {
      write.catch(() => {}).finally(onSettled);
    }
  }

  async #repeat(known: BatchRow, request: BatchRequest): Promise<BatchReceipt> {
    const { batches, meter } = this.#parts;
    if (known.bodyHash !== request.bodyHash) {
      throw new DomainError('idempotency_conflict', 'The idempotency key was used with another body');
    }
    if (known.state === 'failed') await this.#acceptAgain(known);
    meter.count('svc_batch_duplicate_total');
    const { requestId, eventIds, idempotencyKey } = known;
    return { requestId, eventIds, queueDepth: await batches.depth(), duplicate: true, idempotencyKey };
  }

  /** The events are in the log; only a job is missing. */
  async #acceptAgain(known: BatchRow): Promise<void> {
    const { flusher, onState } = this.#parts;
    const { requestId, executionId } = known;
    const state = moveBatch(known.state, 'batch.accepted');
    if (state === null) return;
    const writing = flusher.submit({
      executionId,
      inbox: 'leave',
      apply(actor) {
        const from = { from: known.state, fromDeadlineAt: known.deadlineAt };
        actor.moveBatch({ ...known, ...from, state, errorCode: null, message: null });
        actor.enqueue({ requestId, executionId });
      },
    });
    try {
      await this.#within(writing, requestId);
      onState(known, state);
    } catch (error) {
      // Somebody else has queued it again.
      if (!(error instanceof RefusedWriteError && error.reason === 'batch_moved')) throw error;
    }
  }

  #read({ executionId, events }: BatchRequest): Promise<FiledBefore> {
    const commandIds = new Set(events.flatMap((event) => event.commandId ?? []));
    const reportIds = new Set(events.flatMap((event) => event.reportId ?? []));
    return this.#parts.batches.filedBefore(executionId, [...commandIds], [...reportIds]);
  }

  async #file(request: BatchRequest, requestId: number, first: FiledBefore): Promise<readonly number[]> {
    const { flusher } = this.#parts;
    const { executionId, workerId } = request;
    this.#writing += 1;
    try {
      let before = first;
      for (let tries = 1; ; tries += 1) {
        const known = before;
        try {
          return await flusher.submit({
            executionId,
            inbox: 'leave',
            apply(actor) {
              // What is told after an end is late, also when nobody has looked at the end yet.
              if (endsBefore(actor)) drainInbox(actor);
              const eventIds = request.events.map((event) =>
                fileEvent(actor, { ...event, executionId, workerId: event.workerId ?? workerId }, requestId, known),
              );
              const batch = newBatch(request, requestId, eventIds, actor.at);
              actor.append(batchMarker('batch.accepted', batch));
              actor.acceptBatch(batch);
              actor.enqueue({ requestId, executionId });
              return eventIds;
            },
          });
        } catch (error) {
          // What was read is older than what the actor remembers.
          const isOutdated = error instanceof DomainError && error.data['outdated'] === true;
          if (!isOutdated || tries >= FILING_TRIES) throw error;
          before = await this.#read(request);
        }
      }
    } finally {
      this.#writing -= 1;
    }
  }

  /** Waits a little for room in the queue; the depth it found. */
  async #room(requestId: number): Promise<number> {
    const { batches, queueMax, enqueueTimeoutSeconds, someEnd } = this.#parts;
    const deadline = performance.now() + enqueueTimeoutSeconds * 1000;
    for (;;) {
      const depth = await batches.depth();
      if (depth + this.#writing < queueMax) return depth;
      const left = deadline - performance.now();
      if (left <= 0) throw ackTimeout('The queue of batches is full', requestId);
      await someEnd(left);
    }
  }

  /** The answer is given up after the time-out, the work is not. */
  async #within<T>(work: Promise<T>, requestId: number): Promise<T> {
    const { enqueueTimeoutSeconds, log } = this.#parts;
    const { promise, reject } = Promise.withResolvers<never>();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      reject(ackTimeout('The batch could not be acknowledged in time; repeat it with the same key', requestId));
    }, enqueueTimeoutSeconds * 1000);
    work.catch((error: unknown) => {
      if (isLate) log.warn('A batch that was not acknowledged was not stored', { request: requestId, error });
    });
    try {
      return await Promise.race([work, promise]);
    } finally {
      clearTimeout(timer);
    }
  }
}

const REFUSALS: ReadonlySet<string> = new Set([
  'ack_timeout',
  'enqueue_error',
  'queue_unavailable',
  'worker_unavailable',
]);

function ackTimeout(message: string, requestId: number): DomainError {
  return new DomainError('ack_timeout', message, { request_id: String(requestId) });
}

function asRefusal(error: unknown): unknown {
  if (error instanceof RefusedWriteError && error.reason === 'enqueue') {
    return new DomainError('enqueue_error', 'The job of the batch could not be queued', {}, { cause: error });
  }
  if (error instanceof DomainError && error.code === 'shutting_down') {
    return new DomainError('queue_unavailable', 'The intake of batches has stopped', {}, { cause: error });
  }
  return error;
}

/** What a schema cannot see: types that are the server's, commands of other executions, attempts nobody was granted. */
function refuseMisfits({ events, executionId }: BatchRequest, { commands }: FiledBefore): void {
  const own = new Map(commands.map((command) => [command.commandId, command]));
  const errors = events.flatMap(({ type, step, commandId, attempt }, index) => {
    const place = `body.events[${index}]`;
    if (isReserved(type)) return [`${place}.event_type: '${type}' is written by the server`];
    const command = commandId === null ? undefined : own.get(commandId);
    if (commandId !== null && command === undefined)
      return [`${place}.command_id: is not a command of execution ${executionId}`];
    if (command !== undefined && (attempt ?? 0) > command.attempt)
      return [`${place}.attempt: command ${commandId} has no attempt ${attempt}`];
    if (commandId === null && step === null) return [`${place}.step: is required without a command_id`];
    return [];
  });
  if (errors.length > 0) throw new DomainError('validation_error', errors.join('; '), { errors });
}

function newBatch(request: BatchRequest, requestId: number, eventIds: readonly number[], at: string): BatchRow {
  const { executionId, idempotencyKey, bodyHash, workerId } = request;
  return {
    requestId,
    executionId,
    idempotencyKey,
    bodyHash,
    state: 'accepted',
    errorCode: null,
    message: null,
    eventIds,
    eventCount: request.events.length,
    commandsGenerated: 0,
    workerId,
    deadlineAt: null,
    queueWaitMs: null,
    timings: null,
    createdAt: at,
    updatedAt: at,
  };
}
