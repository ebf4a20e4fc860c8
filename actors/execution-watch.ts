/** Who waits for executions in this process, and tells them of commits here and of hints from elsewhere. */
import { type ExecutionServiceParts, executionRow } from './execution-parts.ts';
import type { ExecutionRow, ExecutionStatus } from './ports.ts';

/** `row` is there when this process made the change; a hint of another one has only the facts. */
export type Follower = (lastEventId: number, status: ExecutionStatus, row: ExecutionRow | null) => void;

/** Nothing depends on a hint: one that was lost keeps nobody waiting for longer. One look serves all who wait. */
const LOOK_EVERY_MS = 2_000;

export class ExecutionWatch {
  readonly #parts: Pick<ExecutionServiceParts, 'store' | 'supervisor'>;
  readonly #followers = new Map<number, Set<Follower>>();
  readonly #awaited = new Map<number, Set<(row: ExecutionRow) => void>>();
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(parts: Pick<ExecutionServiceParts, 'store' | 'supervisor'>) {
    this.#parts = parts;
  }

  async whenEnded(executionId: number, signal: AbortSignal): Promise<ExecutionRow> {
    const { store } = this.#parts;
    const { promise: ended, resolve: wake } = Promise.withResolvers<ExecutionRow | null>();
    const leave = this.follow(executionId, (_last, status, row) => {
      if (status !== 'running') wake(row);
    });
    const onAbort = () => wake(null);
    signal.addEventListener('abort', onAbort, { once: true });
    const unlook = this.#lookFor(executionId, wake);
    try {
      const known = await this.#committedRow(executionId);
      if (known.status !== 'running' || signal.aborted) return known;
      return (await ended) ?? (await store.execution(executionId)) ?? known;
    } finally {
      unlook();
      leave();
      signal.removeEventListener('abort', onAbort);
    }
  }

  follow(executionId: number, onChange: Follower): () => void {
    const followers = this.#followers.get(executionId) ?? new Set();
    this.#followers.set(executionId, followers);
    followers.add(onChange);
    return () => {
      followers.delete(onChange);
      // Whoever leaves twice must not take along those who came in between.
      if (followers.size === 0 && this.#followers.get(executionId) === followers) this.#followers.delete(executionId);
    };
  }

  /** After a commit of this process, or a hint of another one. */
  notify(executionId: number, lastEventId: number, status: ExecutionStatus, row: ExecutionRow | null = null): void {
    for (const follower of this.#followers.get(executionId) ?? []) follower(lastEventId, status, row);
  }

  #lookFor(executionId: number, onEnd: (row: ExecutionRow) => void): () => void {
    const all = this.#awaited.get(executionId) ?? new Set();
    this.#awaited.set(executionId, all.add(onEnd));
    this.#arm();
    return () => {
      all.delete(onEnd);
      if (all.size === 0 && this.#awaited.get(executionId) === all) this.#awaited.delete(executionId);
      if (this.#awaited.size === 0) this.#disarm();
    };
  }

  /** Nobody waiting, nothing is asked; a look takes as long as it takes, and then comes the pause. */
  #arm(): void {
    if (this.#timer !== null) return;
    const timer = setTimeout(() => {
      this.#parts.store
        .ended([...this.#awaited.keys()])
        .then((rows) => {
          for (const row of rows) for (const onEnd of this.#awaited.get(row.executionId) ?? []) onEnd(row);
        })
        // The store is away: the next look tells.
        .catch(() => {})
        .finally(() => {
          // All left meanwhile; who came since has a timer of his own.
          if (this.#timer !== timer) return;
          this.#timer = null;
          if (this.#awaited.size > 0) this.#arm();
        });
    }, LOOK_EVERY_MS);
    this.#timer = timer;
  }

  /** A timer that nobody needs would keep a process that is done. */
  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** From memory when the execution is live and no flush is writing it, else from the store. */
  async #committedRow(executionId: number): Promise<ExecutionRow> {
    const actor = this.#parts.supervisor.live(executionId);
    return actor !== null && actor.writing === null ? actor.row : executionRow(this.#parts.store, executionId);
  }
}
