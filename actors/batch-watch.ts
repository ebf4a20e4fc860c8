/**
 * Who waits for a batch hears of its states: at once on a hint, and else by one poll for all who wait. Nobody waiting,
 * nothing is asked.
 */
import type { BatchRow, BatchState, BatchStore } from './ports.ts';

type Listener = (row: BatchRow | 'unknown' | 'error') => void;

interface Follower {
  readonly onState: Listener;
  shown: BatchState | 'unknown' | null;
}

export class BatchWatch {
  readonly #store: Pick<BatchStore, 'find'>;
  readonly #pollMs: number;
  readonly #followers = new Map<number, Set<Follower>>();
  readonly #wanted = new Set<number>();
  readonly #ends = new Set<() => void>();
  #isLooking = false;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(store: Pick<BatchStore, 'find'>, pollSeconds: number) {
    this.#store = store;
    this.#pollMs = pollSeconds * 1000;
  }

  /** The present state first, then each new one; `error` for every look that fails. Returns the unsubscribe. */
  follow(requestId: number, onState: Listener): () => void {
    const follower: Follower = { onState, shown: null };
    const all = this.#followers.get(requestId) ?? new Set();
    this.#followers.set(requestId, all.add(follower));
    this.#look([requestId]);
    this.#arm();
    return () => {
      all.delete(follower);
      if (all.size === 0 && this.#followers.get(requestId) === all) this.#followers.delete(requestId);
      if (this.#followers.size === 0) this.stop();
    };
  }

  /** Something happened to these. */
  hint(requestId: number, state: string): void {
    if (this.#followers.has(requestId)) this.#look([requestId]);
    if (state === 'completed' || state === 'failed') for (const wake of [...this.#ends]) wake();
  }

  /** Resolves when some batch has ended, as far as this process hears, or after the time. */
  someEnd(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#ends.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#ends.add(wake);
    });
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      if (this.#followers.size === 0) return;
      this.#look([...this.#followers.keys()]);
      this.#arm();
    }, this.#pollMs);
  }

  /** One question at a time; what is asked for meanwhile is asked next. */
  #look(requestIds: readonly number[]): void {
    for (const requestId of requestIds) this.#wanted.add(requestId);
    if (this.#isLooking) return;
    this.#isLooking = true;
    // Whoever begins to wait in the same moment is part of the question.
    queueMicrotask(() => void this.#lookAll().finally(() => (this.#isLooking = false)));
  }

  async #lookAll(): Promise<void> {
    while (this.#wanted.size > 0) {
      const asked = [...this.#wanted];
      this.#wanted.clear();
      try {
        const rows = new Map((await this.#store.find(asked)).map((row) => [row.requestId, row]));
        for (const requestId of asked) this.#show(requestId, rows.get(requestId) ?? 'unknown');
      } catch {
        for (const requestId of asked) for (const { onState } of this.#followers.get(requestId) ?? []) onState('error');
      }
    }
  }

  #show(requestId: number, row: BatchRow | 'unknown'): void {
    const state = row === 'unknown' ? row : row.state;
    for (const follower of [...(this.#followers.get(requestId) ?? [])]) {
      if (follower.shown === state) continue;
      follower.shown = state;
      follower.onState(row);
    }
  }
}
