/**
 * Commands and the workers that claim and report them (api 2.4, 2.5). A worker's exchange is one set of jobs: its reports,
 * and a claimant that gets what their turns issue; the answer goes out after the commit.
 *
 * Misbehaves when the database is away: reports are answered with 503 and come again with the same ids.
 */
import { type ClaimPolicy, heldAsOf, heldSince } from '../machines/command/claim.ts';
import { isoOf } from '../machines/command/instant.ts';
import type { JsonMap } from '../machines/json.ts';
import type { Claimant, CommandBoard } from './board.ts';
import { DomainError } from './errors.ts';
import type { Engine, ExecutionActor, Writing } from './execution-actor.ts';
import type { Flusher } from './flush.ts';
import { countClaim, describeCommand, grantCommand } from './grant.ts';
import { Holds } from './holds.ts';
import type { Clock, CommandRow, ExecutionRow, Log, Meter, Store } from './ports.ts';
import { StaleError, UnavailableError } from './ports.ts';
import { refuseReserved } from './record-event.ts';
import {
  type Handling,
  handleKnown,
  handleReport,
  hasMovedSince,
  type Known,
  type ReportAnswer,
  UNKNOWN_REPORT,
} from './report.ts';
import type {
  ClaimRequest,
  CommandService,
  EventInput,
  ExchangeReceipt,
  ExchangeRequest,
  ExecutionService,
  GrantedCommand,
  Hold,
  Report,
  ReportedOutcome,
  ReportReceipt,
  StopOrder,
  WorkerRow,
  WorkerService,
} from './services.ts';
import type { Supervisor } from './supervisor.ts';
import { UnnamedGrants } from './unnamed-grants.ts';
import { unknownWorker } from './worker-service.ts';

export interface CommandServiceParts {
  readonly store: Store;
  readonly flusher: Flusher;
  readonly supervisor: Supervisor;
  readonly board: CommandBoard;
  readonly workers: WorkerService;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  readonly policy: ClaimPolicy;
  readonly engine: Engine;
  /** A worker hears within this time that its command was ended, whatever became of the hints. */
  readonly cancelCheckSeconds: number;
  /** Hints from the store for pools this process has not looked at lately. */
  catchUp(pools: readonly string[]): Promise<void>;
  /** Hints from the store, whatever was looked at. */
  look(pools: readonly string[]): Promise<unknown>;
  recordEvent: ExecutionService['recordEvent'];
  /** A command was parked on a child that may have ended already. */
  onParked(executionId: number, commandId: number, childId: number): void;
}

const WAIT_MAX_MS = 60_000;
/** Looks at the log for one report while others keep changing it. */
const LOOKS_MAX = 8;
const PASSES_MAX = 8;
const WEEDED_AT_ONCE = 256;
const ENDED = { decision: 'refuse', reason: 'terminal' } as const;

export class Commands implements CommandService {
  readonly #parts: CommandServiceParts;
  readonly #holds: Holds;
  readonly #unnamed: UnnamedGrants;
  /** Wakes the waiting calls of a worker. */
  readonly #polls = new Map<string, Set<() => void>>();
  #weeding: Promise<void> | null = null;
  #isDraining = false;

  constructor(parts: CommandServiceParts) {
    this.#parts = parts;
    const { store, clock, policy, cancelCheckSeconds } = parts;
    this.#holds = new Holds({ store, clock, policy, cancelCheckSeconds });
    this.#unnamed = new UnnamedGrants((workerId) => parts.store.heldBy(workerId));
  }

  async claim(commandId: number, workerId: string, claimId: string | null): Promise<GrantedCommand> {
    this.#refuseWhileDraining();
    const { store, flusher, workers, policy, supervisor, meter } = this.#parts;
    const began = performance.now();
    for (let round = 0; ; round += 1) {
      const [known, worker] = await Promise.all([this.#row(commandId), workers.look(workerId)]);
      if (known.completedAt === null && worker?.status === 'offline') throw unknownWorker(workerId);
      workers.seen(workerId);
      // Another process may have gone on with the command, and an answer that writes nothing would not notice.
      supervisor.refresh(known.executionId, known.latestEventId);
      if (known.workerId !== null && known.workerId !== workerId) await workers.look(known.workerId);
      const holder = known.workerId === null ? null : await workers.holder(known.workerId);
      const answer = await flusher.submit({
        executionId: known.executionId,
        apply: (actor) => {
          const row = actor.commands.get(commandId);
          if (row === undefined) return { decision: known.completedAt === null ? 'behind' : 'ended' } as const;
          // The holder changed between the look-up and now: ask again about the new one.
          if (row.workerId !== known.workerId) return { decision: 'again' } as const;
          const status = takesCommands(worker) ? 'ready' : 'draining';
          const granting = grantCommand(
            actor,
            heldAsOf(row, known),
            { name: workerId, status, claimId },
            holder,
            policy,
          );
          if (granting.decision !== 'grant') return granting;
          return { ...granting, command: describeCommand(actor, granting.row) };
        },
      });
      // Another process has gone on with the execution.
      if (answer.decision === 'behind') supervisor.evict(known.executionId);
      if ((answer.decision === 'again' || answer.decision === 'behind') && round < 5) continue;
      countClaim(meter, 'reason' in answer ? answer : ENDED);
      if (answer.decision === 'grant') {
        meter.observe('svc_claim_seconds', (performance.now() - began) / 1000);
        this.#parts.board.drop(answer.row);
        this.#hold(answer.command);
        return answer.command;
      }
      if (answer.decision === 'exhausted') {
        throw new DomainError(
          'attempts_exhausted',
          `Command ${commandId} has used up its attempts`,
          refusalData(known, 'exhausted', answer.reason),
        );
      }
      if (answer.decision === 'refuse' && answer.refusal.reason !== 'terminal') {
        const { refusal } = answer;
        if (refusal.wakeAt !== null)
          await store.postpone([
            { executionId: known.executionId, commandId, nextWakeAt: isoOf(refusal.wakeAt), republished: false },
          ]);
        const message =
          refusal.code === 'worker_draining'
            ? `Worker ${workerId} is ${worker?.status}`
            : `Command ${commandId} is claimed by ${known.workerId ?? 'nobody'}`;
        throw new DomainError(refusal.code, message, {
          ...refusalData(known, 'refuse', refusal.reason, refusal),
        });
      }
      throw new DomainError(
        'already_terminal',
        `Command ${commandId} has ended`,
        refusalData(known, 'refuse', 'terminal'),
      );
    }
  }

  async claimMany(request: ClaimRequest): Promise<{ commands: readonly GrantedCommand[]; stop: readonly StopOrder[] }> {
    this.#refuseWhileDraining();
    const worker = registered(await this.#parts.workers.look(request.workerId), request.workerId);
    if (!takesCommands(worker)) {
      throw new DomainError('worker_draining', `Worker ${worker.name} is ${worker.status}`);
    }
    // It may be the repeat of a claim that another process has answered.
    if (request.claimId !== null) this.#unnamed.doubt(worker.name);
    return { commands: await this.#claimFor(worker, request, []), stop: [] };
  }

  async exchange(request: ExchangeRequest): Promise<ExchangeReceipt> {
    const { workers } = this.#parts;
    const worker = registered(await workers.find(request.workerId), request.workerId);
    if (request.instance !== null && worker.instance !== null && request.instance !== worker.instance) {
      throw new DomainError('worker_restarted', `Worker ${worker.name} was registered by another instance`, {
        worker_id: worker.name,
      });
    }
    workers.seen(worker.name);
    // Whoever waits for our answer is not silent, however long the database lets it wait.
    const asking = workers.polling(worker.name);
    try {
      return await this.#answer(worker, request);
    } finally {
      asking.close();
    }
  }

  async get(commandId: number): Promise<GrantedCommand> {
    const row = await this.#row(commandId);
    return this.#describe(row);
  }

  async describe(execution: ExecutionRow, rows: readonly CommandRow[]): Promise<readonly GrantedCommand[]> {
    const { supervisor, engine } = this.#parts;
    const plan = await supervisor.plan(execution.catalogId);
    return rows.map((row) => describeCommand({ row: execution, plan, engine }, row));
  }

  /** Another server gives it, or this one after its restart; a poll that is open answers empty instead. */
  #refuseWhileDraining(): void {
    if (this.#isDraining) throw new DomainError('shutting_down', 'This server drains and gives no commands');
  }

  /** Long polls answer empty, and no new commands are given. */
  drain(isDraining = true): void {
    this.#isDraining = isDraining;
    for (const wakes of this.#polls.values()) for (const wake of wakes) wake();
  }

  /** After a commit: forgets closed commands, and tells workers that hold one of a run that was ended for them. */
  onCommitted(_actor: ExecutionActor, writing: Writing): void {
    for (const row of [...writing.changed.values(), ...writing.issued.values()]) {
      if (row.status === 'CLAIMED' && this.#holds.isOutdated(row)) this.#tellHolder(row.commandId);
      if (row.completedAt === null && row.parkedOn === null) continue;
      if (row.workerId !== null) this.#unnamed.named(row.workerId, [row.commandId]);
      this.#parts.board.drop(row);
      if (row.status === 'CANCELLED') this.#tellHolder(row.commandId);
      else this.#holds.closed(row.commandId);
    }
  }

  /** Who has it here has it no longer: a call that waits is answered with the order to stop. */
  #tellHolder(commandId: number): void {
    const worker = this.#holds.closed(commandId);
    if (worker !== null) for (const wake of this.#polls.get(worker) ?? []) wake();
  }

  /** A run that another process ended: workers that hold something of it are told at once. */
  onEndedElsewhere(executionId: number): void {
    this.#holds.endedElsewhere(executionId);
  }

  async #answer(worker: WorkerRow, request: ExchangeRequest): Promise<ExchangeReceipt> {
    const { workers, board } = this.#parts;
    const { status } = request;
    if (status !== worker.status) {
      await workers.heartbeat(worker.name, { registration: null, status, commands: [] });
    }
    const { claim } = request;
    const wants = claim !== null && status === 'ready' && !this.#isDraining ? claim : null;
    const spokenOf = [...request.holding, ...request.reports].map((each) => each.commandId);
    this.#unnamed.named(worker.name, spokenOf);
    if (wants !== null) await this.#offerForgotten(worker.name);
    if (request.reports.length === 0) {
      const stop = await this.stopOrders(worker.name, request.holding);
      const commands =
        wants === null
          ? []
          : await this.#claimFor(worker, { ...wants, waitMs: stop.length > 0 ? 0 : wants.waitMs }, request.holding);
      const late = stop.length > 0 || commands.length > 0 ? stop : await this.stopOrders(worker.name, request.holding);
      return { reports: [], commands, stop: late, pending: board.size };
    }
    const repeated = wants === null ? null : await this.#repeatedClaim(worker, wants);
    const claimant = wants === null || repeated !== null ? null : this.#claimant(worker, wants);
    const reports = await this.#reportAll(worker, request.reports, claimant);
    let commands: readonly GrantedCommand[] = repeated ?? [];
    if (claimant !== null && wants !== null) {
      const granted = await this.#grantedElsewhere(worker, wants, claimant, reports);
      if (granted !== null) claimant.isClosed = true;
      else {
        await this.#serveOnce(claimant);
        // Another flush may be serving it too; what it grants is part of this answer, or nobody hears of it.
        await this.#underWay(claimant);
      }
      commands = granted ?? this.#close(claimant, wants);
    }
    return { reports, commands, stop: await this.stopOrders(worker.name, request.holding), pending: board.size };
  }

  /** A report that is known comes again because its answer was lost, and with it what another process granted for it. */
  async #grantedElsewhere(
    worker: WorkerRow,
    wants: ClaimRequest,
    claimant: Claimant,
    reports: readonly ReportReceipt[],
  ): Promise<readonly GrantedCommand[] | null> {
    if (claimant.room < claimant.max || !reports.some(({ result }) => result === 'duplicate')) return null;
    this.#unnamed.doubt(worker.name);
    return this.#repeatedClaim(worker, wants);
  }

  async #row(commandId: number): Promise<CommandRow> {
    const row = await this.#parts.store.command(commandId);
    if (row === null) throw new DomainError('not_found', `Command ${commandId} not found`);
    return row;
  }

  async #describe(row: CommandRow): Promise<GrantedCommand> {
    const actor = await this.#parts.supervisor.actor(row.executionId);
    if (actor === null) throw new DomainError('not_found', `Execution ${row.executionId} not found`);
    return describeCommand(actor, row);
  }

  // ---------------------------------------------------------------- claims

  async #claimFor(
    worker: WorkerRow,
    request: ClaimRequest,
    holding: readonly Hold[],
  ): Promise<readonly GrantedCommand[]> {
    const { board, workers, clock, catchUp, look } = this.#parts;
    const repeated = await this.#repeatedClaim(worker, request);
    if (repeated !== null) return repeated;
    workers.seen(worker.name);
    const claimant = this.#claimant(worker, request);
    await catchUp(claimant.pools);
    await this.#serveOnce(claimant);
    if (request.waitMs === 0 && claimant.granted.length === 0) {
      // The hint of another process may be under way or lost, and no poll is made for a call that does not wait.
      await look(claimant.pools);
      await this.#serveOnce(claimant);
    }
    const deadline = clock.now() + Math.min(request.waitMs, WAIT_MAX_MS);
    const poll = claimant.granted.length === 0 && request.waitMs > 0 ? workers.polling(worker.name) : null;
    while (claimant.granted.length === 0 && !request.signal.aborted && !this.#isDraining) {
      const left = deadline - clock.now();
      if (left <= 0) break;
      const stopped = await this.#wait(claimant, worker.name, left, request.signal, holding);
      if (stopped) break;
      // It was served with what is out of date; what stands behind that wakes nobody.
      if (claimant.granted.length === 0) await this.#serveOnce(claimant);
      // A hint that was lost must not keep it working on what has ended, or is somebody else's by now.
      if (claimant.granted.length === 0 && (await this.#mustStop(worker.name, holding))) break;
    }
    poll?.close();
    await this.#underWay(claimant);
    board.leave(claimant);
    return this.#close(claimant, request);
  }

  #claimant(worker: WorkerRow, request: ClaimRequest): Claimant {
    const kinds = request.toolKinds ?? worker.toolKinds;
    return {
      workerId: worker.name,
      pools: request.pools ?? worker.pools,
      toolKinds: kinds.length === 0 ? null : new Set(kinds),
      claimId: request.claimId,
      max: request.max,
      room: request.max,
      granted: [],
      onGranted: () => {},
      isClosed: false,
    };
  }

  /** Looks at what is on the board. */
  async #serveOnce(claimant: Claimant): Promise<void> {
    const { board, flusher } = this.#parts;
    for (let pass = 0; pass < PASSES_MAX; pass += 1) {
      // What the last pass took was out of date: so may be what stands behind it.
      if (pass > 0 && claimant.granted.length === 0) await this.#weed(claimant);
      if (claimant.room <= 0 || claimant.granted.length > 0 || board.peek(claimant, 1).length === 0) return;
      await new Promise<void>((resolve) => {
        claimant.onGranted = resolve;
        flusher.serve(claimant);
      });
      claimant.onGranted = () => {};
    }
  }

  /** One comparison at a time; whoever comes while it is under way shares it. */
  async #weed(claimant: Claimant): Promise<void> {
    this.#weeding ??= this.#dropGone(claimant)
      // The store is away: whoever takes the next hint hears of it.
      .catch(() => {})
      .finally(() => {
        this.#weeding = null;
      });
    await this.#weeding;
  }

  /**
   * Other processes give commands away and end them without a word to this one, so half of a common backlog may be gone. One
   * hint after the other would cost a look at its execution each; the store says of many at once which of them still stand.
   */
  async #dropGone(claimant: Claimant): Promise<void> {
    const { board, store } = this.#parts;
    for (;;) {
      const hints = board.peek(claimant, WEEDED_AT_ONCE);
      if (hints.length === 0) return;
      const standing = await store.standing(hints.map(({ commandId }) => commandId));
      const gone = hints.filter((hint) => !standing.has(hint.commandId) && hint.again !== true);
      board.forget(gone);
      if (gone.length < hints.length) return;
    }
  }

  /** Waits for a grant, a stop order, a look at the holdings, the time or the caller's end. True: stop waiting. */
  #wait(
    claimant: Claimant,
    worker: string,
    ms: number,
    signal: AbortSignal,
    holding: readonly Hold[],
  ): Promise<boolean> {
    const { board, cancelCheckSeconds } = this.#parts;
    const checkMs = holding.length === 0 ? ms : Math.min(ms, cancelCheckSeconds * 1000);
    return new Promise<boolean>((resolve) => {
      const wakes = this.#polls.get(worker) ?? new Set();
      this.#polls.set(worker, wakes);
      const end = (stopped: boolean) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        wakes.delete(onWake);
        unwatch();
        if (wakes.size === 0) this.#polls.delete(worker);
        claimant.onGranted = () => {};
        board.leave(claimant);
        resolve(stopped);
      };
      const onAbort = () => end(true);
      const onWake = () => end(holding.length > 0 || this.#isDraining);
      const timer = setTimeout(() => end(checkMs === ms), checkMs);
      signal.addEventListener('abort', onAbort, { once: true });
      wakes.add(onWake);
      const unwatch = this.#holds.watch(holding, onWake);
      claimant.onGranted = () => end(false);
      board.wait(claimant);
      // What was heard since the worker's holdings were looked at.
      if (this.#holds.isDoubtful(holding)) end(true);
    });
  }

  /** Grants that are not committed yet belong to this answer as well. */
  async #underWay(claimant: Claimant): Promise<void> {
    while (claimant.max - claimant.room > claimant.granted.length) {
      await new Promise<void>((resolve) => {
        claimant.onGranted = resolve;
      });
    }
  }

  #close(claimant: Claimant, request: ClaimRequest): readonly GrantedCommand[] {
    claimant.isClosed = true;
    for (const command of claimant.granted) {
      this.#hold(command);
      if (request.claimId !== null) this.#unnamed.granted(command.row, request.claimId, this.#parts.clock.now());
    }
    return claimant.granted;
  }

  /** What this claim id was granted and is still CLAIMED; null when it is a new claim. */
  async #repeatedClaim(worker: WorkerRow, request: ClaimRequest): Promise<readonly GrantedCommand[] | null> {
    const { clock, store } = this.#parts;
    if (request.claimId === null) return null;
    if (!(await this.#unnamed.mayKnow(worker.name, request.claimId, clock.now()))) return null;
    const rows = await store.commandsClaimedBy(request.claimId, worker.name);
    const open = rows.filter((row) => row.status === 'CLAIMED');
    if (open.length === 0) return null;
    const commands: GrantedCommand[] = [];
    for (const row of open.slice(0, request.max)) commands.push(await this.#describe(row));
    for (const command of commands) this.#hold(command);
    return commands;
  }

  /** Whoever claims may get it, and only this worker is not refused. */
  async #offerForgotten(workerId: string): Promise<void> {
    const { board, clock, log } = this.#parts;
    const hints = await this.#unnamed.forgotten(workerId, clock.now());
    if (hints.length === 0) return;
    log.warn('a worker does not name what it was given; it is offered again', {
      worker_id: workerId,
      count: hints.length,
    });
    for (const hint of hints) board.post(hint);
  }

  #hold({ row }: GrantedCommand): void {
    // Told again to the worker that has it, a command is as old as its row says, and due to be refreshed as before.
    this.#holds.granted(row, heldSince(row));
  }

  // ---------------------------------------------------------------- holds

  /** Orders for what a worker says it still works on; everything else it holds is refreshed. */
  stopOrders(worker: string, holding: readonly Hold[], isSure = false): Promise<readonly StopOrder[]> {
    this.#unnamed.named(
      worker,
      holding.map((hold) => hold.commandId),
    );
    return this.#holds.stopOrders(worker, holding, isSure);
  }

  /** While the store is away nobody knows, and whoever waits goes on waiting. */
  async #mustStop(worker: string, holding: readonly Hold[]): Promise<boolean> {
    return this.stopOrders(worker, holding).then(
      (stops) => stops.length > 0,
      () => false,
    );
  }

  // ---------------------------------------------------------------- reports

  /**
   * All reports of a call, also those after one that failed: what their turns grant is only known when each has ended. A
   * failed call has no answer, so what its claimant was granted is given again when the claim is repeated.
   */
  async #reportAll(
    worker: WorkerRow,
    reports: readonly Report[],
    claimant: Claimant | null,
  ): Promise<readonly ReportReceipt[]> {
    const ended = await Promise.allSettled(reports.map((report) => this.#report(worker, report, claimant)));
    const receipts: ReportReceipt[] = [];
    for (const end of ended) {
      if (end.status === 'fulfilled') {
        receipts.push(end.value);
        continue;
      }
      if (claimant !== null) claimant.isClosed = true;
      this.#unnamed.doubt(worker.name);
      throw end.reason;
    }
    return receipts;
  }

  async #report(worker: WorkerRow, report: Report, claimant: Claimant | null): Promise<ReportReceipt> {
    const ids = { reportId: report.reportId, commandId: report.commandId, attempt: report.attempt };
    const answer = (result: ReportReceipt['result'], error: string | null = null): ReportReceipt => ({
      ...ids,
      result,
      eventIds: [],
      commandsGenerated: 0,
      executionStatus: null,
      error,
    });
    try {
      const executionId = report.executionId ?? (await this.#executionOf(report.commandId));
      if (executionId === null) return answer('unknown');
      if (report.events !== null) return await this.#reportEvents(worker, report, executionId);
      if (report.outcome === null) return answer('invalid', 'a report needs an outcome or events');
      return { ...ids, ...(await this.#reportOutcome(worker, report, report.outcome, executionId, claimant)) };
    } catch (error) {
      if (error instanceof UnavailableError) throw error;
      if (error instanceof DomainError) {
        if (error.code === 'not_found') return answer('unknown');
        if (error.code === 'validation_error') return answer('invalid', error.message);
        if (error.code === 'shutting_down' || error.code === 'db_unavailable') throw error;
        return answer('deferred');
      }
      if (!(error instanceof StaleError)) {
        this.#parts.log.error('a report could not be handled', {
          command_id: report.commandId,
          error: error instanceof Error ? error.message : String(error),
        });
      }
      return answer('deferred');
    }
  }

  async #executionOf(commandId: number): Promise<number | null> {
    return this.#holds.executionOf(commandId) ?? (await this.#parts.store.command(commandId))?.executionId ?? null;
  }

  async #reportOutcome(
    worker: WorkerRow,
    report: Report,
    outcome: ReportedOutcome,
    executionId: number,
    claimant: Claimant | null,
  ): Promise<Omit<ReportReceipt, 'reportId' | 'commandId' | 'attempt'>> {
    const { flusher, supervisor, onParked, meter } = this.#parts;
    const answered = (handling: Handling): ReportAnswer | null => {
      if (handling.kind === 'ask') return null;
      if (handling.kind === 'settled' && handling.answer.result === 'duplicate')
        meter.count('svc_events_duplicate_total');
      if (handling.kind === 'settled') return handling.answer;
      const { eventIds, commandsGenerated, status, child } = handling;
      if (child !== null) onParked(executionId, report.commandId, child);
      return { result: 'accepted', eventIds, commandsGenerated, executionStatus: status, error: null };
    };
    const first = answered(
      await flusher.submit({
        executionId,
        claimant,
        apply: (actor) => handleReport(actor, report, outcome, worker.name),
      }),
    );
    if (first !== null) return first;
    return supervisor.asking.run(`c${report.commandId}`, async () => {
      for (let look = 0; look < LOOKS_MAX; look += 1) {
        const seenThrough = (await supervisor.actor(executionId))?.storedThrough ?? 0;
        const known = await this.#known(executionId, report);
        supervisor.refresh(executionId, known.row?.latestEventId ?? 0);
        let isRepeated = false;
        const handling = await flusher.submit({
          executionId,
          claimant,
          apply: (actor): Handling => {
            // A flush that is tried again may have lost to another process: what was known is old.
            if (isRepeated || hasMovedSince(actor, seenThrough, report)) return { kind: 'ask' };
            isRepeated = true;
            return handleKnown(actor, report, outcome, worker.name, known);
          },
        });
        const answer = answered(handling);
        if (answer !== null) return answer;
      }
      return { ...UNKNOWN_REPORT, result: 'deferred' };
    });
  }

  async #known(executionId: number, report: Report): Promise<Known> {
    const { store } = this.#parts;
    const [row, events, reported] = await Promise.all([
      store.command(report.commandId),
      store.commandEvents(executionId, report.commandId),
      store.reported(executionId, [report.reportId]),
    ]);
    return { row, events, reported };
  }

  async #reportEvents(worker: WorkerRow, report: Report, executionId: number): Promise<ReportReceipt> {
    // Nothing of a malformed report is stored, so this is looked at before the first of them is.
    for (const event of report.events ?? []) refuseMisfit(event, report.commandId);
    const eventIds: number[] = [];
    let commandsGenerated = 0;
    let result: ReportReceipt['result'] = 'duplicate';
    let executionStatus: ReportReceipt['executionStatus'] = null;
    for (const [index, event] of (report.events ?? []).entries()) {
      const receipt = await this.#parts.recordEvent({
        ...event,
        executionId,
        commandId: report.commandId,
        attempt: report.attempt,
        workerId: worker.name,
        isReport: true,
        reportId: event.reportId ?? `${report.reportId}:${index}`,
      });
      eventIds.push(receipt.eventId);
      commandsGenerated += receipt.commandsGenerated;
      executionStatus = receipt.executionStatus;
      if (!receipt.duplicate) result = receipt.stale ? 'stale' : receipt.late ? 'late' : 'accepted';
    }
    return {
      reportId: report.reportId,
      commandId: report.commandId,
      attempt: report.attempt,
      result,
      eventIds,
      commandsGenerated,
      executionStatus,
      error: null,
    };
  }
}

function refuseMisfit({ type, commandId }: Pick<EventInput, 'type' | 'commandId'>, own: number): void {
  refuseReserved(type);
  if (commandId !== null && commandId !== own) {
    const sentence = `body.events.command_id: ${commandId} is not the command of the report`;
    throw new DomainError('validation_error', sentence, { errors: [sentence] });
  }
}

/** Throws unknown_worker for one that is not there, or no longer (api 4.6: register first). */
function registered(worker: WorkerRow | null, name: string): WorkerRow {
  if (worker === null || worker.status === 'offline') throw unknownWorker(name);
  return worker;
}

/** Whoever never registered may claim by id; a status of a worker's own words means that it takes nothing (api 4.6). */
function takesCommands(worker: WorkerRow | null): boolean {
  return worker === null || worker.status === 'ready';
}

/** The ages are null where they decided nothing. */
function refusalData(
  row: CommandRow,
  decision: 'refuse' | 'exhausted',
  reason: string,
  ages: { readonly leaseAgeSeconds: number | null; readonly heartbeatAgeSeconds: number | null } | null = null,
): { readonly worker_id: string | null; readonly claim_policy: JsonMap } {
  return {
    worker_id: row.workerId,
    claim_policy: {
      decision,
      reason,
      lease_age_seconds: ages?.leaseAgeSeconds ?? null,
      heartbeat_age_seconds: ages?.heartbeatAgeSeconds ?? null,
      attempt: row.attempt,
    },
  };
}
