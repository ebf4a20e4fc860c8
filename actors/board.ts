/**
 * The call board of one process: commands that may be claimed, and workers that wait for one. Both sides are hints. What
 * decides is the command's row and the claim; a hint that turns out wrong is dropped, one that is missed comes back
 * with the catch-up poll or a sweep.
 */
import type { CommandHint, CommandRow } from './ports.ts';
import type { GrantedCommand } from './services.ts';

/** Somebody who wants commands: a long poll, a plain claim, or an exchange whose reports are being handled. */
export interface Claimant {
  readonly workerId: string;
  readonly pools: readonly string[];
  /** Null: any kind. */
  readonly toolKinds: ReadonlySet<string> | null;
  readonly claimId: string | null;
  readonly max: number;
  /** Room that is not taken by a grant, committed or under way. */
  room: number;
  /** Grants that are committed. */
  readonly granted: GrantedCommand[];
  /** Told after a commit that granted something. */
  onGranted(): void;
  isClosed: boolean;
}

const BACKLOG_MAX = 100_000;

export class CommandBoard {
  readonly #waiting = new Set<Claimant>();
  /** By pool, then by priority (highest first), then by age. */
  readonly #backlog = new Map<string, Map<number, CommandHint>[]>();
  readonly #priorities = new Map<string, number[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Pools something is on the board for. */
  get pools(): number {
    return this.#backlog.size;
  }

  get waiters(): number {
    return this.#waiting.size;
  }

  /** Pools somebody waits for. */
  waitedPools(): readonly string[] {
    return [...new Set([...this.#waiting].flatMap((claimant) => claimant.pools))];
  }

  wait(claimant: Claimant): void {
    this.#waiting.add(claimant);
  }

  leave(claimant: Claimant): void {
    this.#waiting.delete(claimant);
  }

  /** The first waiter that can take this command, taken off the board. */
  takeWaiter(command: Pick<CommandRow, 'pool' | 'toolKind'>): Claimant | null {
    for (const claimant of this.#waiting) {
      if (!suits(claimant, command)) continue;
      this.#waiting.delete(claimant);
      return claimant;
    }
    return null;
  }

  /** Waiters for whom something is on the board, taken off it. */
  takeServable(): readonly Claimant[] {
    const servable = [...this.#waiting].filter((claimant) => this.has(claimant));
    for (const claimant of servable) this.#waiting.delete(claimant);
    return servable;
  }

  post(hint: CommandHint): void {
    if (this.#size >= BACKLOG_MAX) return;
    const priorities = this.#priorities.get(hint.pool) ?? [];
    const buckets = this.#backlog.get(hint.pool) ?? [];
    let at = priorities.findIndex((priority) => priority <= hint.priority);
    if (at < 0) at = priorities.length;
    if (priorities[at] !== hint.priority) {
      priorities.splice(at, 0, hint.priority);
      buckets.splice(at, 0, new Map());
    }
    this.#priorities.set(hint.pool, priorities);
    this.#backlog.set(hint.pool, buckets);
    const bucket = buckets[at];
    const known = bucket?.get(hint.commandId);
    if (bucket === undefined || (known !== undefined && !isNewer(hint, known))) return;
    // It keeps its place.
    bucket.set(hint.commandId, hint);
    if (known === undefined) this.#size += 1;
  }

  /** The next hints this claimant could take, best first; they stay on the board. */
  peek(claimant: Claimant, count: number): readonly CommandHint[] {
    const seen: CommandHint[] = [];
    for (const hint of this.#hintsOf(claimant.pools)) {
      if (seen.length >= count) break;
      if (claimant.toolKinds === null || claimant.toolKinds.has(hint.toolKind)) seen.push(hint);
    }
    return seen;
  }

  /** Drops these, unless something newer is known of a command by now. */
  forget(hints: readonly CommandHint[]): void {
    for (const hint of hints) {
      if (this.#backlog.get(hint.pool)?.some((bucket) => bucket.get(hint.commandId) === hint)) this.drop(hint);
    }
  }

  /**
   * Takes up to `claimant.room` hints off the board, best first. While others wait, one execution gets at most half of
   * what is asked for.
   */
  take(claimant: Claimant): readonly CommandHint[] {
    const taken: CommandHint[] = [];
    const perExecution = new Map<number, number>();
    const share = Math.max(1, Math.ceil(claimant.max / 2));
    const passedOver: CommandHint[] = [];
    for (const hint of this.#hintsOf(claimant.pools)) {
      if (taken.length >= claimant.room) break;
      if (claimant.toolKinds !== null && !claimant.toolKinds.has(hint.toolKind)) continue;
      const count = perExecution.get(hint.executionId) ?? 0;
      if (count >= share) {
        passedOver.push(hint);
        continue;
      }
      perExecution.set(hint.executionId, count + 1);
      taken.push(hint);
    }
    // Nobody else wants the room that is left.
    taken.push(...passedOver.slice(0, Math.max(0, claimant.room - taken.length)));
    for (const hint of taken) this.drop(hint);
    return taken;
  }

  *#hintsOf(pools: readonly string[]): Iterable<CommandHint> {
    for (const bucket of this.#bucketsOf(pools)) yield* bucket.values();
  }

  /** Of these pools together, highest priority first. */
  #bucketsOf(pools: readonly string[]): readonly Map<number, CommandHint>[] {
    const [only] = pools;
    if (pools.length === 1 && only !== undefined) return this.#backlog.get(only) ?? [];
    const ranked = pools.flatMap((pool) => {
      const priorities = this.#priorities.get(pool) ?? [];
      return (this.#backlog.get(pool) ?? []).map((bucket, index) => ({ bucket, priority: priorities[index] ?? 0 }));
    });
    return ranked.sort((a, b) => b.priority - a.priority).map(({ bucket }) => bucket);
  }

  /** Whether anything here could be for this claimant. */
  has(claimant: Claimant): boolean {
    return claimant.pools.some((pool) => this.#backlog.get(pool)?.some((bucket) => bucket.size > 0) === true);
  }

  drop(hint: Pick<CommandHint, 'pool' | 'commandId'>): void {
    const buckets = this.#backlog.get(hint.pool) ?? [];
    const priorities = this.#priorities.get(hint.pool) ?? [];
    for (let at = buckets.length - 1; at >= 0; at -= 1) {
      const bucket = buckets[at];
      if (bucket?.delete(hint.commandId) !== true) continue;
      this.#size -= 1;
      if (bucket.size > 0) continue;
      // Names of pools and priorities come from outside: one without hints is forgotten.
      buckets.splice(at, 1);
      priorities.splice(at, 1);
    }
    if (buckets.length > 0) return;
    this.#backlog.delete(hint.pool);
    this.#priorities.delete(hint.pool);
  }
}

/** Of two hints of one command: what an announcement alone knows, that it is to be tried or told again, is not in the row. */
function isNewer(hint: CommandHint, known: CommandHint): boolean {
  return hint.attempt > known.attempt || hint.retry === true || hint.again === true;
}

export function suits(claimant: Claimant, command: Pick<CommandRow, 'pool' | 'toolKind'>): boolean {
  return (
    !claimant.isClosed &&
    claimant.room > 0 &&
    claimant.pools.includes(command.pool) &&
    (claimant.toolKinds === null || claimant.toolKinds.has(command.toolKind))
  );
}
