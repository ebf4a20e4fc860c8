/**
 * What keeps work moving when a hint was lost or a process died (api 4.9, 5.3): the catch-up look at the store for pools
 * somebody waits for, inboxes left by a crash, and the announcing of commands that others have found. Who looks for those, and
 * when, is the business of the reaper and of reconciliation, which do it for all processes at once.
 *
 * It never changes a status and never claims. While nobody waits for work it asks nothing.
 */
import { isoOf } from '../machines/command/instant.ts';
import type { CommandBoard } from './board.ts';
import type { Children } from './children.ts';
import { messageOf } from './command-hint.ts';
import type { Flusher } from './flush.ts';
import type { Bus, Clock, CommandHint, Log, ParkedCommand, ParkedWait, Store } from './ports.ts';
import { Recent } from './recent.ts';
import type { Supervisor } from './supervisor.ts';

export interface RecoveryParts {
  readonly store: Store;
  readonly board: CommandBoard;
  readonly flusher: Flusher;
  readonly supervisor: Supervisor;
  readonly children: Children;
  /** What to do with a parked command whose wait is over. */
  wake(waits: readonly ParkedCommand[]): Promise<number>;
  /** A parked command whose wait ends soon. */
  expect(wait: ParkedWait): void;
  /** Ends children whose parent gave up the wait for them; answers how many. */
  endAbandoned(): Promise<number>;
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Log;
}

const PAGE = 1000;
/** Waits that end by then are kept in mind at a start and by reconciliation. */
const EXPECTED_SECONDS = 600;
/** A pool that had more than a page is looked at again when so little is left on the board. */
const LOW = 250;
/** Names of pools come from outside; one that is forgotten is looked at again. */
const POOLS_MAX = 1_000;
const POLL_MIN_MS = 5_000;
const POLL_DEGRADED_MS = 250;
const POLL_MAX_MS = 30_000;

export class Recovery {
  readonly #parts: RecoveryParts;
  /** Pools whose waiting commands are all on the board, as far as this process can tell. */
  readonly #looked = new Recent<string, true>({ countMax: POOLS_MAX, sizeMax: POOLS_MAX });
  /** Pools that have more than a page of them. */
  readonly #more = new Recent<string, true>({ countMax: POOLS_MAX, sizeMax: POOLS_MAX });
  #timer: ReturnType<typeof setTimeout> | null = null;
  #pollMs = POLL_MIN_MS;
  #isStopped = false;

  constructor(parts: RecoveryParts) {
    this.#parts = parts;
  }

  /** Heals what a crash left behind, then keeps looking. */
  async start(): Promise<void> {
    const { store, log } = this.#parts;
    const inboxes = await store.withInbox(PAGE);
    for (const executionId of inboxes) await this.drain(executionId);
    if (inboxes.length > 0) log.warn('Inboxes left by a crash were found', { count: inboxes.length });
    await this.settleParked();
    const abandoned = await this.#parts.endAbandoned();
    if (abandoned > 0) log.warn('Children nobody waits for were ended', { count: abandoned });
    this.onHint(await store.overdue(PAGE));
    this.#again();
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** The first claim for a pool looks at the store; later ones rely on hand-over, hints and the poll. */
  async catchUp(pools: readonly string[]): Promise<void> {
    const isLow = this.#parts.board.size < LOW;
    const wanted = pools.filter((pool) => !this.#looked.get(pool) || (isLow && this.#more.get(pool)));
    if (wanted.length === 0) return;
    for (const pool of wanted) this.#looked.put(pool, true, 1);
    await this.look(wanted);
  }

  /** What the store has for these pools comes onto the board. */
  async look(pools: readonly string[]): Promise<number> {
    const hints = await this.#parts.store.pending(pools, PAGE);
    for (const pool of pools) {
      if (hints.length < PAGE) this.#more.delete(pool);
      else this.#more.put(pool, true, 1);
    }
    this.onHint(hints);
    // What a worker holds that is known to be gone can be claimed as well.
    this.onHint(await this.#parts.store.overdue(PAGE));
    return hints.length;
  }

  /** A hint of another process: there may be something in this pool. */
  onHint(hints: readonly CommandHint[]): void {
    const { board, flusher } = this.#parts;
    for (const hint of hints) {
      board.post(hint);
      const claimant = board.takeWaiter(hint);
      if (claimant !== null) flusher.serve(claimant);
    }
  }

  /** Something is in the pool, nobody says what. */
  async onPoolHint(pool: string): Promise<void> {
    if (this.#parts.board.waitedPools().includes(pool)) await this.look([pool]);
    else this.#looked.delete(pool);
  }

  /**
   * Open commands of a worker that went silent or came back as another process. They are due from now on, so that whoever
   * looks next finds them too: a hint lives in memory, and this process may be the one that is about to end.
   */
  async releaseWorker(name: string): Promise<void> {
    const { store, clock } = this.#parts;
    const hints = await store.heldBy(name);
    const nextWakeAt = isoOf(clock.now());
    await store.postpone(
      hints.map(({ executionId, commandId }) => ({ executionId, commandId, nextWakeAt, republished: false })),
    );
    this.announce(hints);
  }

  /** Tells the workers of this process, and the other processes. */
  announce(hints: readonly CommandHint[]): void {
    if (hints.length === 0) return;
    this.onHint(hints);
    publishHints(this.#parts.bus, hints);
  }

  /** Parked commands whose child has ended, or whose time is over. Returns how many were settled. */
  async settleParked(): Promise<number> {
    const { store, children, wake, expect, clock } = this.#parts;
    const settled = await children.recover();
    const waits = await store.parkedUntil(EXPECTED_SECONDS, PAGE);
    const now = isoOf(clock.now());
    // Others that end soon are kept in mind: whoever parked them may be gone.
    for (const wait of waits) if (wait.nextWakeAt > now) expect(wait);
    return settled + (await wake(waits.filter((wait) => wait.nextWakeAt <= now)));
  }

  /** Brings an execution back from the log; what no turn has handled takes its turn then. */
  async drain(executionId: number): Promise<void> {
    const { supervisor, flusher, log } = this.#parts;
    // Rows may have come behind this process's back; a flush under way finds out by itself.
    if (supervisor.live(executionId)?.writing === null) supervisor.evict(executionId);
    try {
      await flusher.submit({ executionId, apply: () => {} });
    } catch (error) {
      // One that cannot be handled must not keep the others waiting; the next look finds it again.
      log.warn('An inbox could not be drained', { execution_id: executionId, error: textOf(error) });
    }
  }

  /** While somebody waits: often when the bus is not to be trusted, rarely when it is. */
  async #poll(): Promise<void> {
    const { board, bus } = this.#parts;
    const pools = board.waitedPools();
    const base = bus.state() === 'ok' ? POLL_MIN_MS : POLL_DEGRADED_MS;
    if (pools.length === 0) {
      // Nothing is asked, so looking whether somebody waits may happen at the quickest pace.
      this.#pollMs = base;
      return;
    }
    const found = await this.look(pools);
    this.#pollMs = found > 0 ? base : Math.min(POLL_MAX_MS, Math.max(base, this.#pollMs * 2));
  }

  #again(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#poll()
        .catch((error: unknown) => this.#parts.log.warn('The catch-up poll failed', { error: textOf(error) }))
        .finally(() => this.#again());
    }, this.#pollMs);
    this.#timer.unref?.();
  }
}

export function publishHints(bus: Bus, hints: readonly CommandHint[]): void {
  const byPool = Map.groupBy(hints, (hint) => hint.pool);
  for (const [pool, list] of byPool) {
    bus.publish(`commands.${pool}`, list.map(messageOf));
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
