/**
 * The actors of one process, put together over their ports. Production hands in PostgreSQL and the network, tests and the
 * simulator hand in memory; what happens in between is the same code.
 */

import type { ClaimPolicy } from '../machines/command/claim.ts';
import { instantOf } from '../machines/command/instant.ts';
import { NO_CHILD } from '../machines/command/retry-wait.ts';
import type { EngineLimits } from '../machines/execution/stage.ts';
import type { JsonMap } from '../machines/json.ts';
import type { CurrentCaller } from './audit.ts';
import { CommandBoard } from './board.ts';
import { Children } from './children.ts';
import { hintIn } from './command-hint.ts';
import { Commands } from './command-service.ts';
import { CommitTally } from './commit-tally.ts';
import { Executions } from './execution-service.ts';
import { Flusher } from './flush.ts';
import type { KeychainPreparation } from './keychain-preparation.ts';
import type { Bus, Clock, CommandHint, CommandRow, Ids, Log, Meter, ParkedCommand, Store } from './ports.ts';
import { NO_TRACER, type Tracer } from './ports.ts';
import { publishHints, Recovery } from './recovery.ts';
import { RetryWaits } from './retry-waits.ts';
import type { CatalogService, WorkerService } from './services.ts';
import { Supervisor } from './supervisor.ts';
import { recordEnds } from './traces.ts';
import { WakeQueue } from './wake-queue.ts';

export interface EngineSettings {
  readonly limits: EngineLimits;
  readonly policy: ClaimPolicy;
  readonly pendingRetrySeconds: number;
  readonly stepTimeoutSeconds: number;
  readonly commandMaxAttempts: number;
  readonly cancelCheckSeconds: number;
  readonly nestingMax: number;
  readonly flushIntervalMs: number;
  readonly flushMaxTurns: number;
  readonly mailboxMax: number;
  readonly actorsMax: number;
  readonly payloadBytesMax: number;
}

export interface EnginePorts {
  readonly store: Store;
  readonly ids: Ids;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Log;
  readonly meter: Meter;
  /** Without it nothing is traced. */
  readonly tracer?: Tracer;
  readonly catalog: CatalogService;
  readonly workers: WorkerService;
  /** Resolves the entries that playbooks declare; without it they are left to the API. */
  readonly keychain?: KeychainPreparation;
  /** Who asks, where requests are served. */
  readonly caller?: CurrentCaller;
  /** Hex, of the text in UTF-8. */
  sha256(text: string): string;
}

export interface RunningEngine {
  readonly executions: Executions;
  readonly commands: Commands;
  readonly recovery: Recovery;
  readonly board: CommandBoard;
  readonly supervisor: Supervisor;
  readonly limits: EngineLimits;
  readonly flusher: Flusher;
  /** Hands to the meter what was only added up; to be called before it is read. */
  tell(): void;
  /** Heals what a crash left, then keeps looking. */
  start(): Promise<void>;
  /** No new work is taken; what was accepted is written. */
  stop(): Promise<void>;
}

/** Their jobs share flushes; an execution's mailbox takes no more than so many. */
const WAKES_AT_ONCE = 32;

export function createEngine(ports: EnginePorts, settings: EngineSettings): RunningEngine {
  const { store, ids, clock, bus, log, meter, catalog, workers, tracer = NO_TRACER } = ports;
  const tally = new CommitTally(meter);
  const board = new CommandBoard();
  const supervisor = new Supervisor({
    store,
    meter,
    playbook: async (catalogId) => (await catalog.playbook(catalogId)).playbook,
    actorsMax: settings.actorsMax,
    payloadBytesMax: settings.payloadBytesMax,
  });
  const engine = supervisor.attach({
    ids,
    limits: settings.limits,
    pendingRetrySeconds: settings.pendingRetrySeconds,
    leaseSeconds: settings.policy.leaseSeconds,
    stepTimeoutSeconds: settings.stepTimeoutSeconds,
    commandMaxAttempts: settings.commandMaxAttempts,
    tracer,
    sha256: ports.sha256,
  });
  const flusher = new Flusher({
    store,
    supervisor,
    board,
    clock,
    log,
    meter,
    tracer,
    policy: settings.policy,
    intervalMs: settings.flushIntervalMs,
    maxTurns: settings.flushMaxTurns,
    mailboxMax: settings.mailboxMax,
    holderOf: (name) => workers.holder(name),
    onPoisoned: (executionId, error) => executions.endPoisoned(executionId, error),
    reserveIds: (count) => ids.reserve(count),
    onCommitted(actor, writing) {
      tally.add(actor, writing);
      if (tracer.isOn) recordEnds(tracer, actor, writing);
      commands.onCommitted(actor, writing);
      for (const row of writing.changed.values()) expectWake(row);
      executions.onCommitted(actor, writing);
      if (actor.row.status === 'running') return;
      children.onEnded(actor.row);
      const { executionId, lastEventId, status } = actor.row;
      bus.publish('executions', [{ execution_id: executionId, last_event_id: lastEventId, status }]);
    },
    onPending: (hints) => publishHints(bus, hints),
  });
  const children = new Children({ store, flusher, supervisor, log });
  const retries = new RetryWaits({ store, flusher, supervisor, announce: (hints) => recovery.announce(hints) });
  const wake = async (waits: readonly ParkedCommand[]): Promise<number> => {
    let count = 0;
    for (let from = 0; from < waits.length; from += WAKES_AT_ONCE) {
      const group = waits.slice(from, from + WAKES_AT_ONCE);
      const ended = await Promise.allSettled(
        group.map((wait) => (wait.childExecutionId === NO_CHILD ? retries.wake(wait) : children.deliver(wait, true))),
      );
      for (const end of ended) {
        if (end.status === 'fulfilled') count += end.value ? 1 : 0;
        // The moment stays in the row: reconciliation comes back to it.
        else log.warn('A wait could not be ended', { error: String(end.reason) });
      }
    }
    return count;
  };
  const wakes = new WakeQueue({ clock, onDue: (waits) => void wake(waits) });
  const expectWake = ({ executionId, commandId, parkedOn, nextWakeAt }: CommandRow): void => {
    if (parkedOn === null || nextWakeAt === null) return;
    wakes.add(instantOf(nextWakeAt), { executionId, commandId, childExecutionId: parkedOn });
  };
  const recovery = new Recovery({
    store,
    board,
    flusher,
    supervisor,
    children,
    wake,
    endAbandoned: () => executions.endAbandoned(0),
    expect: ({ nextWakeAt, ...wait }) => wakes.add(instantOf(nextWakeAt), wait),
    bus,
    clock,
    log,
  });
  const executions = new Executions({
    store,
    flusher,
    supervisor,
    catalog,
    ids,
    clock,
    engine,
    bus,
    nestingMax: settings.nestingMax,
    log,
    meter,
    keychain: ports.keychain ?? null,
    caller: ports.caller ?? null,
  });
  const commands = new Commands({
    store,
    flusher,
    supervisor,
    board,
    workers,
    clock,
    log,
    meter,
    policy: settings.policy,
    engine,
    cancelCheckSeconds: settings.cancelCheckSeconds,
    catchUp: (pools) => recovery.catchUp(pools),
    look: (pools) => recovery.look(pools),
    recordEvent: (input) => executions.recordEvent(input),
    onParked: (executionId, commandId, childId) => children.onParked(executionId, commandId, childId),
  });
  const unsubscribe = bus.subscribe((topic, hints) => {
    if (topic === 'executions') for (const hint of hints) notifyOf(executions, commands, recovery, hint);
    if (topic.startsWith('commands.')) takeHints(recovery, topic.slice('commands.'.length), hints);
  });

  return {
    executions,
    commands,
    recovery,
    board,
    supervisor,
    limits: settings.limits,
    flusher,
    tell: () => tally.tell(),
    start: () => recovery.start(),
    async stop() {
      unsubscribe();
      recovery.stop();
      wakes.stop();
      commands.drain();
      await flusher.stop();
    },
  };
}

function notifyOf(executions: Executions, commands: Commands, recovery: Recovery, hint: JsonMap): void {
  const { execution_id: id, last_event_id: last, status, event_id: written } = hint;
  if (typeof id !== 'number') return;
  if (typeof last !== 'number') {
    // Somebody wrote into the log by hand (`core.cancel_execution`) and nobody has folded it yet.
    if (typeof written === 'number') void recovery.drain(id);
    return;
  }
  if (status === 'completed' || status === 'failed' || status === 'cancelled' || status === 'running') {
    executions.notify(id, last, status);
    if (status !== 'running') commands.onEndedElsewhere(id);
  }
}

/** A message that names no command is a sign that something is there. */
function takeHints(recovery: Recovery, pool: string, messages: readonly JsonMap[]): void {
  const known: CommandHint[] = [];
  for (const message of messages) {
    const hint = hintIn(pool, message);
    if (hint === null) {
      // A lost look is repeated by the poll.
      recovery.onPoolHint(pool).catch(() => {});
      return;
    }
    known.push(hint);
  }
  recovery.onHint(known);
}
