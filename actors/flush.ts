/**
 * The commit loop of a process: finished work of many executions goes out in one transaction (architecture 6).
 *
 * Jobs queue while flushes are under way; a flush takes all that is ready, one turn after the other, hands new commands to
 * waiting workers, and is written with a constant number of statements. An execution is in one flush at a time, so two
 * flushes may overlap. When a commit fails, memory is ahead of the log: everything the flush touched is evicted and tried
 * again from the log, alone if it keeps failing, so that one poisoned execution never blocks its neighbours.
 */

import {
  type Arbitration,
  type ClaimHolder,
  type ClaimPolicy,
  heldAsOf,
  heldSince,
} from '../machines/command/claim.ts';
import { retryWaitOf } from '../machines/command/retry-wait.ts';
import { NeedPayload } from '../machines/playbook/values.ts';
import type { AuditRow } from './audit.ts';
import type { Claimant, CommandBoard } from './board.ts';
import { suits } from './board.ts';
import { hintOf } from './command-hint.ts';
import { DomainError } from './errors.ts';
import { type ExecutionActor, isWritten, type Writing } from './execution-actor.ts';
import { FlushSpans } from './flush-spans.ts';
import { type ClaimantName, failExhausted, grantCommand, grantedCommand, judgeClaim } from './grant.ts';
import { drainInbox } from './inbox.ts';
import { type Fence, LeaseLostError } from './lease.ts';
import {
  type Clock,
  type CommandHint,
  type CommandRow,
  type CommitPhase,
  DuplicateKeyError,
  type Log,
  type Meter,
  RefusedWriteError,
  StaleError,
  type Store,
  type StoredHold,
  type Tracer,
  UnavailableError,
} from './ports.ts';
import { flushOf, projectHead } from './project.ts';
import type { GrantedCommand } from './services.ts';
import type { Supervisor } from './supervisor.ts';

/** Work on one execution, done within a flush. */
export interface Job<T> {
  readonly executionId: number;
  /** Makes the execution itself (a start); otherwise it is hydrated. */
  readonly create?: () => ExecutionActor;
  /**
   * Events that wait in the execution's inbox take their turns first; `leave` is for jobs that take no turn themselves.
   */
  readonly inbox?: 'drain' | 'leave';
  /** Hears how long the flush took that wrote this job. */
  readonly measure?: (times: FlushTimes) => void;
  /** Takes its place in the answer of this claimant: new commands are offered to it first. */
  readonly claimant?: Claimant | null;
  /** The lease this job is done under; it is refused with LeaseLostError when that is lost. */
  readonly fence?: Fence;
  /** Written with the job, unless the job answers `false`: it found nothing to do. */
  readonly audit?: AuditRow | null;
  /** Synchronous. A DomainError refuses the job and must be thrown before anything is written. */
  apply(actor: ExecutionActor): T;
}

/** Milliseconds of one monotonic clock; every part lies inside `totalMs`, except `waitMs`, which lies before it. */
export interface FlushTimes {
  /** From submitting to the begin of the flush. */
  readonly waitMs: number;
  readonly totalMs: number;
  readonly loadMs: number;
  readonly phases: Readonly<Partial<Record<CommitPhase, number>>>;
}

interface Queued {
  readonly job: Job<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly since: number;
  tries: number;
  /** How often a stored result was fetched for it. */
  fetches: number;
  /** Its execution goes in a flush of its own. */
  isAlone: boolean;
  /** It goes in a flush of its own, without the other jobs of its execution. */
  isSolo: boolean;
  /** Was answered; it is not tried again. */
  isSettled: boolean;
}

interface Grant {
  readonly claimant: Claimant;
  readonly command: GrantedCommand;
  readonly hint: CommandHint;
}

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

const NO_HOLDS: ReadonlyMap<number, StoredHold> = new Map();
const FLUSHES_AT_ONCE = 2;
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
  #queue: Queued[] = [];
  readonly #claimants = new Set<Claimant>();
  readonly #busy = new Set<number>();
  readonly #mailbox = new Map<number, number>();
  #underWay = 0;
  #isScheduled = false;
  /** Executions in a flush whose hints were passed over meanwhile, and for whom. */
  readonly #skipped = new Map<number, Set<Claimant>>();
  #isStopped = false;
  readonly #idle: (() => void)[] = [];

  constructor(parts: FlusherParts) {
    this.#parts = parts;
  }

  /** Resolves after the commit. Rejects with the refusal, `queue_unavailable`, or UnavailableError (outcome unknown). */
  submit<T>(job: Job<T>): Promise<T> {
    if (this.#isStopped) return Promise.reject(new DomainError('shutting_down', 'The server is shutting down'));
    const waiting = this.#mailbox.get(job.executionId) ?? 0;
    if (waiting >= this.#parts.mailboxMax) {
      return Promise.reject(
        new DomainError('queue_unavailable', `The mailbox of execution ${job.executionId} is full`),
      );
    }
    this.#mailbox.set(job.executionId, waiting + 1);
    return new Promise<T>((resolve, reject) => {
      // The queue holds jobs of all kinds; each resolves with what its own apply returned.
      const answer = { resolve: resolve as (value: unknown) => void, reject };
      this.#queue.push({
        job,
        ...answer,
        since: performance.now(),
        tries: 0,
        fetches: 0,
        isAlone: false,
        isSolo: false,
        isSettled: false,
      });
      this.#schedule();
    });
  }

  /** Matches this claimant with what is on the board, in the next flush. */
  serve(claimant: Claimant): void {
    this.#claimants.add(claimant);
    this.#schedule();
  }

  /** Refuses new work and resolves when what was accepted is written. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#underWay > 0 || this.#queue.length > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
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
    while (this.#underWay < FLUSHES_AT_ONCE) {
      const batch = this.#takeBatch();
      const claimants = this.#takeClaimants();
      if (batch.length === 0 && claimants.length === 0) break;
      this.#underWay += 1;
      void this.#flush(batch, claimants).finally(() => {
        this.#underWay -= 1;
        this.#pump();
      });
    }
    if (this.#underWay === 0 && this.#queue.length === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #takeBatch(): readonly Queued[] {
    if (this.#queue.length === 0) return [];
    const batch: Queued[] = [];
    const rest: Queued[] = [];
    const passed = new Set<number>();
    for (const queued of this.#queue) {
      const { executionId } = queued.job;
      const first = batch[0];
      const fits =
        first === undefined ||
        (!queued.isAlone && !first.isAlone) ||
        (first.isAlone && !first.isSolo && !queued.isSolo && first.job.executionId === executionId);
      if (batch.length < this.#parts.maxTurns && fits && !passed.has(executionId) && !this.#busy.has(executionId)) {
        batch.push(queued);
      } else {
        passed.add(executionId);
        rest.push(queued);
      }
    }
    for (const { job } of batch) this.#busy.add(job.executionId);
    this.#queue = rest;
    return batch;
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
    const hints = new Set(this.#takeHints(served, held));
    try {
      const loaded = await supervisor.hydrateAll([
        ...batch.filter(({ job }) => job.create === undefined).map(({ job }) => job.executionId),
        ...[...hints].map(({ hint }) => hint.executionId),
      ]);
      const loadMs = performance.now() - started;
      const [holders, holds] = await Promise.all([this.#holdersOf(hints, loaded), this.#holdsOf(hints, loaded)]);
      let turns = batch.length;
      for (const executionId of held) turns += loaded.get(executionId)?.inbox.length ?? 0;
      await this.#parts.reserveIds(IDS_PER_FLUSH + IDS_PER_TURN * turns);
      const broken = new Set<number>();
      done = await this.#applyAll(batch, loaded, actors, broken, spans);
      this.#putBack(hints, broken);
      this.#grantHints(hints, holders, holds, loaded, actors, grants);
      this.#offerNew(batch, served, actors, grants);
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
      this.#release(held);
      this.#failed(batch, done, error);
      return;
    }
    this.#release(held);
    this.#announce(actors, grants);
    for (const { queued, value } of done) this.#settle(queued, () => queued.resolve(value));
    for (const claimant of new Set([...served, ...grants.map((grant) => grant.claimant)])) claimant.onGranted();
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
        this.#settle(queued, () =>
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
          this.#settle(queued, () => queued.reject(error));
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
        for (const queued of own) this.#settle(queued, () => queued.reject(cause));
        return;
      }
      if (fits) this.#requeue(own);
      else this.#giveUp(own, culprit, new Error('a turn needs more stored results at once than fit into memory'));
      return;
    }
    culprit.tries += 1;
    if (culprit.tries < DEFECT_TRIES) this.#requeue(own);
    else this.#giveUp(own, culprit, error);
  }

  #giveUp(own: readonly Queued[], culprit: Queued, error: unknown): void {
    const { log, meter } = this.#parts;
    meter.count('svc_engine_poisoned_total');
    log.error('an event keeps failing its execution', {
      execution_id: culprit.job.executionId,
      error: errorText(error),
    });
    this.#settle(culprit, () => culprit.reject(error));
    this.#parts.onPoisoned(culprit.job.executionId, error);
    this.#requeue(own.filter((queued) => queued !== culprit));
  }

  #requeue(own: readonly Queued[]): void {
    this.#queue.unshift(...own.filter((queued) => !queued.isSettled));
    this.#schedule();
  }

  /** Hints on the board for those who are served in this flush; only executions nobody else works on. */
  #takeHints(
    served: readonly Claimant[],
    held: Set<number>,
  ): readonly { readonly claimant: Claimant; readonly hint: CommandHint }[] {
    const { board } = this.#parts;
    const taken: { claimant: Claimant; hint: CommandHint }[] = [];
    const skipped: CommandHint[] = [];
    for (const claimant of served) {
      for (const hint of board.take(claimant)) {
        if (this.#busy.has(hint.executionId) && !held.has(hint.executionId)) {
          // Skipped, not waited for; it is served again when the flush that holds it is through, and not before: two
          // claimants that are served in turn would keep everything else of this process from running.
          skipped.push(hint);
          this.#skipped.set(hint.executionId, (this.#skipped.get(hint.executionId) ?? new Set()).add(claimant));
          continue;
        }
        this.#busy.add(hint.executionId);
        held.add(hint.executionId);
        claimant.room -= 1;
        taken.push({ claimant, hint });
      }
    }
    for (const hint of skipped) board.post(hint);
    return taken;
  }

  async #holdersOf(
    hints: Iterable<{ readonly hint: CommandHint }>,
    loaded: ReadonlyMap<number, ExecutionActor>,
  ): Promise<ReadonlyMap<string, ClaimHolder | null>> {
    const { holderOf } = this.#parts;
    const names = new Set<string>();
    for (const { hint } of hints) {
      const holder = loaded.get(hint.executionId)?.commands.get(hint.commandId)?.workerId ?? null;
      if (holder !== null) names.add(holder);
    }
    const holders = new Map<string, ClaimHolder | null>();
    for (const name of names) holders.set(name, await holderOf(name));
    return holders;
  }

  /** Claims as the store has them, of commands that somebody holds; asked only when there are such. */
  async #holdsOf(
    hints: Iterable<{ readonly hint: CommandHint }>,
    loaded: ReadonlyMap<number, ExecutionActor>,
  ): Promise<ReadonlyMap<number, StoredHold>> {
    const held: number[] = [];
    for (const { hint } of hints) {
      const row = loaded.get(hint.executionId)?.commands.get(hint.commandId);
      if (row !== undefined && row.status !== 'PENDING' && row.parkedOn === null) held.push(row.commandId);
    }
    return held.length === 0 ? NO_HOLDS : this.#parts.store.holds(held);
  }

  /** Of executions whose turn was left half done nothing may be granted: what memory has of them is not in the log. */
  #putBack(hints: Set<{ readonly claimant: Claimant; readonly hint: CommandHint }>, broken: ReadonlySet<number>): void {
    if (broken.size === 0) return;
    for (const taken of hints) {
      if (!broken.has(taken.hint.executionId)) continue;
      hints.delete(taken);
      taken.claimant.room += 1;
      this.#parts.board.post(taken.hint);
    }
  }

  #grantHints(
    hints: Set<{ readonly claimant: Claimant; readonly hint: CommandHint }>,
    holders: ReadonlyMap<string, ClaimHolder | null>,
    holds: ReadonlyMap<number, StoredHold>,
    loaded: ReadonlyMap<number, ExecutionActor>,
    actors: Map<number, ExecutionActor>,
    grants: Grant[],
  ): void {
    const now = this.#parts.clock.now();
    for (const taken of hints) {
      const { claimant, hint } = taken;
      // From here on its room is accounted for.
      hints.delete(taken);
      const actor = actors.get(hint.executionId) ?? loaded.get(hint.executionId);
      const row = actor?.commands.get(hint.commandId);
      // Another process issued it, granted it anew, or took it from a worker that this one believes to have it.
      const isBehind =
        row === undefined || hint.attempt > row.attempt || (hint.retry === true && row.parkedOn === null);
      if (actor === undefined || isBehind || (row.parkedOn !== null && retryWaitOf(row) === null)) {
        claimant.room += 1;
        if (isBehind) this.#lookAgain(hint);
        continue;
      }
      if (actor.inbox.length > 0) {
        // What waits may settle this very command.
        claimant.room += 1;
        this.#afterInbox(hint);
        continue;
      }
      actor.open(now);
      // Granted to somebody else between the look-up and now: not ours to judge.
      const holder = row.workerId === null ? null : holders.get(row.workerId);
      const known = heldAsOf(row, holds.get(hint.commandId));
      const verdict = holder === undefined ? null : this.#judge(actor, known, claimant, holder);
      if (holder !== undefined && verdict?.decision === 'exhausted') {
        claimant.room += 1;
        this.#exhaust(known, claimant, holder);
        continue;
      }
      // Read before it was granted, the hint is older than the grant: whoever has it is not told twice (api 2.4.2).
      const isKnown = verdict?.decision === 'grant' && verdict.reason === 'same_worker' && hint.again !== true;
      const isLeased = isKnown && now < heldSince(known) + this.#parts.policy.leaseSeconds * 1000;
      const command = holder === undefined || isLeased ? null : this.#tryGrant(actor, known, claimant, holder);
      if (command === null) claimant.room += 1;
      else grants.push({ claimant, command, hint });
      if ((actor.writing?.events.length ?? 0) > 0) actors.set(hint.executionId, actor);
    }
  }

  #judge(actor: ExecutionActor, row: CommandRow, claimant: Claimant, holder: ClaimHolder | null): Arbitration {
    return judgeClaim(actor, row, nameOf(claimant), holder, this.#parts.policy);
  }

  /**
   * Used-up attempts end the command, which is a turn, and a turn may need what has to be fetched first or may throw: it
   * gets a job of its own. Should that fail, a sweep finds the command again.
   */
  #exhaust(judged: CommandRow, claimant: Claimant, holder: ClaimHolder | null): void {
    const { executionId, commandId, attempt, workerId } = judged;
    this.#parts.meter.count('svc_claims_total', { decision: 'exhausted', reason: 'granted' });
    this.submit({
      executionId,
      apply: (actor) => {
        const row = actor.commands.get(commandId);
        if (row === undefined || row.attempt !== attempt || row.workerId !== workerId) return;
        const known = heldAsOf(row, judged);
        if (this.#judge(actor, known, claimant, holder).decision === 'exhausted') failExhausted(actor, row);
      },
    }).catch(() => {});
  }

  /** Another process may have issued the command: a live execution of this one has not heard of it. */
  #lookAgain(hint: CommandHint): void {
    const { store, supervisor, board } = this.#parts;
    store.command(hint.commandId).then(
      (row) => {
        if (row === null || row.completedAt !== null || (row.parkedOn !== null && retryWaitOf(row) === null)) return;
        supervisor.evict(hint.executionId);
        // As the row has it: what a message says of attempts is nobody's word.
        const { retry: _, ...known } = hint;
        const again = { ...known, attempt: row.attempt };
        board.post(again);
        this.#serveWaiters([again]);
      },
      // A sweep finds it.
      () => {},
    );
  }

  /** The command is offered again when the inbox of its execution is handled; should that fail, a sweep finds both. */
  #afterInbox(hint: CommandHint): void {
    this.submit({ executionId: hint.executionId, apply: (actor) => actor.commands.has(hint.commandId) }).then(
      (isOpen) => {
        if (!isOpen) return;
        this.#parts.board.post(hint);
        this.#serveWaiters([hint]);
      },
      () => {},
    );
  }

  /** Commands issued by these very turns: to whoever reported or is served here, then to who waits, else on the board. */
  #offerNew(
    batch: readonly Queued[],
    served: readonly Claimant[],
    actors: Map<number, ExecutionActor>,
    grants: Grant[],
  ): void {
    const { board } = this.#parts;
    const here: Claimant[] = [];
    for (const { job } of batch) if (job.claimant && !here.includes(job.claimant)) here.push(job.claimant);
    for (const claimant of served) if (!here.includes(claimant)) here.push(claimant);
    for (const actor of actors.values()) {
      for (const issued of [...(actor.writing?.issued.values() ?? [])]) {
        const row = actor.commands.get(issued.commandId);
        if (row === undefined || row.status !== 'PENDING') continue;
        let claimant = here.find((candidate) => suits(candidate, row)) ?? null;
        if (claimant === null) {
          claimant = board.takeWaiter(row);
          if (claimant === null) continue;
          here.push(claimant);
        }
        claimant.room -= 1;
        const command = this.#tryGrant(actor, row, claimant, null);
        if (command === null) claimant.room += 1;
        else grants.push({ claimant, command, hint: hintOf(row) });
      }
    }
  }

  #tryGrant(
    actor: ExecutionActor,
    row: CommandRow,
    claimant: Claimant,
    holder: ClaimHolder | null,
  ): GrantedCommand | null {
    const { policy, meter } = this.#parts;
    const granting = grantCommand(actor, row, nameOf(claimant), holder, policy);
    meter.count('svc_claims_total', {
      decision: granting.decision,
      reason: granting.decision === 'refuse' ? granting.refusal.reason : 'granted',
    });
    return granting.decision === 'grant' ? grantedCommand(actor, granting.row, policy.leaseSeconds) : null;
  }

  /** After the commit: memory is what the log says again. */
  #announce(actors: ReadonlyMap<number, ExecutionActor>, grants: readonly Grant[]): void {
    const { board, onCommitted, onPending, supervisor } = this.#parts;
    for (const { claimant, command } of grants) claimant.granted.push(command);
    const pending: CommandHint[] = [];
    for (const actor of actors.values()) {
      const { writing } = actor;
      if (writing === null) continue;
      for (const issued of writing.issued.values()) {
        if (actor.commands.get(issued.commandId)?.status === 'PENDING') pending.push(hintOf(issued));
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
      this.#serveWaiters(pending);
      onPending(pending);
    }
  }

  /** Somebody may have begun to wait while the flush was under way. */
  #serveWaiters(hints: readonly CommandHint[]): void {
    const { board } = this.#parts;
    for (const hint of hints) {
      const claimant = board.takeWaiter(hint);
      if (claimant !== null) this.serve(claimant);
    }
  }

  #failed(batch: readonly Queued[], done: readonly { readonly queued: Queued }[], error: unknown): void {
    const { log, meter } = this.#parts;
    const open = batch.filter((queued) => done.length === 0 || done.some((entry) => entry.queued === queued));
    if (error instanceof UnavailableError) {
      for (const queued of open) this.#settle(queued, () => queued.reject(error));
      return;
    }
    meter.count('svc_flush_retries_total');
    if (error instanceof LeaseLostError) {
      // Only what was done under the lease is refused; the others did nothing wrong.
      for (const queued of open) if (queued.job.fence) this.#settle(queued, () => queued.reject(error));
      this.#requeue(open.filter((queued) => !queued.job.fence));
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
        this.#settle(queued, () => queued.reject(error));
      } else {
        queued.isAlone = !isConflict;
        queued.isSolo = isRefusal && executions.size === 1;
        again.push(queued);
      }
    }
    this.#requeue(again);
  }

  #release(held: ReadonlySet<number>): void {
    const { board } = this.#parts;
    let hasSkipped = false;
    for (const executionId of held) {
      this.#busy.delete(executionId);
      const claimants = this.#skipped.get(executionId);
      if (claimants === undefined) continue;
      hasSkipped = true;
      this.#skipped.delete(executionId);
      // Who was passed over may be on the way back to the board.
      for (const claimant of claimants) {
        board.leave(claimant);
        if (!claimant.isClosed) this.serve(claimant);
      }
    }
    if (hasSkipped) for (const claimant of board.takeServable()) this.serve(claimant);
  }

  #settle(queued: Queued, answer: () => void): void {
    if (queued.isSettled) return;
    queued.isSettled = true;
    const { executionId } = queued.job;
    const left = (this.#mailbox.get(executionId) ?? 1) - 1;
    if (left > 0) this.#mailbox.set(executionId, left);
    else this.#mailbox.delete(executionId);
    answer();
  }
}

function nameOf({ workerId, claimId }: Claimant): ClaimantName {
  return { name: workerId, status: 'ready', claimId };
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
