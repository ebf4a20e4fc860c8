/**
 * Ending executions from outside: by people, clean-up, a restart, a parent that no longer waits, a defect (api 4.1, 4.8).
 * Each end is an event delivered through the mailbox; what has ended stays as it ended.
 */

import { isoOf } from '../machines/command/instant.ts';
import type { JsonMap } from '../machines/json.ts';
import { MissingPayload } from '../machines/playbook/values.ts';
import type { ExecutionActor } from './execution-actor.ts';
import { auditOf, type ExecutionServiceParts, noSuchExecution } from './execution-parts.ts';
import type { Fence } from './lease.ts';
import { endCancelled, endFromOutside } from './record-event.ts';
import { endsNow } from './report.ts';
import type { CancelReceipt, CleanupReceipt, ExecutionService } from './services.ts';

/** One call cancels so many at most; the next one goes on. */
const CLEANUP_MAX = 100_000;
const CLEANUP_AT_ONCE = 64;
/** Children of one look; the next one goes on. */
const ABANDONED_MAX = 1_000;

export class ExecutionEnds {
  readonly #parts: ExecutionServiceParts;

  constructor(parts: ExecutionServiceParts) {
    this.#parts = parts;
  }

  async cancel(
    executionId: number,
    options: { reason: string; cascade: boolean; by: 'api' | 'stop' },
  ): Promise<CancelReceipt> {
    const { store } = this.#parts;
    const row = await store.execution(executionId);
    if (row === null) throw noSuchExecution(executionId);
    const isMine = row.status === 'running' && (await this.#cancelOne(executionId, options.reason, options.by, {}));
    const cancelled: number[] = isMine ? [executionId] : [];
    if (options.cascade) {
      for (const child of await store.runningDescendants(executionId)) {
        const reason = `Parent execution ${executionId} was cancelled: ${options.reason}`;
        if (await this.#cancelOne(child, reason, 'cascade', { cascade_from: executionId })) cancelled.push(child);
      }
    }
    if (isMine) {
      const noun = cancelled.length === 1 ? 'execution' : 'executions';
      return { status: 'cancelled', cancelled, message: `Cancelled ${cancelled.length} ${noun}` };
    }
    return { status: 'already_completed', cancelled, message: `Execution ${executionId} is already completed` };
  }

  async cleanup(options: Parameters<ExecutionService['cleanup']>[0]): Promise<CleanupReceipt> {
    const { store, clock, meter } = this.#parts;
    const minutes = options.olderThanMinutes;
    // Nothing is older than the clock, whatever was asked for.
    const before = isoOf(Math.max(0, clock.now() - minutes * 60_000));
    const stuck = await store.runningSince(before, CLEANUP_MAX);
    const isMine = await Promise.all(stuck.map((id) => options.mayEnd?.(id) ?? true));
    const selected = stuck.filter((_, index) => isMine[index]);
    const found: number[] = options.dryRun ? [...selected] : [];
    const reason = `Stuck execution cleanup: running for more than ${minutes} minutes`;
    const extra = { auto_cancelled: true, older_than_minutes: minutes };
    // Oldest first, so that a parent ends before its children; a few share a flush.
    for (let next = 0; !options.dryRun && next < selected.length; next += CLEANUP_AT_ONCE) {
      const few = selected.slice(next, next + CLEANUP_AT_ONCE);
      const done = await Promise.all(few.map((id) => this.#cancelOne(id, reason, 'cleanup', extra)));
      found.push(...few.filter((_, index) => done[index]));
    }
    meter.count('svc_cleanup_cancelled_total', {}, options.dryRun ? 0 : found.length);
    const ids = [...found].sort((a, b) => a - b);
    const message =
      ids.length === 0
        ? `No stuck executions found older than ${minutes} minutes`
        : options.dryRun
          ? `[DRY RUN] Would cancel ${ids.length} stuck executions older than ${minutes} minutes`
          : `Cancelled ${ids.length} stuck executions older than ${minutes} minutes`;
    return { executionIds: ids, message, dryRun: options.dryRun };
  }

  /**
   * Ends a run that a restart interrupted, unless anything happened to it since `seenEventId`. The fence belongs to the lease
   * under which that was decided. Answers whether it was ended by this call.
   */
  async endInterrupted(
    executionId: number,
    options: { seenEventId: number; reason: string; extra: JsonMap; fence: Fence },
  ): Promise<boolean> {
    return this.#parts.flusher.submit({
      executionId,
      fence: options.fence,
      apply: (actor) => {
        if (isEnded(actor) || actor.row.lastEventId !== options.seenEventId) return false;
        endCancelled(actor, { reason: options.reason, by: 'auto_resume', extra: options.extra });
        return true;
      },
    });
  }

  async finalize(
    executionId: number,
    options: { status: 'completed' | 'failed'; reason: string; error: string | null },
  ): Promise<{ status: 'finalized' | 'already_completed'; message: string }> {
    const done = await this.#parts.flusher.submit({
      executionId,
      audit: await auditOf(this.#parts, 'execution.finalize', executionId, { status: options.status }),
      apply: (actor) => {
        if (isEnded(actor)) return false;
        endFromOutside(actor, { status: options.status, reason: options.error ?? options.reason, result: null });
        return true;
      },
    });
    return done
      ? { status: 'finalized', message: `Execution ${executionId} was finalized as ${options.status}` }
      : { status: 'already_completed', message: `Execution ${executionId} is already completed` };
  }

  /** A child that nobody waits for any more ends with everything below it (language 5.7). */
  async abandon(child: number, parent: number): Promise<void> {
    const reason = `Parent execution ${parent} no longer waits`;
    for (const executionId of [child, ...(await this.#parts.store.runningDescendants(child))])
      await this.#cancelOne(executionId, reason, 'cascade', { cascade_from: parent });
  }

  /**
   * Ends the children that a crash kept from being ended with the wait for them. The rows say which: what has been so for at
   * least `seconds` is nobody's work under way. Answers how many children there were.
   */
  async endAbandoned(seconds: number): Promise<number> {
    const found = await this.#parts.store.abandoned(seconds, ABANDONED_MAX);
    for (const { executionId, parentExecutionId } of found) await this.abandon(executionId, parentExecutionId);
    return found.length;
  }

  /** An event that keeps failing its execution ends it, so that nobody waits for it for ever (api 4.1). */
  endPoisoned(executionId: number, error: unknown): void {
    const { flusher, log } = this.#parts;
    const { kind, code, message } = poisonOf(error);
    const errors = [{ step: null, task: null, iteration: null, kind, code, message }];
    const end = {
      status: 'failed',
      reason: message,
      result: null,
      detail: { message, failed_steps: [], errors },
    } as const;
    flusher
      .submit({
        executionId,
        // What waits may be the very event that cannot be handled.
        inbox: 'leave',
        apply: (actor) => {
          if (!isEnded(actor)) endFromOutside(actor, end);
        },
      })
      .catch((cause: unknown) =>
        log.error('a defective execution could not be ended', { execution_id: executionId, error: String(cause) }),
      );
  }

  async #cancelOne(executionId: number, reason: string, by: string, extra: JsonMap): Promise<boolean> {
    const action = by === 'cleanup' ? 'execution.cleanup' : 'execution.cancel';
    return this.#parts.flusher.submit({
      executionId,
      audit: await auditOf(this.#parts, action, executionId, { by, ...extra }),
      apply: (actor) => {
        if (isEnded(actor)) return false;
        endCancelled(actor, { reason, by, extra });
        return true;
      },
    });
  }
}

function isEnded(actor: ExecutionActor): boolean {
  return (endsNow(actor) ?? actor.row.status) !== 'running';
}

/** A payload that is gone is no defect of the engine's: the values of the run cannot be told without it (language 10.4). */
function poisonOf(error: unknown): { readonly kind: string; readonly code: string; readonly message: string } {
  if (error instanceof MissingPayload)
    return { kind: 'missing_reference', code: 'MISSING_REFERENCE', message: error.message };
  const message = `The engine could not handle an event: ${error instanceof Error ? error.message : String(error)}`;
  return { kind: 'logic', code: 'ENGINE_DEFECT', message };
}
