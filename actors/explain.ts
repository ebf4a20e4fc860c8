/**
 * Why is it waiting (api 2.3.13)? Told from rows alone: open commands, who holds them, who could take them. A run is stuck when
 * nothing that is alive or planned can move it, or when a moment at which somebody should have looked has long passed.
 */
import { instantOf } from '../machines/command/instant.ts';
import { NO_CHILD, retryWaitOf } from '../machines/command/retry-wait.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import { DomainError } from './errors.ts';
import type { Clock, CommandRow, ExecutionRow } from './ports.ts';
import type { ReadService, WorkerRow, WorkerService } from './services.ts';
import type { Supervisor } from './supervisor.ts';

export type Because =
  | 'no_ready_worker'
  | 'waiting_for_claim'
  | 'running'
  | 'worker_stale'
  | 'worker_offline'
  | 'parked_on_child'
  | 'retry_wait'
  | 'inbox_not_drained'
  | 'barrier'
  | 'none';

export interface WaitingOn {
  readonly kind: 'command' | 'inbox' | 'execution';
  readonly commandId: number | null;
  readonly step: string | null;
  readonly commandStatus: string | null;
  readonly since: string | null;
  readonly workerId: string | null;
  readonly nextWakeAt: string | null;
  readonly because: Because;
}

export interface Explanation {
  readonly executionId: number;
  readonly status: string;
  readonly sentence: string;
  readonly stuck: boolean;
  readonly waitingOn: readonly WaitingOn[];
}

/** What only the fold of its log knows of a run. */
export interface Standing {
  /** Steps that wait at their barrier. */
  readonly joins: readonly string[];
  readonly isFailing: boolean;
}

export interface ExplainParts {
  /** Null where it cannot be had: the rows alone tell most. */
  standing(row: ExecutionRow): Promise<Standing | null>;
  readonly reads: Pick<ReadService, 'execution' | 'commands'>;
  readonly workers: Pick<WorkerService, 'list'>;
  readonly clock: Clock;
  readonly reaperIntervalSeconds: number;
  readonly staleSeconds: number;
}

const COMMANDS_MAX = 100;
const DEPTH_MAX = 32;
/** How often an execution that went on between two reads is looked at anew. */
const LOOKS_MAX = 5;

/** From the live execution, or from its snapshot and what came after it. */
export async function standingOf(supervisor: Pick<Supervisor, 'actorOf'>, row: ExecutionRow): Promise<Standing | null> {
  try {
    const actor = await supervisor.actorOf(row);
    if (actor === null) return null;
    const { joins, failing } = runOf(actor.state);
    return { joins: [...joins], isFailing: failing };
  } catch {
    return null;
  }
}

/** Throws `not_found`. */
export async function explainExecution(executionId: number, parts: ExplainParts): Promise<Explanation> {
  const row = await parts.reads.execution(executionId);
  if (row === null) throw new DomainError('not_found', `Execution ${executionId} not found`);
  const workers = await parts.workers.list({ kind: 'worker_pool' });
  const standing = row.status === 'running' ? await parts.standing(row) : null;
  const { sentence, waitingOn: waits, ...rest } = await explain(row, workers, parts, 0);
  // It may have ended since it was read first.
  const { joins = [], isFailing = false } = rest.status === 'running' ? (standing ?? {}) : {};
  const barriers = joins.map((step): WaitingOn => ({ ...NOTHING, kind: 'execution', step, because: 'barrier' }));
  return {
    ...rest,
    sentence: `${isFailing ? 'Failing: nothing new starts. ' : ''}${sentence}${barrierSentence(joins)}`,
    waitingOn: [...waits, ...barriers],
  };
}

function barrierSentence(joins: readonly string[]): string {
  const [first] = joins;
  if (first === undefined) return '';
  const others = joins.length - 1;
  const rest = others === 0 ? '' : others === 1 ? ' and one more step' : ` and ${others} more steps`;
  return ` Step '${first}'${rest} will start when no branch can reach it any more.`;
}

async function explain(
  row: ExecutionRow,
  workers: readonly WorkerRow[],
  parts: ExplainParts,
  depth: number,
  look = 1,
): Promise<Explanation> {
  const head = { executionId: row.executionId, status: row.status };
  if (row.status !== 'running') {
    const reason = row.error === null ? '' : ` (${row.error})`;
    return { ...head, sentence: `It has ended: ${row.status}${reason}.`, stuck: false, waitingOn: [] };
  }
  const commands = await parts.reads.commands({
    executionId: row.executionId,
    statuses: ['PENDING', 'CLAIMED', 'RUNNING'],
    limit: COMMANDS_MAX,
  });
  const now = parts.clock.now();
  const waits: { readonly on: WaitingOn; readonly canMove: boolean }[] = [];
  if (row.handledThrough < row.lastEventId) {
    waits.push({ on: { ...NOTHING, kind: 'inbox', because: 'inbox_not_drained' }, canMove: true });
  }
  for (const command of commands) {
    const because = becauseOf(command, workers, now, parts.staleSeconds);
    const canMove =
      command.parkedOn === null || command.parkedOn === NO_CHILD
        ? MOVING.has(because) || canTake(workers, command)
        : await childMoves(command.parkedOn, workers, parts, depth);
    waits.push({ on: waitingOn(command, because), canMove });
  }
  if (waits.length === 0 && look < LOOKS_MAX) {
    const later = await parts.reads.execution(row.executionId);
    if (later !== null && later.lastEventId !== row.lastEventId) return explain(later, workers, parts, depth, look + 1);
  }
  if (waits.length === 0) waits.push({ on: { ...NOTHING, kind: 'execution', because: 'none' }, canMove: false });
  const overdueMs = parts.reaperIntervalSeconds * 1000;
  const isOverdue = commands.some(
    ({ nextWakeAt, parkedOn }) => parkedOn === null && nextWakeAt !== null && now - instantOf(nextWakeAt) > overdueMs,
  );
  // What nobody works on says more than what is under way.
  const blocked = waits.find(({ on, canMove }) => on.kind === 'command' && !canMove)?.on.commandId;
  const first = commands.find(({ commandId }) => commandId === blocked) ?? commands[0];
  return {
    ...head,
    sentence:
      first === undefined ? EMPTY_SENTENCE[waits[0]?.on.kind ?? 'execution'] : sentenceOf(first, waits, workers, now),
    stuck: isOverdue || !waits.some(({ canMove }) => canMove),
    waitingOn: waits.map(({ on }) => on),
  };
}

const NOTHING = {
  commandId: null,
  step: null,
  commandStatus: null,
  since: null,
  workerId: null,
  nextWakeAt: null,
} as const;

/** Reasons that need no other worker to come. */
const MOVING: ReadonlySet<Because> = new Set<Because>(['running', 'waiting_for_claim', 'retry_wait']);

function becauseOf(command: CommandRow, workers: readonly WorkerRow[], now: number, staleSeconds: number): Because {
  const wait = retryWaitOf(command);
  if (wait !== null && instantOf(wait.at) > now) return 'retry_wait';
  if (wait !== null) return canTake(workers, command) ? 'waiting_for_claim' : 'no_ready_worker';
  if (command.parkedOn !== null) return 'parked_on_child';
  if (command.workerId === null) return canTake(workers, command) ? 'waiting_for_claim' : 'no_ready_worker';
  const holder = workers.find((worker) => worker.name === command.workerId);
  if (holder === undefined || holder.status === 'offline') return 'worker_offline';
  return now - instantOf(holder.heartbeatAt) >= staleSeconds * 1000 ? 'worker_stale' : 'running';
}

function canTake(workers: readonly WorkerRow[], { pool, toolKind }: CommandRow): boolean {
  return serving(workers, pool).some(({ toolKinds }) => toolKinds.length === 0 || toolKinds.includes(toolKind));
}

function serving(workers: readonly WorkerRow[], pool: string): readonly WorkerRow[] {
  return workers.filter((worker) => worker.status === 'ready' && worker.pools.includes(pool));
}

/** A child that has ended is delivered by reconciliation; one that runs must be able to move itself. */
async function childMoves(
  childId: number,
  workers: readonly WorkerRow[],
  parts: ExplainParts,
  depth: number,
): Promise<boolean> {
  if (depth >= DEPTH_MAX) return true;
  const child = await parts.reads.execution(childId);
  if (child === null) return false;
  return child.status !== 'running' || !(await explain(child, workers, parts, depth + 1)).stuck;
}

function waitingOn(command: CommandRow, because: Because): WaitingOn {
  return {
    kind: 'command',
    commandId: command.commandId,
    step: command.stepName,
    commandStatus: command.status,
    since: sinceOf(command),
    workerId: command.workerId,
    nextWakeAt: command.nextWakeAt,
    because,
  };
}

function sinceOf(command: CommandRow): string {
  return command.startedAt ?? command.claimedAt ?? command.createdAt;
}

const EMPTY_SENTENCE = {
  inbox: 'Waiting for events in its log to be handled.',
  execution: 'Nothing is open and nothing is planned: only an operator can move it.',
  command: '',
} as const;

function sentenceOf(
  command: CommandRow,
  waits: readonly { readonly on: WaitingOn }[],
  workers: readonly WorkerRow[],
  now: number,
): string {
  const ready = serving(workers, command.pool);
  const isServed = ready.length > 0;
  const isFull = ready.every(({ openCommands, capacity }) => openCommands >= capacity);
  const because = waits.find(({ on }) => on.commandId === command.commandId)?.on.because ?? 'none';
  const what = `command ${command.commandId} (step '${command.stepName}')`;
  const seconds = `${Math.max(0, Math.round((now - instantOf(sinceOf(command))) / 1000))} s`;
  const more = waits.length - 1;
  const others = more === 0 ? '' : more === 1 ? ' One more is open.' : ` ${more} more are open.`;
  return `${SENTENCES[because]?.({ command, what, seconds, isServed, isFull }) ?? `Waiting for ${what}.`}${others}`;
}

interface Words {
  readonly command: CommandRow;
  readonly what: string;
  readonly seconds: string;
  /** A ready worker takes commands of the pool, whatever their kind. */
  readonly isServed: boolean;
  /** Whoever takes commands of the pool has as many as it wants. */
  readonly isFull: boolean;
}

const SENTENCES: Partial<Record<Because, (words: Words) => string>> = {
  no_ready_worker: ({ command, what, seconds, isServed }) =>
    `Waiting for a worker of pool '${command.pool}' to claim ${what}, pending for ${seconds}; ${
      isServed ? `no ready worker of it takes tool kind '${command.toolKind}'` : 'no ready worker serves this pool'
    }.`,
  waiting_for_claim: ({ command, what, seconds, isFull }) =>
    `Waiting for a worker of pool '${command.pool}' to claim ${what}, pending for ${seconds}${
      isFull ? '; all of them are busy' : ''
    }.`,
  running: ({ command, what, seconds }) => `Worker '${command.workerId}' has been working on ${what} for ${seconds}.`,
  worker_stale: ({ command, what }) =>
    `Worker '${command.workerId}' holds ${what} and has not been heard of lately; another one may take it over.`,
  worker_offline: ({ command, what }) =>
    `Worker '${command.workerId}' held ${what} and is gone; another one of pool '${command.pool}' may take it over.`,
  retry_wait: ({ command, what }) => `Waiting for the next try of ${what} at ${command.nextWakeAt}.`,
  parked_on_child: ({ command, what, seconds }) =>
    `Waiting for execution ${command.parkedOn}, which ${what} started ${seconds} ago.`,
};
