/**
 * Commands to workers, within a flush: hints from the board are judged by the claim policy and granted, and what the turns of
 * the flush issue goes at once to whoever reported, is served or waits. Grants are part of the flush's transaction; should it
 * fail, the flush puts their hints back on the board.
 */

import {
  type Arbitration,
  type ClaimHolder,
  type ClaimPolicy,
  heldAsOf,
  heldSince,
} from '../machines/command/claim.ts';
import { retryWaitOf } from '../machines/command/retry-wait.ts';
import { type Claimant, type CommandBoard, suits } from './board.ts';
import { hintOf } from './command-hint.ts';
import type { ExecutionActor } from './execution-actor.ts';
import { type ClaimantName, countClaim, describeCommand, failExhausted, grantCommand, judgeClaim } from './grant.ts';
import type { Job } from './job-queue.ts';
import type { Clock, CommandHint, CommandRow, Meter, Store, StoredHold } from './ports.ts';
import type { GrantedCommand } from './services.ts';
import type { Supervisor } from './supervisor.ts';

/** A hint from the board, and for whom it was taken. */
export interface Taken {
  readonly claimant: Claimant;
  readonly hint: CommandHint;
}

export interface Grant extends Taken {
  readonly command: GrantedCommand;
}

export interface Holds {
  /** By name; `null` is a worker nobody knows. */
  readonly holders: ReadonlyMap<string, ClaimHolder | null>;
  /** By command. */
  readonly claims: ReadonlyMap<number, StoredHold>;
}

export interface HandoverParts {
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly board: CommandBoard;
  readonly clock: Clock;
  readonly meter: Meter;
  readonly policy: ClaimPolicy;
  /** Executions in a flush; those that hints are taken of are added, and taken away when they are released. */
  readonly busy: Set<number>;
  /** The worker that holds a command, as of now; reclaiming needs it. */
  holderOf(workerId: string): Promise<ClaimHolder | null>;
  submit(job: Job<unknown>): Promise<unknown>;
  /** In the next flush. */
  serve(claimant: Claimant): void;
}

const NO_CLAIMS: ReadonlyMap<number, StoredHold> = new Map();

export class Handover {
  readonly #parts: HandoverParts;
  /** Executions in a flush whose hints were passed over meanwhile, and for whom. */
  readonly #skipped = new Map<number, Set<Claimant>>();

  constructor(parts: HandoverParts) {
    this.#parts = parts;
  }

  /**
   * Hints on the board for those who are served in this flush; only executions nobody else works on. Whoever wanted one of
   * another execution is among `passedOver`.
   */
  take(served: readonly Claimant[], held: Set<number>): { taken: Set<Taken>; passedOver: ReadonlySet<Claimant> } {
    const { board, busy } = this.#parts;
    const taken = new Set<Taken>();
    const passedOver = new Set<Claimant>();
    const skipped: CommandHint[] = [];
    for (const claimant of served) {
      for (const hint of board.take(claimant)) {
        if (busy.has(hint.executionId) && !held.has(hint.executionId)) {
          // Skipped, not waited for; it is served again when the flush that holds it is through, and not before: two
          // claimants that are served in turn would keep everything else of this process from running.
          skipped.push(hint);
          passedOver.add(claimant);
          this.#skipped.set(hint.executionId, (this.#skipped.get(hint.executionId) ?? new Set()).add(claimant));
          continue;
        }
        busy.add(hint.executionId);
        held.add(hint.executionId);
        claimant.room -= 1;
        taken.add({ claimant, hint });
      }
    }
    for (const hint of skipped) board.post(hint);
    return { taken, passedOver };
  }

  /** What is not in memory of commands that somebody holds: their workers, and their claims as the store has them. */
  async holdsOf(hints: Iterable<Taken>, loaded: ReadonlyMap<number, ExecutionActor>): Promise<Holds> {
    const { holderOf, store } = this.#parts;
    const workers = new Set<string>();
    const held: number[] = [];
    for (const { hint } of hints) {
      const row = loaded.get(hint.executionId)?.commands.get(hint.commandId);
      if (row === undefined) continue;
      if (row.workerId !== null) workers.add(row.workerId);
      if (row.status !== 'PENDING' && row.parkedOn === null) held.push(row.commandId);
    }
    const [claims, holders] = await Promise.all([
      held.length === 0 ? NO_CLAIMS : store.holds(held),
      Promise.all([...workers].map(async (name) => [name, await holderOf(name)] as const)),
    ]);
    return { claims, holders: new Map(holders) };
  }

  /** Of executions whose turn was left half done nothing may be granted: what memory has of them is not in the log. */
  putBack(hints: Set<Taken>, broken: ReadonlySet<number>): void {
    if (broken.size === 0) return;
    for (const taken of hints) {
      if (!broken.has(taken.hint.executionId)) continue;
      hints.delete(taken);
      taken.claimant.room += 1;
      this.#parts.board.post(taken.hint);
    }
  }

  /** Grants what was taken, where the claim policy allows it; `hints` is empty afterwards. */
  grant(
    hints: Set<Taken>,
    { holders, claims }: Holds,
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
      const known = heldAsOf(row, claims.get(hint.commandId));
      const verdict = holder === undefined ? null : this.#judge(actor, known, claimant, holder);
      if (holder !== undefined && verdict?.decision === 'exhausted') {
        claimant.room += 1;
        countClaim(this.#parts.meter, verdict);
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

  /** Commands issued by these very turns: to whoever reported or is served here, then to who waits, else on the board. */
  offerNew(
    reporting: readonly Claimant[],
    served: readonly Claimant[],
    actors: Map<number, ExecutionActor>,
    grants: Grant[],
  ): void {
    const { board } = this.#parts;
    const here = [...new Set([...reporting, ...served])];
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

  /** Somebody may have begun to wait while the flush was under way. */
  serveWaiters(hints: readonly CommandHint[]): void {
    const { board, serve } = this.#parts;
    for (const hint of hints) {
      const claimant = board.takeWaiter(hint);
      if (claimant !== null) serve(claimant);
    }
  }

  /** The flush is through: its executions are free, and those who were passed over are served. */
  released(held: ReadonlySet<number>): void {
    const { board, busy, serve } = this.#parts;
    let hasSkipped = false;
    for (const executionId of held) {
      busy.delete(executionId);
      const claimants = this.#skipped.get(executionId);
      if (claimants === undefined) continue;
      hasSkipped = true;
      this.#skipped.delete(executionId);
      // Who was passed over may be on the way back to the board.
      for (const claimant of claimants) {
        board.leave(claimant);
        if (!claimant.isClosed) serve(claimant);
      }
    }
    if (hasSkipped) for (const claimant of board.takeServable()) serve(claimant);
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
    this.#parts
      .submit({
        executionId,
        apply: (actor) => {
          const row = actor.commands.get(commandId);
          if (row === undefined || row.attempt !== attempt || row.workerId !== workerId) return;
          const known = heldAsOf(row, judged);
          if (this.#judge(actor, known, claimant, holder).decision === 'exhausted') failExhausted(actor, row);
        },
      })
      .catch(() => {});
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
        this.serveWaiters([again]);
      },
      // A sweep finds it.
      () => {},
    );
  }

  /** The command is offered again when the inbox of its execution is handled; should that fail, a sweep finds both. */
  #afterInbox(hint: CommandHint): void {
    this.#parts.submit({ executionId: hint.executionId, apply: (actor) => actor.commands.has(hint.commandId) }).then(
      (isOpen) => {
        if (!isOpen) return;
        this.#parts.board.post(hint);
        this.serveWaiters([hint]);
      },
      () => {},
    );
  }

  #tryGrant(
    actor: ExecutionActor,
    row: CommandRow,
    claimant: Claimant,
    holder: ClaimHolder | null,
  ): GrantedCommand | null {
    const { policy, meter } = this.#parts;
    const granting = grantCommand(actor, row, nameOf(claimant), holder, policy);
    countClaim(meter, granting);
    return granting.decision === 'grant' ? describeCommand(actor, granting.row) : null;
  }
}

function nameOf({ workerId, claimId }: Claimant): ClaimantName {
  return { name: workerId, status: 'ready', claimId };
}
