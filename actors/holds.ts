/**
 * What workers say they work on, compared with what the store says. Grants of this process are remembered, so that an
 * ordinary exchange asks nothing; every now and then, and as soon as a hint tells of the end of a run, the store is asked,
 * because another process may have ended the run or given the command away.
 */
import { type ClaimPolicy, hardTimeoutMs } from '../machines/command/claim.ts';
import { instantOf, isoOf } from '../machines/command/instant.ts';
import type { Clock, CommandRow, Store, StoredHold } from './ports.ts';
import { Recent } from './recent.ts';
import type { Hold, StopOrder } from './services.ts';

export interface HoldsParts {
  readonly store: Pick<Store, 'command' | 'execution' | 'holds' | 'touch'>;
  readonly clock: Clock;
  readonly policy: ClaimPolicy;
  /** A worker hears within this time that its command was ended, whatever became of the hints. */
  readonly cancelCheckSeconds: number;
}

/** `heartbeat_at` of a held command is written at most this often, or three times in a hard time-out that is shorter. */
const TOUCH_EVERY_MS = 10_000;
const TOUCHES_PER_TIMEOUT = 3;
/** Commands whose end another process wrote are forgotten when there is no room. What is forgotten is asked of the store. */
const HELD_MAX = 100_000;
const ENDED_MAX = 10_000;

interface Held {
  readonly executionId: number;
  readonly attempt: number;
  readonly workerId: string;
  touchedAt: number;
  /** When it was granted, or the store said last that it is held. */
  seenAt: number;
}

export class Holds {
  readonly #parts: HoldsParts;
  readonly #touchEveryMs: number;
  /** By command. */
  readonly #held = new Recent<number, Held>({ countMax: HELD_MAX, sizeMax: HELD_MAX });
  /** Executions that another process has ended lately. */
  readonly #ended = new Recent<number, true>({ countMax: ENDED_MAX, sizeMax: ENDED_MAX });
  /** Who waits while working on something of an execution. */
  readonly #watches = new Map<number, Set<() => void>>();

  constructor(parts: HoldsParts) {
    this.#parts = parts;
    this.#touchEveryMs = Math.min(TOUCH_EVERY_MS, hardTimeoutMs(parts.policy) / TOUCHES_PER_TIMEOUT);
  }

  /** The worker has just been told that it has this command. */
  granted({ commandId, executionId, attempt, workerId }: CommandRow, touchedAt: number): void {
    const seenAt = this.#parts.clock.now();
    this.#held.put(commandId, { executionId, attempt, workerId: workerId ?? '', touchedAt, seenAt }, 1);
  }

  /** The command is closed, or nobody's work any more. The worker that had it, if that is known here. */
  closed(commandId: number): string | null {
    const held = this.#held.get(commandId);
    this.#held.delete(commandId);
    return held?.workerId ?? null;
  }

  /** Another claim of it is known here. */
  isOutdated({ commandId, attempt }: CommandRow): boolean {
    const held = this.#held.get(commandId);
    return held !== undefined && held.attempt !== attempt;
  }

  executionOf(commandId: number): number | null {
    return this.#held.get(commandId)?.executionId ?? null;
  }

  /** Another process has ended the run: whoever works on something of it is to be told with the next answer. */
  endedElsewhere(executionId: number): void {
    this.#ended.put(executionId, true, 1);
    for (const wake of [...(this.#watches.get(executionId) ?? [])]) wake();
  }

  /** Whether a run that one of these belongs to was ended elsewhere. */
  isDoubtful(holding: readonly Hold[]): boolean {
    return holding.some(({ commandId }) => this.#ended.get(this.executionOf(commandId) ?? 0) === true);
  }

  /** Calls `wake` when a run is ended elsewhere that one of these belongs to, until the answer is called. */
  watch(holding: readonly Hold[], wake: () => void): () => void {
    const watched = new Set<number>();
    for (const { commandId } of holding) {
      const executionId = this.executionOf(commandId);
      if (executionId !== null) watched.add(executionId);
    }
    for (const executionId of watched) {
      const wakes = this.#watches.get(executionId) ?? new Set();
      this.#watches.set(executionId, wakes.add(wake));
    }
    return () => {
      for (const executionId of watched) {
        const wakes = this.#watches.get(executionId);
        wakes?.delete(wake);
        if (wakes?.size === 0) this.#watches.delete(executionId);
      }
    };
  }

  /**
   * Orders for what the worker has no longer; what it has is refreshed. At most three statements and one per order. `isSure`:
   * as the store has it now, whatever memory says.
   */
  async stopOrders(worker: string, holding: readonly Hold[], isSure = false): Promise<readonly StopOrder[]> {
    const { store, clock } = this.#parts;
    const now = clock.now();
    const stops: StopOrder[] = [];
    if (isSure || holding.some((hold) => !this.#isCertain(worker, hold, now))) {
      // All of them, so that they come due together again: one question for each worker and check.
      const stored = await store.holds(holding.map((hold) => hold.commandId));
      for (const hold of holding) {
        const found = stored.get(hold.commandId);
        if (found !== undefined && isTheirs(found, worker, hold)) {
          this.#confirm(worker, hold, found, now);
          continue;
        }
        this.#held.delete(hold.commandId);
        const reason = await this.#stopReason(worker, hold);
        if (reason !== null) stops.push({ ...hold, reason });
      }
    }
    await this.#touch(holding, now);
    return stops;
  }

  #isCertain(worker: string, hold: Hold, now: number): boolean {
    const held = this.#held.get(hold.commandId);
    if (held === undefined || held.attempt !== hold.attempt || held.workerId !== worker) return false;
    return (
      now - held.seenAt < (this.#parts.cancelCheckSeconds * 1000) / 2 && this.#ended.get(held.executionId) === undefined
    );
  }

  #confirm(worker: string, hold: Hold, found: StoredHold, now: number): void {
    const known = this.#held.get(hold.commandId);
    const { executionId, attempt } = found;
    const touchedAt =
      known?.touchedAt ?? (found.heartbeatAt === null ? Number.NEGATIVE_INFINITY : instantOf(found.heartbeatAt));
    this.#held.put(hold.commandId, { executionId, attempt, workerId: worker, touchedAt, seenAt: now }, 1);
  }

  async #touch(holding: readonly Hold[], now: number): Promise<void> {
    const nextWakeAt = isoOf(now + this.#parts.policy.leaseSeconds * 1000);
    const touches: Parameters<Store['touch']>[0][number][] = [];
    for (const hold of holding) {
      const held = this.#held.get(hold.commandId);
      if (held === undefined || held.attempt !== hold.attempt || now - held.touchedAt < this.#touchEveryMs) continue;
      held.touchedAt = now;
      touches.push({ ...hold, executionId: held.executionId, nextWakeAt });
    }
    if (touches.length > 0) await this.#parts.store.touch(touches);
  }

  async #stopReason(worker: string, hold: Hold): Promise<StopOrder['reason'] | null> {
    const { store } = this.#parts;
    const row = await store.command(hold.commandId);
    if (row === null) return 'unknown';
    if (row.completedAt !== null) {
      const execution = await store.execution(row.executionId);
      return execution?.status === 'cancelled' ? 'execution_cancelled' : 'execution_finished';
    }
    return isTheirs(row, worker, hold) ? null : 'stale';
  }
}

function isTheirs(found: StoredHold, worker: string, { attempt }: Hold): boolean {
  return found.attempt === attempt && found.workerId === worker;
}
