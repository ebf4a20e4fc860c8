/**
 * Executions as their callers see them (api 2.3): started, ended, followed, told of events. Every change of an execution is an
 * event delivered through its mailbox; a statement that sets a status does not exist.
 */

import { progressOf } from '../machines/execution/progress.ts';
import { ServerScope } from '../machines/execution/scope.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { JsonMap } from '../machines/json.ts';
import { Facade } from '../machines/playbook/template/facade.ts';
import { MissingPayload, NeedPayload } from '../machines/playbook/values.ts';
import { DomainError } from './errors.ts';
import type { ExecutionActor, Writing } from './execution-actor.ts';
import { ExecutionEnds } from './execution-ends.ts';
import { type ExecutionServiceParts, noSuchExecution } from './execution-parts.ts';
import { ExecutionStarts } from './execution-starts.ts';
import { ExecutionWatch, type Follower } from './execution-watch.ts';
import type { ExecutionRow, ExecutionStatus, Seen } from './ports.ts';
import { readingStage } from './reading-stage.ts';
import { recordEvent, refuseReserved } from './record-event.ts';
import { hasMovedSince, isBehind } from './report.ts';
import type {
  CancelReceipt,
  CleanupReceipt,
  EventInput,
  EventReceipt,
  ExecutionInsight,
  ExecutionService,
  RerunRequest,
  StartReceipt,
  StartRequest,
} from './services.ts';

/** Looks at the log for one event while others keep changing it. */
const LOOKS_MAX = 8;
/** Never a row, so never a second one: the answer names the server's own. */
const UNSTORED: ReadonlySet<string> = new Set(['command.heartbeat', 'step.enter']);

export class Executions implements ExecutionService {
  readonly #parts: ExecutionServiceParts;
  readonly #watch: ExecutionWatch;
  readonly #starts: ExecutionStarts;
  readonly #ends: ExecutionEnds;

  constructor(parts: ExecutionServiceParts) {
    this.#parts = parts;
    this.#watch = new ExecutionWatch(parts);
    this.#starts = new ExecutionStarts(parts, this.#watch);
    this.#ends = new ExecutionEnds(parts);
  }

  start(request: StartRequest): Promise<StartReceipt> {
    return this.#starts.start(request);
  }

  rerun(executionId: number, request: RerunRequest): Promise<StartReceipt> {
    return this.#starts.rerun(executionId, request);
  }

  /** Starts are refused while it drains, but for those that a running execution waits for. */
  drain(isDraining = true): void {
    this.#starts.drain(isDraining);
  }

  cancel(...of: Parameters<ExecutionService['cancel']>): Promise<CancelReceipt> {
    return this.#ends.cancel(...of);
  }

  cleanup(options: Parameters<ExecutionService['cleanup']>[0]): Promise<CleanupReceipt> {
    return this.#ends.cleanup(options);
  }

  endInterrupted(...of: Parameters<ExecutionEnds['endInterrupted']>): Promise<boolean> {
    return this.#ends.endInterrupted(...of);
  }

  finalize(...of: Parameters<ExecutionEnds['finalize']>): ReturnType<ExecutionEnds['finalize']> {
    return this.#ends.finalize(...of);
  }

  endAbandoned(seconds: number): Promise<number> {
    return this.#ends.endAbandoned(seconds);
  }

  endPoisoned(executionId: number, error: unknown): void {
    this.#ends.endPoisoned(executionId, error);
  }

  whenEnded(executionId: number, signal: AbortSignal): Promise<ExecutionRow> {
    return this.#watch.whenEnded(executionId, signal);
  }

  follow(executionId: number, onChange: Follower): () => void {
    return this.#watch.follow(executionId, onChange);
  }

  notify(executionId: number, lastEventId: number, status: ExecutionStatus): void {
    this.#watch.notify(executionId, lastEventId, status);
  }

  async recordEvent(input: EventInput): Promise<EventReceipt> {
    refuseReserved(input.type);
    const { executionId, commandId, reportId } = input;
    if (commandId === null && reportId === null) return this.#recordEvent(input);
    const key = commandId === null ? `e${executionId}:${reportId}` : `c${commandId}`;
    return this.#parts.supervisor.asking.run(key, () => this.#recordEvent(input));
  }

  async #recordEvent(input: EventInput): Promise<EventReceipt> {
    const { store, flusher, supervisor } = this.#parts;
    for (let look = 0; look < LOOKS_MAX; look += 1) {
      const seenThrough = (await supervisor.actor(input.executionId))?.storedThrough ?? 0;
      const [row, events, reported] = await Promise.all([
        input.commandId === null ? null : store.command(input.commandId),
        input.commandId === null ? [] : store.commandEvents(input.executionId, input.commandId),
        input.reportId === null ? [] : store.reported(input.executionId, [input.reportId]),
      ]);
      supervisor.refresh(input.executionId, row?.latestEventId ?? 0);
      const known = { row, events, reported };
      let isRepeated = false;
      const receipt = await flusher.submit({
        executionId: input.executionId,
        apply: (actor) => {
          // A flush that is tried again may have lost to another process: what was known is old.
          if (isRepeated || hasMovedSince(actor, seenThrough, input) || isBehind(actor, known)) return null;
          isRepeated = true;
          return recordEvent(actor, input, known);
        },
      });
      if (receipt === null) continue;
      if (receipt.duplicate && !UNSTORED.has(input.type)) this.#parts.meter.count('svc_events_duplicate_total');
      return receipt;
    }
    throw new DomainError('queue_unavailable', `Execution ${input.executionId} is changing too fast`);
  }

  async insight(seen: Seen): Promise<ExecutionInsight> {
    const { supervisor } = this.#parts;
    for (let look = 1; ; look += 1) {
      const actor = await supervisor.actorOf(seen);
      if (actor === null) throw noSuchExecution(seen.executionId);
      await supervisor.fetchPayloads(writtenRefs(actor));
      try {
        return this.#insightOf(actor);
      } catch (error) {
        // It went on while its values were fetched.
        const isBehindIt = error instanceof NeedPayload || error instanceof MissingPayload;
        if (!isBehindIt || look === LOOKS_MAX) throw error;
      }
    }
  }

  #insightOf(actor: ExecutionActor): ExecutionInsight {
    const run = runOf(actor.state);
    const progress = progressOf(run, actor.plan.graph, actor.touched, actor.row.status !== 'running');
    const named = (status: string) => Object.keys(run.steps).filter((step) => run.steps[step]?.status === status);
    const variables = new ServerScope(readingStage(actor), null).lookup('ctx');
    return {
      progress: progress.percent,
      progressDetail: progress.detail,
      currentStep: actor.row.currentStep,
      completedSteps: named('completed'),
      failedSteps: named('failed'),
      // `ctx` as a plain map is JSON.
      variables: variables instanceof Facade ? (variables.plain() as JsonMap) : {},
    };
  }

  onCommitted(actor: ExecutionActor, writing: Writing): void {
    const { row } = actor;
    this.#watch.notify(row.executionId, row.lastEventId, row.status, row);
    for (const child of writing.abandoned)
      this.#ends.abandon(child, row.executionId).catch((error: unknown) => {
        const who = { execution_id: child, parent_execution_id: row.executionId };
        this.#parts.log.warn('A child nobody waits for could not be ended', { ...who, error: String(error) });
      });
  }
}

/** References of written variables that are stored apart. */
function writtenRefs(actor: ExecutionActor): readonly string[] {
  const { written } = runOf(actor.state);
  const refs: string[] = [];
  for (const name of Object.keys(written)) {
    const ref = actor.state.materials.body(written[name] ?? null)?.references?.[name];
    if (typeof ref === 'string') refs.push(ref);
  }
  return refs;
}
