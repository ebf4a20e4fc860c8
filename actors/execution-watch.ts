/** Who waits for executions in this process, and tells them of commits here and of hints from elsewhere. */
import { type ExecutionServiceParts, noSuchExecution } from './execution-parts.ts';
import type { ExecutionRow, ExecutionStatus } from './ports.ts';

/** `row` is there when this process made the change; a hint of another one has only the facts. */
export type Follower = (lastEventId: number, status: ExecutionStatus, row: ExecutionRow | null) => void;

/** Nothing depends on a hint: one that was lost keeps nobody waiting for longer. */
const LOOK_EVERY_MS = 2_000;

export class ExecutionWatch {
  readonly #parts: Pick<ExecutionServiceParts, 'store' | 'supervisor'>;
  readonly #followers = new Map<number, Set<Follower>>();

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
    const looks = setInterval(() => {
      store.execution(executionId).then(
        (row) => {
          if (row !== null && row.status !== 'running') wake(row);
        },
        // The store is away: the next look tells.
        () => {},
      );
    }, LOOK_EVERY_MS);
    try {
      const known = await this.#committedRow(executionId);
      if (known.status !== 'running' || signal.aborted) return known;
      return (await ended) ?? (await store.execution(executionId)) ?? known;
    } finally {
      clearInterval(looks);
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

  /** From memory when the execution is live and no flush is writing it, else from the store. */
  async #committedRow(executionId: number): Promise<ExecutionRow> {
    const actor = this.#parts.supervisor.live(executionId);
    return actor !== null && actor.writing === null ? actor.row : this.#row(executionId);
  }

  async #row(executionId: number): Promise<ExecutionRow> {
    const row = await this.#parts.store.execution(executionId);
    if (row === null) throw noSuchExecution(executionId);
    return row;
  }
}
