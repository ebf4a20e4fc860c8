/**
 * Why an execution waits, in one sentence (api 2.3.13). A pure judgement over facts somebody else has read: open
 * commands with what is known of their workers, joins at their barriers, events nobody has handled yet. Inspection and
 * `/explain` share it, so that both say the same.
 */
import { instantOf } from '../command/instant.ts';
import type { Run } from './run.ts';

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

export interface WaitingCommand {
  readonly commandId: number;
  readonly step: string;
  readonly status: 'PENDING' | 'CLAIMED' | 'RUNNING';
  /** Instant of what the status says: issued, claimed, started. */
  readonly since: string;
  readonly pool: string;
  /** Grants so far. */
  readonly attempt: number;
  readonly workerId: string | null;
  /** What is known of that worker; null while nobody holds the command. */
  readonly worker: 'ready' | 'stale' | 'offline' | null;
  /** A ready worker serves its pool. */
  readonly isServed: boolean;
  readonly parkedOn: number | null;
  readonly nextWakeAt: string | null;
}

export interface WaitFacts {
  readonly status: 'running' | 'completed' | 'failed' | 'cancelled';
  /** Open commands, oldest first; a sample when there are many. */
  readonly commands: readonly WaitingCommand[];
  /** How many there are in all. */
  readonly openCommands: number;
  /** Steps at their barrier, and since when. */
  readonly joins: readonly { readonly step: string; readonly since: string }[];
  /** Events in the log that no turn has handled, and the instant of the first of them. */
  readonly inbox: { readonly count: number; readonly since: string | null };
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** How long after its `next_wake_at` a command counts as forgotten: one interval of the reaper. */
  readonly overdueAfterMs: number;
}

export interface Wait {
  readonly kind: 'command' | 'child' | 'inbox' | 'barrier';
  readonly commandId: number | null;
  readonly childExecutionId: number | null;
  readonly step: string | null;
  readonly commandStatus: 'PENDING' | 'CLAIMED' | 'RUNNING' | null;
  readonly since: string | null;
  readonly workerId: string | null;
  readonly nextWakeAt: string | null;
  readonly because: Because;
}

export interface Explanation {
  readonly sentence: string;
  /** Nothing alive or scheduled can move it without an operator, or what was scheduled did not happen. */
  readonly isStuck: boolean;
  readonly waitingOn: readonly Wait[];
}

/** The reasons a sentence is about first: what nobody works on, before what goes well. */
const GRAVITY: readonly Because[] = [
  'no_ready_worker',
  'worker_offline',
  'worker_stale',
  'inbox_not_drained',
  'retry_wait',
  'waiting_for_claim',
  'parked_on_child',
  'running',
  'barrier',
  'none',
];

const HOPELESS: ReadonlySet<Because> = new Set<Because>(['no_ready_worker', 'barrier', 'none']);

export function explainWaiting(facts: WaitFacts): Explanation {
  if (facts.status !== 'running') {
    return { sentence: `The execution is ${facts.status}; nothing is waited for.`, isStuck: false, waitingOn: [] };
  }
  const waits: Wait[] = facts.commands.map(waitOf);
  if (facts.inbox.count > 0)
    waits.push({ ...NOTHING, kind: 'inbox', since: facts.inbox.since, because: 'inbox_not_drained' });
  for (const { step, since } of facts.joins)
    waits.push({ ...NOTHING, kind: 'barrier', step, since, because: 'barrier' });
  const first = [...waits].sort((a, b) => GRAVITY.indexOf(a.because) - GRAVITY.indexOf(b.because))[0];
  if (first === undefined) {
    const sentence = 'Nothing is under way: no command is open and no event waits, so only an operator can end it.';
    return { sentence, isStuck: true, waitingOn: [] };
  }
  const isForgotten = facts.commands.some(
    ({ nextWakeAt }) => nextWakeAt !== null && instantOf(nextWakeAt) + facts.overdueAfterMs < facts.now,
  );
  return {
    sentence: sentenceOf(first, facts),
    isStuck: isForgotten || waits.every((wait) => HOPELESS.has(wait.because)),
    waitingOn: waits,
  };
}

/** What a run waited for at some point of its log, as far as the log alone can tell: nothing is known of workers there. */
export function explainRun(run: Run, state: string): string {
  if (state === 'created') return 'Nothing has happened yet.';
  if (state !== 'working' && state !== 'failing') return `The execution is ${state}; nothing is waited for.`;
  const open = Object.entries(run.open);
  const parked = open.filter(([, command]) => command.parkedOn !== null);
  const [first] = open;
  const joins = run.joins.length === 0 ? '' : `; ${listOf(run.joins)} waits at its barrier`;
  if (first === undefined) return `No command is open${joins}.`;
  const prefix = state === 'failing' ? 'Failing: nothing new starts. ' : '';
  const [id, command] = first;
  if (open.length === 1) {
    const what =
      command.parkedOn === null
        ? `the outcome of command ${id} (step '${command.step}')`
        : `child execution ${command.parkedOn} (step '${command.step}')`;
    return `${prefix}Waiting for ${what}${joins}.`;
  }
  const children = parked.length === 0 ? '' : `, ${parked.length} of them for child executions`;
  const steps = [...new Set(open.map(([, each]) => each.step))];
  return `${prefix}Waiting for ${open.length} commands of ${listOf(steps)}${children}${joins}.`;
}

const NOTHING: Wait = {
  kind: 'command',
  commandId: null,
  childExecutionId: null,
  step: null,
  commandStatus: null,
  since: null,
  workerId: null,
  nextWakeAt: null,
  because: 'none',
};

function waitOf(command: WaitingCommand): Wait {
  return {
    kind: command.parkedOn === null ? 'command' : 'child',
    commandId: command.commandId,
    childExecutionId: command.parkedOn,
    step: command.step,
    commandStatus: command.status,
    since: command.since,
    workerId: command.workerId,
    nextWakeAt: command.nextWakeAt,
    because: reasonOf(command),
  };
}

function reasonOf(command: WaitingCommand): Because {
  if (command.parkedOn !== null) return 'parked_on_child';
  if (command.worker === 'ready') return 'running';
  // The claim of a lost worker is taken over by any other of the pool, if there is one.
  if (!command.isServed) return command.worker === 'stale' ? 'worker_stale' : 'no_ready_worker';
  if (command.worker === 'stale') return 'worker_stale';
  if (command.worker === 'offline') return 'worker_offline';
  return command.attempt > 0 ? 'retry_wait' : 'waiting_for_claim';
}

function sentenceOf(wait: Wait, facts: WaitFacts): string {
  const command = facts.commands.find(({ commandId }) => commandId === wait.commandId);
  const others = facts.openCommands - 1;
  const more =
    command === undefined || others <= 0 ? '' : ` ${others} more ${others === 1 ? 'command is' : 'commands are'} open.`;
  const age = wait.since === null ? '' : ` for ${lapse(facts.now - instantOf(wait.since))}`;
  const named = `command ${wait.commandId} (step '${wait.step}')`;
  switch (wait.because) {
    case 'no_ready_worker': {
      const pool = command?.pool ?? '';
      const lost = wait.workerId === null ? '' : ` of worker '${wait.workerId}', which is gone`;
      const state = wait.workerId === null ? `pending${age}` : `held${age}`;
      return `Waiting for a worker of pool '${pool}' to claim ${named}${lost}, ${state}; no ready worker serves this pool.${more}`;
    }
    case 'waiting_for_claim':
    case 'retry_wait':
      return `Waiting for a worker of pool '${command?.pool ?? ''}' to claim ${named}, pending${age}.${more}`;
    case 'worker_offline':
      return `Waiting for another worker to take over ${named}: worker '${wait.workerId}' is offline.${more}`;
    case 'worker_stale':
      return `Waiting for ${named}: worker '${wait.workerId}' holds it${age} and has not been heard of lately.${more}`;
    case 'running':
      return `Waiting for worker '${wait.workerId}' to finish ${named}, ${wait.commandStatus === 'RUNNING' ? 'running' : 'claimed'}${age}.${more}`;
    case 'parked_on_child':
      return `Waiting for child execution ${wait.childExecutionId} of ${named}${age}.${more}`;
    case 'inbox_not_drained': {
      const { count } = facts.inbox;
      return `Waiting for the server to handle ${count} recorded ${count === 1 ? 'event' : 'events'}, there${age}.`;
    }
    case 'barrier':
    case 'none':
      return `Step '${wait.step}' waits at its barrier${age}, and nothing under way can reach it.`;
  }
}

function listOf(steps: readonly string[]): string {
  const shown = steps.slice(0, 3).map((step) => `'${step}'`);
  const rest = steps.length - shown.length;
  return `${steps.length === 1 ? 'step' : 'steps'} ${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

function lapse(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
