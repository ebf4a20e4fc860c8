/**
 * The command reaper (api 4.7): announces again what was forgotten. It reads command rows and never the log, changes no
 * status and claims nothing; who gets a command is decided by its claim. One process sweeps at a time, under a lease whose
 * token every page proves in its own transaction.
 *
 * A sweep that comes back full is followed by the next at once: at one full sweep an interval, 10,000 stranded commands would
 * wait for more than an hour and a half.
 */
import type { ClaimHolder } from '../machines/command/claim.ts';
import { isoOf } from '../machines/command/instant.ts';
import { judgeCommand, type RepublishReason, type SweepPolicy, type SweptCommand } from '../machines/command/sweep.ts';
import { DomainError } from './errors.ts';
import { type Fence, type Lease, LeaseLostError, type LeaseRow, type Leases } from './lease.ts';
import { createPeriodic, type Periodic } from './periodic.ts';
import { type Clock, type CommandHint, type Log, type Meter, NO_TRACER, type Span, type Tracer } from './ports.ts';

export interface SweptRow {
  readonly command: SweptCommand;
  readonly hint: CommandHint;
  /** The worker the row names; null when it is not registered. */
  readonly holder: ClaimHolder | null;
}

/** What a page writes for one command. */
export interface Stamp {
  readonly hint: CommandHint;
  readonly nextWakeAt: string;
}

export interface SweepStore {
  /**
   * One page in one transaction: proves the lease, picks at most `limit` rows that look forgotten (held ones before
   * unclaimed, oldest first, none that somebody else has locked), lets `judge` choose by the database's time, and stamps
   * the chosen ones as announced. Answers how many rows were looked at. Throws LeaseLostError with nothing written.
   */
  page(
    fence: Fence,
    policy: SweepPolicy,
    limit: number,
    judge: (rows: readonly SweptRow[], now: number) => readonly Stamp[],
  ): Promise<number>;
}

export interface SweepReport {
  /** End of the sweep, ISO 8601 UTC. */
  readonly sweptAt: string;
  readonly republished: number;
  readonly orphanedActive: number;
  readonly strandedPending: number;
  readonly byReason: Readonly<Partial<Record<RepublishReason, number>>>;
  readonly errors: number;
}

export interface ReaperSettings extends SweepPolicy {
  readonly enabled: boolean;
  readonly intervalSeconds: number;
  readonly maxPerRun: number;
}

export interface ReaperParts {
  readonly store: SweepStore;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  readonly tracer?: Tracer | undefined;
  readonly settings: ReaperSettings;
  /** Tells workers of this process and the others; after the commit. */
  announce(hints: readonly CommandHint[]): void;
  /** Asks the process that holds the lease. */
  askHolder(): void;
}

export type SweepAnswer =
  | { readonly status: 'ok'; readonly report: SweepReport; readonly lease: Fence }
  | { readonly status: 'accepted'; readonly lease: LeaseRow };

export interface ReaperStatus {
  readonly settings: ReaperSettings;
  /** Newest first, of this process. */
  readonly sweeps: readonly SweepReport[];
  readonly nextDueAt: string | null;
}

export const REAPER_LEASE = 'command_reaper';
const PAGE = 100;
const REMEMBERED = 10;

export class Reaper {
  readonly #parts: ReaperParts;
  readonly #periodic: Periodic;
  #sweeps: SweepReport[] = [];
  #sweeping: Promise<unknown> = Promise.resolve();

  constructor(parts: ReaperParts) {
    this.#parts = parts;
    const intervalMs = parts.settings.intervalSeconds * 1000;
    this.#periodic = createPeriodic({
      name: REAPER_LEASE,
      log: parts.log,
      firstMs: intervalMs,
      retryMs: intervalMs,
      run: () => this.#tick(),
    });
  }

  start(): void {
    if (this.#parts.settings.enabled) this.#periodic.start();
  }

  stop(): Promise<void> {
    return this.#periodic.stop();
  }

  /** A sweep now, here if this process has or gets the lease, else by asking the one that holds it. */
  async sweepNow(max: number | null = null): Promise<SweepAnswer> {
    const { leases, askHolder } = this.#parts;
    const { lease, row } = await leases.ask(REAPER_LEASE);
    if (lease !== null) {
      const report = await this.sweep(lease, max ?? this.#parts.settings.maxPerRun);
      return { status: 'ok', report, lease };
    }
    if (row === null) throw new DomainError('shutting_down', 'The server is shutting down');
    askHolder();
    return { status: 'accepted', lease: row };
  }

  /** Somebody asked the holder for a sweep. */
  async onAsked(): Promise<void> {
    const lease = await this.#parts.leases.acquire(REAPER_LEASE);
    if (lease !== null) await this.sweep(lease, this.#parts.settings.maxPerRun);
  }

  /** Sweeps until nothing is left that looks forgotten. `max`: rows announced before workers are told of them. */
  sweep(lease: Lease, max: number): Promise<SweepReport> {
    // Two sweeps of one process follow each other: the second finds what the first has left.
    const swept = this.#sweeping.then(() => this.#sweep(lease, max));
    this.#sweeping = swept.catch(() => {});
    return swept;
  }

  status(): ReaperStatus {
    const due = this.#periodic.dueInMs();
    return {
      settings: this.#parts.settings,
      sweeps: this.#sweeps,
      nextDueAt: due === null ? null : isoOf(Math.round(this.#parts.clock.now() + due)),
    };
  }

  async #tick(): Promise<number> {
    const { leases, meter, settings } = this.#parts;
    const lease = await leases.acquire(REAPER_LEASE);
    if (lease === null) meter.count('svc_command_reaper_sweeps_total', { outcome: 'not_holder' });
    else await this.sweep(lease, settings.maxPerRun);
    return settings.intervalSeconds * 1000;
  }

  async #sweep(lease: Lease, max: number): Promise<SweepReport> {
    const { clock, log, meter, leases, tracer = NO_TRACER } = this.#parts;
    const startMs = tracer.now();
    const byReason: Partial<Record<RepublishReason, number>> = {};
    let errors = 0;
    let outcome = 'ok';
    try {
      for (let isFull = true; isFull && lease.isHeld(); ) isFull = await this.#run(lease, max, byReason);
    } catch (error) {
      if (!(error instanceof LeaseLostError)) throw error;
      // Whoever has the lease now sweeps; what was announced so far stays announced.
      leases.lost(lease.name);
      errors = 1;
      outcome = 'lease_lost';
    }
    const strandedPending = byReason.pending_too_long ?? 0;
    const republished = Object.values(byReason).reduce((sum, count) => sum + count, 0);
    const report: SweepReport = {
      sweptAt: isoOf(clock.now()),
      republished,
      orphanedActive: republished - strandedPending,
      strandedPending,
      byReason,
      errors,
    };
    this.#sweeps = [report, ...this.#sweeps].slice(0, REMEMBERED);
    meter.count('svc_command_reaper_sweeps_total', { outcome });
    meter.gauge('svc_command_reaper_last_sweep_timestamp_seconds', clock.now() / 1000);
    const traceId = tracer.newTraceId();
    if (tracer.isSampled(traceId)) tracer.record(sweepSpan(tracer, traceId, startMs, report));
    if (republished > 0) log.warn('Forgotten commands were announced again', { count: republished, ...byReason });
    return report;
  }

  /** At most `max` rows, in pages. True when there may be more. */
  async #run(fence: Fence, max: number, byReason: Partial<Record<RepublishReason, number>>): Promise<boolean> {
    const { store, settings, announce, meter } = this.#parts;
    for (let left = max; left > 0; ) {
      const limit = Math.min(PAGE, left);
      let chosen: readonly { hint: CommandHint; reason: RepublishReason; nextWakeAt: number }[] = [];
      const looked = await store.page(fence, settings, limit, (rows, now) => {
        chosen = rows.flatMap(({ command, hint, holder }) => {
          const judged = judgeCommand(command, holder, now, settings);
          return judged.verdict === 'leave' ? [] : [{ hint, reason: judged.reason, nextWakeAt: judged.nextWakeAt }];
        });
        return chosen.map(({ hint, nextWakeAt }) => ({ hint, nextWakeAt: isoOf(nextWakeAt) }));
      });
      for (const { reason } of chosen) {
        byReason[reason] = (byReason[reason] ?? 0) + 1;
        meter.count('svc_command_reaper_republished_total', { because: reason });
      }
      announce(chosen.map(({ hint }) => hint));
      // A page whose rows are all left alone would come back the same for ever.
      if (looked < limit || chosen.length === 0) return false;
      left -= looked;
    }
    return true;
  }
}

function sweepSpan(tracer: Tracer, traceId: string, startMs: number, report: SweepReport): Span {
  return {
    name: 'reaper.sweep',
    traceId,
    spanId: tracer.newSpanId(),
    parentSpanId: null,
    startMs,
    endMs: tracer.now(),
    attributes: { 'callboard.republished': report.republished, 'callboard.errors': report.errors },
    failed: report.errors > 0,
  };
}
