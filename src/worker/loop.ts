/**
 * The worker's side of the exchange (api 2.5.1), in two lanes. The poll lane keeps one long poll open while slots are
 * idle. The report lane sends whatever has ended as soon as its previous call is back, and takes successors in the same
 * answer, so that a busy worker lives from reports alone and never polls. Everything that may get lost is sent again
 * with the id it had: reports from the outbox, claims by their claim id.
 */
import { setImmediate as breathe, setTimeout as pause } from 'node:timers/promises';
import type { CallboardClient } from '../client/client.ts';
import { ApiError, isPassing } from '../client/errors.ts';
import type { Log } from '../log.ts';
import type { ExchangeAnswer, ExchangeBody, ReportBody } from '../wire/exchange.ts';
import type { RegisterBody } from '../wire/worker.ts';
import { Wake } from './wake.ts';
import { Work, type WorkOptions } from './work.ts';

export interface LoopOptions {
  readonly client: Pick<CallboardClient, 'exchange' | 'workerRegister' | 'workerDeregister'>;
  /** `name` and `instance` in it identify every call. */
  readonly registration: RegisterBody & { readonly instance: string };
  readonly concurrency: number;
  readonly heartbeatMs: number;
  readonly drainMs: number;
  readonly run: WorkOptions['run'];
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

interface Claim {
  readonly claim_id: string;
  readonly max: number;
}

interface Lane {
  /** Exchanges in a row that the server did not take. */
  lost: number;
}

const POLL_WAIT_MS = 20_000;
/** A poll that came back sooner without anything did not wait. */
const POLL_MIN_MS = 50;
const CLAIM_MAX = 256;
/** Of the report lane, at most. */
const PASSES_PER_BREATH = 32;
const BACKOFF_MS = 100;
const BACKOFF_MAX_MS = 3_000;
/** Time for the last reports and for saying goodbye. */
const FAREWELL_MS = 5_000;

export class WorkerLoop {
  /** Resolves when the server knows this worker for the first time. */
  readonly registered: Promise<void>;
  readonly #options: LoopOptions;
  readonly #work: Work;
  readonly #reportBell = new Wake();
  readonly #pollBell = new Wake();
  readonly #polling = new AbortController();
  readonly #ending = new AbortController();
  #lanes: Promise<unknown> = Promise.resolve();
  #registering: Promise<void> | null = null;
  #onRegistered: () => void = () => {};
  #claims = 0;
  /** Claims whose answer is still out; repeated with the same id until it is here. */
  #pollClaim: Claim | null = null;
  #reportClaim: Claim | null = null;
  #draining = false;
  /** The server must hear of a new status although there is nothing to report. */
  #toldDraining = false;
  #heldToldAt = Number.NEGATIVE_INFINITY;
  #passes = 0;
  #pollOpen = false;
  /** The next poll leaves right behind the reports: their claim leaves it the idle slots. */
  #pollsAgain = false;
  /** Reports per exchange; one at a time while a refused one is looked for. */
  #batchMax = CLAIM_MAX;

  constructor(options: LoopOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.registered = promise;
    this.#onRegistered = resolve;
    this.#work = new Work({
      concurrency: options.concurrency,
      run: options.run,
      log: options.log,
      now: options.now,
      onChange: () => {
        this.#reportBell.ring();
        this.#pollBell.ring();
      },
    });
  }

  start(): void {
    this.#lanes = Promise.all([this.#pollLane(), this.#reportLane()]);
  }

  /** Commands being worked on, and room for more. */
  slots(): { readonly busy: number; readonly free: number } {
    return this.#work.slots();
  }

  /** Takes nothing new, gives what runs its time, reports it, and leaves. Never throws; call it once. */
  async stop(): Promise<void> {
    this.#draining = true;
    this.#polling.abort();
    this.#pollBell.ring();
    this.#reportBell.ring();
    const { drainMs, now } = this.#options;
    await this.#until(() => this.#work.isEmpty, now() + drainMs);
    this.#work.stopAll('worker_stopped');
    await this.#until(() => this.#work.isEmpty && this.#work.outbox.size === 0, now() + FAREWELL_MS);
    this.#ending.abort();
    this.#reportBell.ring();
    await this.#lanes;
    await this.#deregister();
  }

  // ---------------------------------------------------------------- lanes

  async #pollLane(): Promise<void> {
    const lane: Lane = { lost: 0 };
    for (let failures = 0; !this.#draining; ) {
      const max = Math.min(CLAIM_MAX, this.#work.idle - (this.#reportClaim?.max ?? 0));
      if (this.#pollClaim === null && max < 1) {
        await this.#pollBell.heard();
        await afterReports();
        continue;
      }
      this.#pollClaim ??= this.#newClaim(max);
      this.#pollOpen = true;
      const body = { holding: this.#holding(), claim: { ...this.#pollClaim, wait_ms: POLL_WAIT_MS } };
      const askedAt = this.#options.now();
      const answer = await this.#exchange(lane, body, this.#polling.signal);
      this.#pollOpen = false;
      if (answer !== null) this.#pollClaim = null;
      // A server that drains answers at once, and would be asked without end.
      if (answer === null || (isEmpty(answer) && this.#options.now() - askedAt < POLL_MIN_MS)) {
        failures += 1;
        await this.#backoff(failures, this.#polling.signal);
        continue;
      }
      failures = 0;
      this.#apply(answer);
      this.#reportBell.ring();
      this.#pollsAgain = true;
      await afterReports();
      this.#pollsAgain = false;
    }
  }

  async #reportLane(): Promise<void> {
    const lane: Lane = { lost: 0 };
    for (let failures = 0; !this.#ending.signal.aborted; ) {
      await this.#reportBell.heard(this.#quietMs());
      // Commands that end in the same breath share a call; the last one has nothing to wait for. But however quick the
      // server answers, timers and everybody else get their turn.
      if (!this.#work.isEmpty || ++this.#passes % PASSES_PER_BREATH === 0) await breathe();
      if (this.#ending.signal.aborted) return;
      const reports = this.#work.outbox.due(this.#options.now(), this.#batchMax);
      if (reports.length === 0 && !this.#heartbeatDue()) continue;
      if (this.#draining) this.#reportClaim = null;
      else if (reports.length > 0) this.#reportClaim ??= this.#claimWithReports();
      const claim = reports.length > 0 ? this.#reportClaim : null;
      const draining = this.#draining;
      const answer = await this.#exchange(
        lane,
        { reports, holding: this.#holding(), claim },
        this.#ending.signal,
        reports,
      );
      if (answer === null) {
        failures += 1;
        await this.#backoff(failures, this.#ending.signal);
        this.#reportBell.ring();
        continue;
      }
      failures = 0;
      this.#toldDraining = draining;
      if (claim !== null) this.#reportClaim = null;
      this.#batchMax = Math.min(CLAIM_MAX, this.#batchMax * 2);
      this.#apply(answer);
      if (this.#work.outbox.dueAt() <= this.#options.now()) this.#reportBell.ring();
      this.#pollBell.ring();
    }
  }

  #claimWithReports(): Claim | null {
    const { appetite, idle } = this.#work;
    const polled = this.#pollClaim?.max ?? (this.#pollsAgain ? Math.max(0, Math.min(idle, appetite - 1)) : 0);
    const max = Math.min(CLAIM_MAX, appetite - polled);
    return max < 1 ? null : this.#newClaim(max);
  }

  #newClaim(max: number): Claim {
    this.#claims += 1;
    return { claim_id: `${this.#options.registration.instance}:${this.#claims.toString(36)}`, max };
  }

  #holding(): { command_id: number; attempt: number }[] {
    this.#heldToldAt = this.#options.now();
    return this.#work.holding();
  }

  #heartbeatDue(): boolean {
    return this.#options.now() >= this.#heartbeatAt();
  }

  /** An open poll of a worker that holds nothing says all there is to say; what it holds must be named again. */
  #heartbeatAt(): number {
    if (this.#draining && !this.#toldDraining) return Number.NEGATIVE_INFINITY;
    if (this.#work.isEmpty && this.#pollOpen) return Number.POSITIVE_INFINITY;
    return this.#heldToldAt + this.#options.heartbeatMs;
  }

  /** How long the report lane may sleep if nobody rings. */
  #quietMs(): number {
    return Math.max(0, Math.min(this.#heartbeatAt(), this.#work.outbox.dueAt()) - this.#options.now());
  }

  // ---------------------------------------------------------------- calls

  /** Null: no answer that counts; the same call is to be made again after a pause. Never throws. */
  async #exchange(
    lane: Lane,
    body: Pick<ExchangeBody, 'holding' | 'claim' | 'reports'>,
    signal: AbortSignal,
    reports: readonly ReportBody[] = [],
  ): Promise<ExchangeAnswer | null> {
    const { client, registration, log } = this.#options;
    try {
      await (this.#registering ?? this.#ensureRegistered());
      const status = this.#draining ? 'draining' : 'ready';
      const { name, instance } = registration;
      const answer = await client.exchange({ worker_id: name, instance, status, ...body }, { signal });
      if (lane.lost > 0) log.info('The server takes exchanges again.', { lost: lane.lost });
      lane.lost = 0;
      return answer;
    } catch (error) {
      if (signal.aborted) return null;
      if (isForgotten(error)) {
        log.warn('The server does not know this worker any more; it registers again.', { error });
        this.#registering = null;
      } else if (isUnreadable(error) && reports.length > 0) this.#refused(reports, error);
      else {
        lane.lost += 1;
        // Told less and less often while a server stays away.
        if (Number.isInteger(Math.log2(lane.lost)))
          log.warn('The server did not take an exchange; it is sent again.', { error, lost: lane.lost });
      }
      return null;
    }
  }

  /** A body the server cannot read: the reports are sent one by one until the culprit is found and replaced. */
  #refused(reports: readonly ReportBody[], error: unknown): void {
    const [only] = reports;
    if (reports.length === 1 && only !== undefined) {
      this.#work.refuse(only, error instanceof Error ? error.message : 'refused');
    } else this.#batchMax = 1;
  }

  #apply(answer: ExchangeAnswer): void {
    for (const verdict of answer.reports) this.#work.settle(verdict);
    for (const order of answer.stop) this.#work.obey(order);
    for (const command of answer.commands) this.#work.accept(command);
  }

  #ensureRegistered(): Promise<void> {
    const registering = this.#register();
    this.#registering = registering;
    // A failed registration must not be the one that everybody waits for.
    registering.catch(() => {
      if (this.#registering === registering) this.#registering = null;
    });
    return registering;
  }

  async #register(): Promise<void> {
    const { client, registration, log } = this.#options;
    const status = this.#draining ? 'draining' : 'ready';
    const answer = await client.workerRegister({ ...registration, status }, { signal: this.#ending.signal });
    log.info('The worker is registered.', { worker_id: answer.name, runtime_id: answer.runtime_id });
    this.#onRegistered();
  }

  async #deregister(): Promise<void> {
    const { client, registration, log } = this.#options;
    try {
      const { released } = await client.workerDeregister(
        { name: registration.name },
        { signal: AbortSignal.timeout(FAREWELL_MS) },
      );
      log.info('The worker has left.', { released });
    } catch (error) {
      log.warn('The server was not told that the worker left; it will find out.', { error });
    }
  }

  async #backoff(failures: number, signal: AbortSignal): Promise<void> {
    const ms = Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** Math.min(failures - 1, 10)) * (0.5 + Math.random() / 2);
    await pause(ms, undefined, { signal }).catch(() => {});
  }

  /** Waits for a condition that changes only when a report lane call or a command ends. */
  async #until(condition: () => boolean, deadline: number): Promise<void> {
    while (!condition() && this.#options.now() < deadline) await pause(20);
  }
}

/** Somebody waits for a report: what ends at once leaves before the next poll, and its claim may make that one needless. */
async function afterReports(): Promise<void> {
  await breathe();
  await breathe();
}

function isEmpty({ commands, stop }: ExchangeAnswer): boolean {
  return commands.length === 0 && stop.length === 0;
}

function isForgotten(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return error.code === 'unknown_worker' || error.code === 'worker_restarted' || error.code === 'worker_draining';
}

function isUnreadable(error: unknown): boolean {
  return error instanceof ApiError && !isPassing(error) && [400, 413, 422].includes(error.status);
}
