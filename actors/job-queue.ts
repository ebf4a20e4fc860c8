/**
 * The jobs that wait for a flush, in order: bounded for each execution, and never two flushes at one execution.
 *
 * A job that has to be tried again goes back to the front, so that what was asked first is still done first; one that keeps
 * failing goes alone, which shows whose fault it is and spares its neighbours.
 */

import type { AuditRow } from './audit.ts';
import type { Claimant } from './board.ts';
import { DomainError } from './errors.ts';
import type { ExecutionActor } from './execution-actor.ts';
import type { Fence } from './lease.ts';
import type { CommitPhase } from './ports.ts';

/** Work on one execution, done within a flush. */
export interface Job<T> {
  readonly executionId: number;
  /** Makes the execution itself (a start); otherwise it is hydrated. */
  readonly create?: () => ExecutionActor;
  /**
   * Events that wait in the execution's inbox take their turns first; `leave` is for jobs that take no turn themselves.
   */
  readonly inbox?: 'drain' | 'leave';
  /** Hears how long the flush took that wrote this job. */
  readonly measure?: (times: FlushTimes) => void;
  /** Takes its place in the answer of this claimant: new commands are offered to it first. */
  readonly claimant?: Claimant | null;
  /** The lease this job is done under; it is refused with LeaseLostError when that is lost. */
  readonly fence?: Fence;
  /** Written with the job, unless the job answers `false`: it found nothing to do. */
  readonly audit?: AuditRow | null;
  /** Synchronous. A DomainError refuses the job and must be thrown before anything is written. */
  apply(actor: ExecutionActor): T;
}

/** Milliseconds of one monotonic clock; every part lies inside `totalMs`, except `waitMs`, which lies before it. */
export interface FlushTimes {
  /** From submitting to the begin of the flush. */
  readonly waitMs: number;
  readonly totalMs: number;
  readonly loadMs: number;
  readonly phases: Readonly<Partial<Record<CommitPhase, number>>>;
}

/** A job on its way, and what came of earlier tries. */
export interface Queued {
  readonly job: Job<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly since: number;
  tries: number;
  /** How often a stored result was fetched for it. */
  fetches: number;
  /** Its execution goes in a flush of its own. */
  isAlone: boolean;
  /** It goes in a flush of its own, without the other jobs of its execution. */
  isSolo: boolean;
  /** Was answered; it is not tried again. */
  isSettled: boolean;
}

export interface JobQueueParts {
  readonly maxTurns: number;
  readonly mailboxMax: number;
  /** Executions in a flush; those that are taken are added. */
  readonly busy: Set<number>;
  /** There is something to take. */
  onReady(): void;
}

export class JobQueue {
  readonly #parts: JobQueueParts;
  #queue: Queued[] = [];
  readonly #mailbox = new Map<number, number>();
  #isStopped = false;

  constructor(parts: JobQueueParts) {
    this.#parts = parts;
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** Resolves with what the job answered, after its commit. Rejects with `shutting_down`, `queue_unavailable`, or what the flush says. */
  submit<T>(job: Job<T>): Promise<T> {
    if (this.#isStopped) return Promise.reject(new DomainError('shutting_down', 'The server is shutting down'));
    const waiting = this.#mailbox.get(job.executionId) ?? 0;
    if (waiting >= this.#parts.mailboxMax) {
      return Promise.reject(
        new DomainError('queue_unavailable', `The mailbox of execution ${job.executionId} is full`),
      );
    }
    this.#mailbox.set(job.executionId, waiting + 1);
    return new Promise<T>((resolve, reject) => {
      // The queue holds jobs of all kinds; each resolves with what its own apply returned.
      const answer = { resolve: resolve as (value: unknown) => void, reject };
      this.#queue.push({
        job,
        ...answer,
        since: performance.now(),
        tries: 0,
        fetches: 0,
        isAlone: false,
        isSolo: false,
        isSettled: false,
      });
      this.#parts.onReady();
    });
  }

  /** Refuses new jobs from now on. */
  stop(): void {
    this.#isStopped = true;
  }

  /** The jobs of the next flush; their executions are busy from here on. */
  take(): readonly Queued[] {
    if (this.#queue.length === 0) return [];
    const { busy, maxTurns } = this.#parts;
    const batch: Queued[] = [];
    const rest: Queued[] = [];
    const passed = new Set<number>();
    for (const queued of this.#queue) {
      const { executionId } = queued.job;
      const first = batch[0];
      const fits =
        first === undefined ||
        (!queued.isAlone && !first.isAlone) ||
        (first.isAlone && !first.isSolo && !queued.isSolo && first.job.executionId === executionId);
      if (batch.length < maxTurns && fits && !passed.has(executionId) && !busy.has(executionId)) {
        batch.push(queued);
      } else {
        passed.add(executionId);
        rest.push(queued);
      }
    }
    for (const { job } of batch) busy.add(job.executionId);
    this.#queue = rest;
    return batch;
  }

  /** To the front again, in the order given. */
  requeue(own: readonly Queued[]): void {
    this.#queue.unshift(...own.filter((queued) => !queued.isSettled));
    this.#parts.onReady();
  }

  /** Answers a job, once. */
  settle(queued: Queued, answer: () => void): void {
    if (queued.isSettled) return;
    queued.isSettled = true;
    const { executionId } = queued.job;
    const left = (this.#mailbox.get(executionId) ?? 1) - 1;
    if (left > 0) this.#mailbox.set(executionId, left);
    else this.#mailbox.delete(executionId);
    answer();
  }
}
