/**
 * Who works here (api 2.7, 4.6). Workers are rows of `core.runtime`, shared by all server processes; this process keeps
 * those it talks to in memory, so that a heartbeat costs nothing on the hot path: it is noted, and written in batches.
 *
 * Misbehaves when the database is away: nobody is set offline then, because silence cannot be told from deafness.
 */
import { instantOf, isoOf } from '../machines/command/instant.ts';
import { DomainError } from './errors.ts';
import type { Bus, Clock, Ids, Log, Meter } from './ports.ts';
import { Recent } from './recent.ts';
import type { Hold, Holder, Registration, StopOrder, WorkerRow, WorkerService } from './services.ts';

export interface WorkerFilter {
  readonly runtime?: string;
  readonly status?: string;
  readonly kind?: string;
  readonly pool?: string;
}

/** Rows of `core.runtime`. Instants are written by the database's clock unless they are given. */
export interface RuntimeStore {
  /** Inserts or renews by (kind, name). `restarted`: the row had another instance; its `registered_at` is new then. */
  save(registration: Registration, runtimeId: number): Promise<{ row: WorkerRow; restarted: boolean }>;
  /** By name; a worker pool before any other kind. */
  find(name: string): Promise<WorkerRow | null>;
  list(filter: WorkerFilter): Promise<readonly WorkerRow[]>;
  /** Null kind: all kinds. False when there is no such row. */
  setStatus(name: string, kind: string | null, status: string): Promise<boolean>;
  /** Moves heartbeats forward, never back; rows that are offline stay as they are. */
  beat(beats: readonly { name: string; at: string }[]): Promise<void>;
  /** Sets silent workers offline, except these names, and answers who that was. */
  expire(except: readonly string[]): Promise<readonly string[]>;
  /** Earliest moment at which a worker with open claims is overdue; null where nobody holds anything. */
  nextOverdueAt(): Promise<string | null>;
}

export interface WorkerHooks {
  /** Its open commands are to be announced at once. */
  onOffline(name: string): void;
  onRestart(name: string): void;
  /** What a worker is to stop of the commands it names; refreshes the others. */
  stopOrders(name: string, holds: readonly Hold[]): Promise<readonly StopOrder[]>;
  /** Whether this process is the one that looks for silent workers; if not, in how many milliseconds to ask again. */
  sweeper?(): Promise<{ readonly isMine: true } | { readonly isMine: false; readonly againInMs: number }>;
}

export interface WorkerServiceParts {
  readonly store: RuntimeStore;
  /** Other processes hear at once of who came, went or changed; without that they see it in a second. */
  readonly bus: Pick<Bus, 'publish' | 'subscribe'>;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly meter: Meter;
  /** Heartbeat age from which a worker counts as stale. */
  readonly staleSeconds: number;
  /** Longest pause between two looks for silent workers while claims are open. */
  readonly sweepIntervalSeconds: number;
}

interface Known {
  row: WorkerRow;
  /** When the row was read or written here. */
  refreshedAt: number;
  /** Last call of this worker to this process; 0: none. */
  seenAt: number;
  /** Heartbeat that is in the database for sure. */
  writtenAt: number;
  polls: number;
}

/** A row is believed for this long. */
const FRESH_MS = 1_000;
const WRITE_EVERY_MS = 250;
const WRITE_AT_LEAST_MS = 5_000;
const SWEEP_MIN_MS = 1_000;
const SWEEP_IDLE_MS = 60_000;
/** Who spoke just now may hold commands since: an idle sweep looks again after this. Below any reasonable silence. */
const SWEEP_SOON_MS = 2_000;
/** A worker this process has not heard of for so long is forgotten here. */
const FORGET_MS = 3_600_000;
const MISSING_MAX = 10_000;

export class Workers implements WorkerService {
  readonly #parts: WorkerServiceParts;
  readonly #known = new Map<string, Known>();
  /** Names looked up in vain, and when. Callers choose names, so there is an end to them. */
  readonly #missing = new Recent<string, number>({ countMax: MISSING_MAX, sizeMax: MISSING_MAX });
  #hooks: WorkerHooks = { onOffline: () => {}, onRestart: () => {}, stopOrders: async () => [] };
  readonly #unsubscribe: () => void;
  #timers: NodeJS.Timeout[] = [];
  #sweepSoon: () => void = () => {};
  #writing: Promise<void> = Promise.resolve();
  #isStarted = false;

  constructor(parts: WorkerServiceParts) {
    this.#parts = parts;
    this.#unsubscribe = parts.bus.subscribe((topic, hints) => {
      if (topic === 'workers') for (const { name } of hints) if (typeof name === 'string') this.#doubt(name);
    });
  }

  /** The command side is built after this one and told here. */
  connect(hooks: WorkerHooks): void {
    this.#hooks = hooks;
  }

  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#repeat(() => this.writeHeartbeats().then(() => WRITE_EVERY_MS), WRITE_EVERY_MS);
    this.#sweepSoon = this.#repeat(() => this.sweep(), SWEEP_MIN_MS);
  }

  async stop(): Promise<void> {
    this.#isStarted = false;
    this.#unsubscribe();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers = [];
    await this.writeHeartbeats(true).catch(() => {});
  }

  // ---------------------------------------------------------------- what workers say

  async register(registration: Registration): Promise<WorkerRow> {
    await this.#parts.ids.reserve(1);
    const { row, restarted } = await this.#parts.store.save(registration, this.#parts.ids.next());
    this.#remember(row);
    this.#tell(row.name);
    if (restarted) {
      this.#parts.log.info('A worker was started again.', { worker_id: row.name });
      this.#hooks.onRestart(row.name);
    }
    return row;
  }

  async heartbeat(
    name: string,
    options: { registration: Registration | null; status: string | null; commands: readonly Hold[] },
  ): Promise<{ recreated: boolean; runtimeId: number; stop: readonly StopOrder[] }> {
    const known = await this.look(name);
    if (known === null && options.registration === null) throw unknownWorker(name);
    const row = known ?? (await this.register({ ...(options.registration ?? unreachable()), name }));
    const status = statusOf(options.status) ?? (row.status === 'offline' ? 'ready' : row.status);
    if (status !== row.status) await this.#setStatus(row, status);
    this.seen(name);
    const stop = options.commands.length === 0 ? [] : await this.#hooks.stopOrders(name, options.commands);
    return { recreated: known === null, runtimeId: row.runtimeId, stop };
  }

  async deregister(name: string, kind: string | null): Promise<{ released: number }> {
    const row = await this.#parts.store.find(name);
    if (row === null || !(await this.#parts.store.setStatus(name, kind, 'offline'))) return { released: 0 };
    if (kind === null || kind === row.kind) this.#setOffline(name);
    this.#tell(name);
    this.#hooks.onOffline(name);
    return { released: row.openCommands };
  }

  seen(name: string): void {
    const known = this.#known.get(name);
    if (known === undefined) return;
    known.seenAt = this.#parts.clock.now();
    this.#sweepSoon();
  }

  /** Silence counts from the moment the poll is closed. */
  polling(name: string): { close(): void } {
    const known = this.#known.get(name);
    if (known === undefined) return { close: () => {} };
    known.polls += 1;
    let isOpen = true;
    return {
      close: () => {
        if (!isOpen) return;
        isOpen = false;
        known.polls -= 1;
        known.seenAt = this.#parts.clock.now();
        this.#sweepSoon();
      },
    };
  }

  // ---------------------------------------------------------------- what others ask

  async list(filter: WorkerFilter): Promise<readonly WorkerRow[]> {
    const rows = await this.#parts.store.list(filter);
    return rows.map((row) => ({ ...row, heartbeatAt: isoOf(this.#heartbeatAt(row)) }));
  }

  async find(name: string): Promise<WorkerRow | null> {
    const known = this.#known.get(name);
    const now = this.#parts.clock.now();
    return known !== undefined && now - known.refreshedAt < FRESH_MS ? known.row : this.look(name);
  }

  async look(name: string): Promise<WorkerRow | null> {
    const now = this.#parts.clock.now();
    const row = await this.#parts.store.find(name);
    if (row !== null) return this.#remember(row).row;
    this.#known.delete(name);
    this.#missing.put(name, now, 1);
    return null;
  }

  async holder(name: string): Promise<Holder | null> {
    const row = await this.find(name);
    return row === null ? null : this.#holderOf(row);
  }

  /** What memory knows for sure right now: a holder, null for nobody, undefined for "ask `holder`". */
  holderInMemory(name: string): Holder | null | undefined {
    const now = this.#parts.clock.now();
    const known = this.#known.get(name);
    if (known !== undefined) return now - known.refreshedAt < FRESH_MS ? this.#holderOf(known.row) : undefined;
    const missingSince = this.#missing.get(name);
    return missingSince !== undefined && now - missingSince < FRESH_MS ? null : undefined;
  }

  // ---------------------------------------------------------------- what happens by itself

  /** Writes heartbeats that are due: at most one per third of a worker's interval. */
  writeHeartbeats(all = false): Promise<void> {
    const written = this.#writing.then(() => this.#writeHeartbeats(all));
    this.#writing = written.catch(() => {});
    return written;
  }

  /** Sets silent workers offline; answers after how many milliseconds to look again. */
  async sweep(): Promise<number> {
    const { store, clock, log, meter, sweepIntervalSeconds } = this.#parts;
    // Whoever sweeps for all, each process has a memory of its own.
    this.#forget();
    const sweeper = await this.#hooks.sweeper?.();
    if (sweeper?.isMine === false) return Math.max(SWEEP_MIN_MS, sweeper.againInMs);
    for (const name of await store.expire(this.#audibleNames())) {
      this.#setOffline(name);
      log.info('A silent worker was set offline.', { worker_id: name });
      meter.count('svc_worker_offline_total');
      this.#tell(name);
      this.#hooks.onOffline(name);
    }
    const overdueAt = await store.nextOverdueAt();
    if (overdueAt === null) return SWEEP_IDLE_MS;
    return Math.min(sweepIntervalSeconds * 1000, Math.max(SWEEP_MIN_MS, instantOf(overdueAt) - clock.now()));
  }

  async #writeHeartbeats(all: boolean): Promise<void> {
    const now = this.#parts.clock.now();
    const due: { known: Known; at: number }[] = [];
    for (const known of this.#known.values()) {
      const at = known.polls > 0 ? now : known.seenAt;
      const pauseMs = all ? 0 : this.#pauseOf(known.row);
      if (known.row.status !== 'offline' && at > known.writtenAt && at - known.writtenAt >= pauseMs)
        due.push({ known, at });
    }
    if (due.length === 0) return;
    await this.#parts.store.beat(due.map(({ known, at }) => ({ name: known.row.name, at: isoOf(at) })));
    for (const { known, at } of due) known.writtenAt = Math.max(known.writtenAt, at);
  }

  async #setStatus(row: WorkerRow, status: string): Promise<void> {
    await this.#parts.store.setStatus(row.name, row.kind, status);
    const known = this.#known.get(row.name);
    if (known !== undefined) known.row = { ...known.row, status };
    this.#tell(row.name);
  }

  /** Before its commands are announced: whoever hears of those then judges by what is true. */
  #tell(name: string): void {
    this.#parts.bus.publish('workers', [{ name }]);
  }

  /** The next question is asked of the store. */
  #doubt(name: string): void {
    const known = this.#known.get(name);
    if (known !== undefined) known.refreshedAt = Number.NEGATIVE_INFINITY;
    this.#missing.delete(name);
  }

  #setOffline(name: string): void {
    const known = this.#known.get(name);
    if (known !== undefined) known.row = { ...known.row, status: 'offline' };
  }

  #remember(row: WorkerRow): Known {
    const now = this.#parts.clock.now();
    this.#missing.delete(row.name);
    const known = this.#known.get(row.name) ?? { row, refreshedAt: now, seenAt: 0, writtenAt: 0, polls: 0 };
    known.row = row;
    known.refreshedAt = now;
    known.writtenAt = Math.max(known.writtenAt, instantOf(row.heartbeatAt));
    this.#known.set(row.name, known);
    return known;
  }

  #holderOf(row: WorkerRow): Holder {
    return {
      name: row.name,
      status: row.status,
      registeredAt: instantOf(row.registeredAt),
      heartbeatAt: this.#heartbeatAt(row),
      offlineAfterSeconds: row.offlineAfterSeconds,
    };
  }

  #heartbeatAt(row: WorkerRow): number {
    const written = instantOf(row.heartbeatAt);
    const known = this.#known.get(row.name);
    if (known === undefined || known.row.runtimeId !== row.runtimeId) return written;
    return Math.max(written, known.seenAt, known.polls > 0 ? this.#parts.clock.now() : 0);
  }

  /** Two more of them fit before its silence counts, and nobody is called stale for a heartbeat that lies here. */
  #pauseOf({ heartbeatSeconds, offlineAfterSeconds }: WorkerRow): number {
    const patienceMs = Math.min(offlineAfterSeconds, this.#parts.staleSeconds) * 1000;
    return Math.max((heartbeatSeconds * 1000) / 3, Math.min(patienceMs / 3, WRITE_AT_LEAST_MS));
  }

  /** Workers this process hears, whatever the database knows of it yet. */
  #audibleNames(): string[] {
    const now = this.#parts.clock.now();
    return [...this.#known.values()]
      .filter(({ row }) => now - this.#heartbeatAt(row) < row.offlineAfterSeconds * 1000)
      .map(({ row }) => row.name);
  }

  #forget(): void {
    const before = this.#parts.clock.now() - FORGET_MS;
    for (const [name, known] of this.#known) {
      if (known.polls === 0 && Math.max(known.seenAt, known.refreshedAt) < before) this.#known.delete(name);
    }
  }

  /**
   * Runs `work` again and again, after the time it answers; failures are logged and tried again. Gives a function that
   * brings an idle pause to its end soon.
   */
  #repeat(work: () => Promise<number>, firstMs: number): () => void {
    let timer: NodeJS.Timeout | null = null;
    let isIdle = false;
    const again = (ms: number): void => {
      if (!this.#isStarted) return;
      isIdle = ms >= SWEEP_IDLE_MS;
      const next = setTimeout(() => {
        this.#timers = this.#timers.filter((each) => each !== next);
        isIdle = false;
        work().then(again, (error: unknown) => {
          this.#parts.log.warn('The registry of workers could not be kept up to date.', { error });
          again(SWEEP_MIN_MS);
        });
      }, ms);
      next.unref();
      this.#timers.push(next);
      timer = next;
    };
    again(firstMs);
    return () => {
      if (!isIdle || timer === null) return;
      clearTimeout(timer);
      this.#timers = this.#timers.filter((each) => each !== timer);
      again(SWEEP_SOON_MS);
    };
  }
}

function statusOf(status: string | null): string | null {
  const lower = status?.toLowerCase() ?? null;
  return lower === 'active' ? 'ready' : lower;
}

export function unknownWorker(name: string): DomainError {
  return new DomainError('unknown_worker', `Worker ${name} is not registered`, { status: 'unknown', name });
}

function unreachable(): never {
  throw new Error('a heartbeat without a row and without a registration was refused above');
}
