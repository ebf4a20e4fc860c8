/**
 * What keeps work moving when a hint was lost or a process died: the catch-up look at the store for pools somebody waits for,
 * the sweep over commands whose time has come, inboxes and parked waits left by a crash (api 4.7 to 4.10, 5.3).
 *
 * Idle, it makes a handful of queries a minute; it never changes a status and never claims.
 */
import { isoOf } from '../machines/command/instant.ts';
import type { LogEvent } from '../machines/events.ts';
import type { CommandBoard } from './board.ts';
import type { Children } from './children.ts';
import type { Flusher } from './flush.ts';
import type { Bus, Clock, CommandHint, Log, Meter, Store } from './ports.ts';
import type { Supervisor } from './supervisor.ts';

export interface RecoveryParts {
  readonly store: Store;
  readonly board: CommandBoard;
  readonly flusher: Flusher;
  readonly supervisor: Supervisor;
  readonly children: Children;
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  readonly pendingRetrySeconds: number;
}

const PAGE = 1000;
const SWEEP_EVERY_MS = 30_000;
const POLL_MIN_MS = 5_000;
const POLL_DEGRADED_MS = 250;
const POLL_MAX_MS = 30_000;

export class Recovery {
  readonly #parts: RecoveryParts;
  /** Pools whose waiting commands are all on the board, as far as this process can tell. */
  readonly #looked = new Set<string>();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #pollMs = POLL_MIN_MS;
  #isStopped = false;

  constructor(parts: RecoveryParts) {
    this.#parts = parts;
  }

  /** Heals what a crash left behind, then keeps looking. */
  async start(): Promise<void> {
    await this.sweep();
    this.#every(
      () => SWEEP_EVERY_MS,
      () => this.sweep(),
    );
    this.#every(
      () => this.#pollMs,
      () => this.#poll(),
    );
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  /** The first claim for a pool looks at the store; later ones rely on hand-over, hints and the poll. */
  async catchUp(pools: readonly string[]): Promise<void> {
    const fresh = pools.filter((pool) => !this.#looked.has(pool));
    if (fresh.length === 0) return;
    for (const pool of fresh) this.#looked.add(pool);
    await this.#look(fresh);
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
    if (this.#parts.board.waitedPools().includes(pool)) await this.#look([pool]);
    else this.#looked.delete(pool);
  }

  /** Open commands of a worker that went silent or came back as another process. */
  async releaseWorker(name: string): Promise<void> {
    const hints = await this.#parts.store.heldBy(name);
    this.#announce(hints);
  }

  /** One look at everything whose time has come. */
  async sweep(): Promise<void> {
    const { store, board, children, log, meter, clock, pendingRetrySeconds } = this.#parts;
    const settled = await children.recover();
    if (settled > 0) log.warn('parked commands were settled by recovery', { count: settled });
    for (const executionId of await store.withInbox(PAGE)) await this.#drain(executionId);
    for (;;) {
      const hints = await store.overdue(PAGE);
      if (hints.length === 0) break;
      const nextWakeAt = isoOf(clock.now() + pendingRetrySeconds * 1000);
      await store.postpone(
        hints.map(({ executionId, commandId }) => ({ executionId, commandId, nextWakeAt, republished: true })),
      );
      meter.count('svc_command_reaper_republished_total', { because: 'overdue' }, hints.length);
      this.#announce(hints);
      if (hints.length < PAGE || board.size > PAGE * 10) break;
    }
  }

  async #drain(executionId: number): Promise<void> {
    const actor = await this.#parts.supervisor.actor(executionId);
    if (actor !== null) this.#parts.log.info('an inbox left by a crash was found', { execution_id: executionId });
  }

  /** Events that are in the log and that no turn has handled: each takes its turn now. */
  onInbox(executionId: number, events: readonly LogEvent[]): void {
    const { flusher, log } = this.#parts;
    void flusher
      .submit({
        executionId,
        apply: (actor) => {
          for (const event of events) if (event.eventId > actor.row.handledThrough) actor.take(event);
        },
      })
      .catch((error: unknown) =>
        log.warn('an inbox could not be drained', { execution_id: executionId, error: String(error) }),
      );
  }

  #announce(hints: readonly CommandHint[]): void {
    if (hints.length === 0) return;
    this.onHint(hints);
    publishHints(this.#parts.bus, hints);
  }

  async #look(pools: readonly string[]): Promise<number> {
    const hints = await this.#parts.store.pending(pools, PAGE);
    this.onHint(hints);
    return hints.length;
  }

  /** While somebody waits: often when the bus is not to be trusted, rarely when it is. */
  async #poll(): Promise<void> {
    const { board, bus } = this.#parts;
    const pools = board.waitedPools();
    const base = bus.state() === 'ok' ? POLL_MIN_MS : POLL_DEGRADED_MS;
    if (pools.length === 0) {
      this.#pollMs = POLL_MAX_MS;
      return;
    }
    const found = await this.#look(pools);
    this.#pollMs = found > 0 ? base : Math.min(POLL_MAX_MS, Math.max(base, this.#pollMs * 2));
  }

  #every(delay: () => number, work: () => Promise<void>): void {
    if (this.#isStopped) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work()
        .catch((error: unknown) =>
          this.#parts.log.warn('recovery will look again', {
            error: error instanceof Error ? error.message : String(error),
          }),
        )
        .finally(() => this.#every(delay, work));
    }, delay());
    timer.unref?.();
    this.#timers.add(timer);
  }
}

export function publishHints(bus: Bus, hints: readonly CommandHint[]): void {
  const byPool = Map.groupBy(hints, (hint) => hint.pool);
  for (const [pool, list] of byPool) {
    bus.publish(
      `commands.${pool}`,
      list.map((hint) => ({
        execution_id: hint.executionId,
        command_id: hint.commandId,
        event_id: hint.commandId,
        pool: hint.pool,
        priority: hint.priority,
        tool_kind: hint.toolKind,
      })),
    );
  }
}
