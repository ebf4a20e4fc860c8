/**
 * The commit loop of a process: finished work of many executions goes out in one transaction (architecture 6).
 *
 * Jobs queue while flushes are under way; a flush takes all that is ready, one turn after the other, hands new commands to
 * waiting workers, and is written with a constant number of statements. An execution is in one flush at a time, so two
 * flushes may overlap. When a commit fails, memory is ahead of the log: everything the flush touched is evicted and tried
 * again from the log, alone if it keeps failing, so that one poisoned execution never blocks its neighbours.
 */

import type { ClaimHolder, ClaimPolicy } from '../machines/command/claim.ts';
import { NeedPayload } from '../machines/playbook/values.ts';
import type { AuditRow } from './audit.ts';
import type { Claimant, CommandBoard } from './board.ts';
import { hintOf } from './command-hint.ts';
import { DomainError } from './errors.ts';
import { type ExecutionActor, isWritten, type Writing } from './execution-actor.ts';
import { FlushSpans } from './flush-spans.ts';
import { type Grant, Handover } from './handover.ts';
import { drainInbox } from './inbox.ts';
import { type Job, JobQueue, type Queued } from './job-queue.ts';
import { type Fence, LeaseLostError } from './lease.ts';
import {
  type Clock,
  type CommandHint,
  type CommitPhase,
  DuplicateKeyError,
  type Log,
  type Meter,
  RefusedWriteError,
  StaleError,
  type Store,
  type Tracer,
  UnavailableError,
} from './ports.ts';
import { flushOf, projectHead } from './project.ts';
import type { Supervisor } from './supervisor.ts';
import { commandTrace } from './traces.ts';

export interface FlusherParts {
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly board: CommandBoard;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  readonly tracer: Tracer;
  readonly policy: ClaimPolicy;
  readonly maxTurns: number;
  /** From the beginning of one flush to that of the next at least, in milliseconds; 0 for none. */
  readonly intervalMs: number;
  readonly mailboxMax: number;
  /** The worker that holds a command, as of now; reclaiming needs it. */
  holderOf(workerId: string): Promise<ClaimHolder | null>;
  /** Turns ask for ids synchronously. */
  reserveIds(count: number): Promise<void>;
  /** An event keeps failing its execution; it has to be ended (api 4.1). */
  onPoisoned(executionId: number, error: unknown): void;
  /** After a commit, once per execution that was written. */
  onCommitted(actor: ExecutionActor, writing: Writing): void;
  /** Commands left without a worker; announced on the bus. */
  onPending(hints: readonly CommandHint[]): void;
}

const FLUSHES_AT_ONCE = 2;
const TICK_MS = 1;
/** Room for one loop that goes out all at once; ordinary turns issue a command or two. */
const IDS_PER_FLUSH = 2_048;
const IDS_PER_TURN = 8;
const CLAIMANTS_PER_FLUSH = 64;
/** A conflict with another process is rare and is settled by reloading; this bounds a fault of ours. */
const TRIES_MAX = 8;
const DEFECT_TRIES = 3;
/** A turn asks for one result after the other; one that never has enough keeps pushing out what it had. */
const FETCHES_MAX = 1_000;

export class Flusher {
  readonly #parts: FlusherParts;
  readonly #jobs: JobQueue;
  readonly #handover: Handover;
  readonly #claimants = new Set<Claimant>();
  #underWay = 0;
  #isScheduled = false;
  #begunAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | null = null;
  readonly #idle: (() => void)[] = [];

  constructor(parts: FlusherParts) {
    const busy = new Set<number>();
    this.#parts = parts;
    this.#jobs = new JobQueue({ ...parts, busy, onReady: () => this.#schedule() });
    this.#handover = new Handover({
      ...parts,
      busy,
      submit: (job) => this.submit(job),
      serve: (claimant) => this.serve(claimant),
    });
  }

  /** Resolves after the commit. Rejects with the refusal, `queue_unavailable`, or UnavailableError (outcome unknown). */
  submit<T>(job: Job<T>): Promise<T> {
    return this.#jobs.submit(job);
  }

  /** Matches this claimant with what is on the board, in the next flush. */
  serve(claimant: Claimant): void {
    this.#claimants.add(claimant);
    this.#schedule();
  }

  /** Refuses new work and resolves when what was accepted is written. */
  async stop(): Promise<void> {
    this.#jobs.stop();
    if (this.#underWay > 0 || !this.#jobs.isEmpty) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // Requests that arrived together go out together.
    setImmediate(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    while (this.#underWay < FLUSHES_AT_ONCE && !this.#isTooEarly()) {
      const batch = this.#jobs.take();
      const claimants = this.#takeClaimants();
      if (batch.length === 0 && claimants.length === 0) break;
      this.#underWay += 1;
      // A pass that only matches claims mostly has nothing to write.
      if (batch.length > 0) this.#begunAt = performance.now();
      void this.#flush(batch, claimants).finally(() => {
        this.#underWay -= 1;
        this.#pump();
      });
    }
    if (this.#underWay === 0 && this.#jobs.isEmpty) for (const resolve of this.#idle.splice(0)) resolve();
  }

  /**
   * After a pause nothing waits; in a row of flushes what comes within the interval shares the next one. Timers know no
   * less than a millisecond, so less is not waited for where nothing is under way.
   */
  #isTooEarly(): boolean {
    const rest = this.#begunAt + this.#parts.intervalMs - performance.now();
    if (rest <= (this.#underWay === 0 ? TICK_MS : 0) || (this.#jobs.isEmpty && this.#claimants.size === 0))
      return false;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#pump();
    }, rest);
    return true;
  }

  #takeClaimants(): readonly Claimant[] {
    const taken: Claimant[] = [];
    for (const claimant of this.#claimants) {
      if (taken.length >= CLAIMANTS_PER_FLUSH) break;
      this.#claimants.delete(claimant);
      if (!claimant.isClosed) taken.push(claimant);
    }
    return taken;
  }

  async #flush(batch: readonly Queued[], served: readonly Claimant[]): Promise<void> {
    const { store, supervisor, board, log, meter, tracer } = this.#parts;
    const spans = tracer.isOn ? new FlushSpans(tracer) : null;
    const held = new Set(batch.map(({ job }) => job.executionId));
    const started = performance.now();
    const actors = new Map<number, ExecutionActor>();
    const grants: Grant[] = [];
    let done: readonly { readonly queued: Queued; readonly value: unknown }[] = [];
    const { taken: hints, passedOver } = this.#handover.take(served, held);
    try {
      const loaded = await supervisor.hydrateAll([
        ...batch.filter(({ job }) => job.create === undefined).map(({ job }) => job.executionId),
        ...[...hints].map(({ hint }) => hint.executionId),
      ]);
      const loadMs = performance.now() - started;
      const holds = await this.#handover.holdsOf(hints, loaded);
      let turns = batch.length;
      for (const executionId of held) turns += loaded.get(executionId)?.inbox.length ?? 0;
      await this.#parts.reserveIds(IDS_PER_FLUSH + IDS_PER_TURN * turns);
      const broken = new Set<number>();
      done = await this.#applyAll(batch, loaded, actors, broken, spans);
      this.#handover.putBack(hints, broken);
      this.#handover.grant(hints, holds, loaded, actors, grants);
      const reporting = batch.flatMap(({ job }) => job.claimant ?? []);
      this.#handover.offerNew(reporting, served, actors, grants);
      const written = [...actors.values()].filter((actor) => actor.writing !== null && isWritten(actor.writing));
      for (const actor of written) projectHead(actor);
      if (written.length > 0) {
        const phases: Partial<Record<CommitPhase, number>> = {};
        const measured = done.filter(({ queued }) => queued.job.measure !== undefined);
        const onPhase = (phase: CommitPhase, ms: number) => {
          phases[phase] = (phases[phase] ?? 0) + ms;
        };
        const flush = { ...flushOf(written), ...fencesOf(done), audits: auditsOf(done) };
        const committing = spans?.now() ?? 0;
        await store.commit(flush, measured.length === 0 ? undefined : onPhase);
        spans?.committed(written, committing, { jobs: batch.length, events: flush.events.length });
        const totalMs = performance.now() - started;
        for (const { queued } of measured)
          queued.job.measure?.({ waitMs: started - queued.since, totalMs, loadMs, phases });
        meter.observe('svc_flush_seconds', totalMs / 1000);
        meter.observe('svc_flush_turns', batch.length);
        if (grants.length > 0) meter.observe('svc_claim_seconds', totalMs / 1000);
      }
    } catch (error) {
      for (const executionId of held) supervisor.evict(executionId);
      for (const { claimant, hint } of [...grants, ...hints]) {
        claimant.room += 1;
        board.post(hint);
      }
      for (const claimant of new Set([...served, ...grants.map((grant) => grant.claimant)])) {
        // While the database is away they wait for a hint or the poll: asking at once would ask without end.
        if (error instanceof UnavailableError) claimant.onGranted();
        else this.#claimants.add(claimant);
      }
      this.#handover.released(held);
      this.#failed(batch, done, error);
      return;
    }
    this.#handover.released(held);
    this.#announce(actors, grants);
    for (const { queued, value } of done) this.#jobs.settle(queued, () => queued.resolve(value));
    for (const claimant of new Set([...served, ...grants.map((grant) => grant.claimant)])) {
      // There is something for whoever was passed over: told with nothing, a claim that does not wait would say that there is not.
      if (claimant.granted.length > 0 || !passedOver.has(claimant)) claimant.onGranted();
    }
    if (grants.length > 0) log.debug('commands were handed over', { count: grants.length });
  }

  /** Jobs in order. One that is refused, or whose execution is defective (`broken`), leaves the others alone. */
  async #applyAll(
    batch: readonly Queued[],
    loaded: ReadonlyMap<number, ExecutionActor>,
    actors: Map<number, ExecutionActor>,
    broken: Set<number>,
    spans: FlushSpans | null,
  ): Promise<readonly { readonly queued: Queued; readonly value: unknown }[]> {
    const { supervisor, clock, meter } = this.#parts;
    const done: { queued: Queued; value: unknown }[] = [];
    const now = clock.now();
    for (const queued of batch) {
      const { job } = queued;
      if (broken.has(job.executionId)) continue;
      const actor = actors.get(job.executionId) ?? job.create?.() ?? loaded.get(job.executionId) ?? null;
      if (actor === null) {
        this.#jobs.settle(queued, () =>
          queued.reject(new DomainError('not_found', `Execution ${job.executionId} not found`)),
        );
        continue;
      }
      try {
        const began = performance.now();
        actor.open(now);
        if (job.inbox !== 'leave') drainInbox(actor);
        const value = job.apply(actor);
        actors.set(job.executionId, actor);
        done.push({ queued, value });
        const tookMs = performance.now() - began;
        meter.observe('svc_turn_seconds', tookMs / 1000);
        spans?.turn(actor, tookMs);
      } catch (error) {
        if (error instanceof DomainError) {
          this.#jobs.settle(queued, () => queued.reject(error));
          continue;
        }
        // The turn is half done: nothing of this execution is written in this flush.
        broken.add(job.executionId);
        actors.delete(job.executionId);
        supervisor.evict(job.executionId);
        const own = batch.filter((other) => other.job.executionId === job.executionId);
        const kept = done.filter((entry) => entry.queued.job.executionId !== job.executionId);
        done.splice(0, done.length, ...kept);
        await this.#repair(own, queued, error);
      }
    }
    return done;
  }

  /** A turn that needs a stored payload is taken again with it; one that throws is tried a few times, then given up. */
  async #repair(own: readonly Queued[], culprit: Queued, error: unknown): Promise<void> {
    const { supervisor } = this.#parts;
    if (error instanceof NeedPayload) {
      culprit.fetches += 1;
      let fits = culprit.fetches < FETCHES_MAX;
      try {
        const refs = 'refs' in error && Array.isArray(error.refs) ? error.refs : [error.ref];
        fits = (await supervisor.fetchPayloads(refs)) && fits;
      } catch (cause) {
        for (const queued of own) this.#jobs.settle(queued, () => queued.reject(cause));
        return;
      }
      if (fits) this.#jobs.requeue(own);
      else this.#giveUp(own, culprit, new Error('a turn needs more stored results at once than fit into memory'));
      return;
    }
    culprit.tries += 1;
    if (culprit.tries < DEFECT_TRIES) this.#jobs.requeue(own);
    else this.#giveUp(own, culprit, error);
  }

  #giveUp(own: readonly Queued[], culprit: Queued, error: unknown): void {
    const { log, meter } = this.#parts;
    meter.count('svc_engine_poisoned_total');
    log.error('an event keeps failing its execution', {
      execution_id: culprit.job.executionId,
      error: errorText(error),
    });
    this.#jobs.settle(culprit, () => culprit.reject(error));
    this.#parts.onPoisoned(culprit.job.executionId, error);
    this.#jobs.requeue(own.filter((queued) => queued !== culprit));
  }

  /** After the commit: memory is what the log says again. */
  #announce(actors: ReadonlyMap<number, ExecutionActor>, grants: readonly Grant[]): void {
    const { board, onCommitted, onPending, supervisor, tracer } = this.#parts;
    for (const { claimant, command } of grants) claimant.granted.push(command);
    const pending: CommandHint[] = [];
    for (const actor of actors.values()) {
      const { writing } = actor;
      if (writing === null) continue;
      for (const issued of writing.issued.values()) {
        if (actor.commands.get(issued.commandId)?.status !== 'PENDING') continue;
        pending.push({ ...hintOf(issued), trace: commandTrace(tracer, actor.row, issued.commandId).trace });
      }
      const wrote = isWritten(writing);
      if (wrote && actor.turnsSinceSnapshot >= 64 && actor.inbox.length === 0) {
        actor.turnsSinceSnapshot = 0;
        actor.snapshotThrough = actor.row.lastEventId;
      }
      actor.settle();
      supervisor.keep(actor);
      if (wrote) onCommitted(actor, writing);
    }
    for (const hint of pending) board.post(hint);
    if (pending.length > 0) {
      this.#handover.serveWaiters(pending);
      onPending(pending);
    }
  }

  #failed(batch: readonly Queued[], done: readonly { readonly queued: Queued }[], error: unknown): void {
    const { log, meter } = this.#parts;
    const open = batch.filter((queued) => done.length === 0 || done.some((entry) => entry.queued === queued));
    if (error instanceof UnavailableError) {
      for (const queued of open) this.#jobs.settle(queued, () => queued.reject(error));
      return;
    }
    meter.count('svc_flush_retries_total');
    if (error instanceof LeaseLostError) {
      // Only what was done under the lease is refused; the others did nothing wrong.
      for (const queued of open) if (queued.job.fence) this.#jobs.settle(queued, () => queued.reject(error));
      this.#jobs.requeue(open.filter((queued) => !queued.job.fence));
      return;
    }
    const isConflict = error instanceof StaleError;
    // A key that is taken is no defect: whoever asked looks for the execution that has it.
    const isRefusal = error instanceof RefusedWriteError || error instanceof DuplicateKeyError;
    const executions = new Set(open.map(({ job }) => job.executionId));
    const again: Queued[] = [];
    for (const queued of open) {
      queued.tries += 1;
      // Jobs of one execution share a flush as well; by itself it shows whose write was refused.
      const isOver = isRefusal ? open.length === 1 : queued.tries >= (isConflict ? TRIES_MAX : DEFECT_TRIES);
      // A refused write (a constraint, a bad value) is one execution's; alone, it shows whose.
      if (!isConflict && !isRefusal && executions.size === 1 && isOver) {
        log.error('a flush was refused by the database', {
          execution_id: queued.job.executionId,
          error: errorText(error),
        });
        meter.count('svc_engine_poisoned_total');
        this.#parts.onPoisoned(queued.job.executionId, error);
      }
      if (isOver && (isConflict || executions.size === 1)) {
        this.#jobs.settle(queued, () => queued.reject(error));
      } else {
        queued.isAlone = !isConflict;
        queued.isSolo = isRefusal && executions.size === 1;
        again.push(queued);
      }
    }
    this.#jobs.requeue(again);
  }
}

function fencesOf(done: readonly { readonly queued: Queued }[]): { readonly fences?: readonly Fence[] } {
  const fences = new Map<string, Fence>();
  for (const { queued } of done) if (queued.job.fence) fences.set(queued.job.fence.name, queued.job.fence);
  return fences.size === 0 ? {} : { fences: [...fences.values()] };
}

function auditsOf(done: readonly { readonly queued: Queued; readonly value: unknown }[]): readonly AuditRow[] {
  return done.flatMap(({ queued, value }) => (value === false ? [] : (queued.job.audit ?? [])));
}

function errorText(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
