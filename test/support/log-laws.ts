/**
 * What must hold of every execution after whatever happened to the processes: the invariants of api 3.6 as pure functions
 * over its rows. Each answers with the sentences that are broken, so an empty list is the proof and a full one the report.
 * Nothing here looks at memory of the service: rows are read by SQL, and the fold is done anew from the first event.
 */
import { isDeepStrictEqual } from 'node:util';
import type { CommandRow, ExecutionRow, StoredSnapshot } from '../../actors/ports.ts';
import { type LogEvent, TERMINAL_TYPES } from '../../machines/events.ts';
import { EXECUTION_MACHINE_VERSION } from '../../machines/execution/machine.ts';
import { progressOf, touchedBy } from '../../machines/execution/progress.ts';
import { runOf } from '../../machines/execution/take-turn.ts';
import type { Graph } from '../../machines/playbook/graph.ts';
import { replayExecution } from '../../machines/replay.ts';

/** One execution as it lies in the database. */
export interface RecordedRun {
  readonly row: ExecutionRow;
  readonly snapshot: StoredSnapshot | null;
  /** By event id. */
  readonly events: readonly LogEvent[];
  readonly commands: readonly CommandRow[];
  readonly graph: Graph;
}

type Law = (run: RecordedRun) => readonly string[];

/** Sentences about everything that is broken, each with the name of its law and the execution. */
export function brokenLaws(runs: readonly RecordedRun[]): readonly string[] {
  return runs.flatMap((run) =>
    Object.entries(LAWS).flatMap(([name, law]) => law(run).map((each) => `${run.row.executionId} ${name}: ${each}`)),
  );
}

const LAWS: Readonly<Record<string, Law>> = {
  ids: ({ row, events }) => [
    ...events.flatMap((event, index) =>
      when(event.eventId !== index + 1, `event ${event.eventId} is row ${index + 1}`),
    ),
    ...when(row.lastEventId !== events.length, `the head says ${row.lastEventId}, the log has ${events.length}`),
  ],

  started: ({ events }) => [
    ...when(events[0]?.type !== 'execution.started', `event 1 is ${events[0]?.type}`),
    ...when(count(events, 'execution.started') !== 1, `started ${count(events, 'execution.started')} times`),
  ],

  cause: ({ events }) =>
    events.flatMap((event) => [
      ...when(event.causeId > event.eventId, `event ${event.eventId} precedes its cause`),
      ...when(
        event.causeId !== event.eventId && events[event.causeId - 1]?.causeId !== event.causeId,
        `the cause of event ${event.eventId} is itself a decision`,
      ),
      ...when(
        event.parentEventId !== null && event.parentEventId >= event.eventId,
        `event ${event.eventId} precedes its parent`,
      ),
    ]),

  one_terminal: ({ row, events }) => {
    const ends = events.filter((event) => TERMINAL_TYPES.has(event.type)).length;
    return when(ends !== (row.status === 'running' ? 0 : 1), `${row.status} with ${ends} terminal events`);
  },

  after_terminal: ({ events }) => {
    const end = events.find((event) => TERMINAL_TYPES.has(event.type));
    if (end === undefined) return [];
    return events.slice(end.eventId).flatMap((event) => {
      const isAllowed =
        event.type.startsWith('batch.') ||
        event.stale ||
        event.meta['late'] === true ||
        (event.type === 'command.cancelled' && event.causeId === end.causeId);
      return when(!isAllowed, `${event.type} (event ${event.eventId}) after the end (event ${end.eventId})`);
    });
  },

  pair: ({ events }) =>
    events.flatMap((event, index) => {
      const before = events[index - 1];
      if (event.type !== 'playbook.completed' && event.type !== 'playbook.failed') return [];
      const expected = event.type.replace('playbook', 'workflow');
      // An end from outside is its own cause.
      const isDecision = event.causeId !== event.eventId;
      return when(
        before?.type !== expected || (isDecision && before.causeId !== event.causeId),
        `${event.type} (event ${event.eventId}) stands behind ${before?.type}`,
      );
    }),

  /** Every decision once: an activation is entered once, and activations of a step count up by one. */
  entered_once: ({ events }) => {
    const entered = new Map<string, number>();
    return events.flatMap((event) => {
      if (event.type !== 'step.enter') return [];
      const before = entered.get(event.nodeName) ?? 0;
      entered.set(event.nodeName, Number(event.context['activation']));
      return when(
        event.context['activation'] !== before + 1,
        `${event.nodeName} was entered after activation ${before}`,
      );
    });
  },

  issued_once: ({ events, commands }) => {
    const issued = events.filter((event) => event.type === 'command.issued');
    const rows = new Map(commands.map((row) => [row.commandId, row]));
    return [
      ...when(new Set(commands.map((row) => row.commandKey)).size !== commands.length, 'a command key is there twice'),
      ...when(issued.length !== commands.length, `${issued.length} commands issued, ${commands.length} rows`),
      ...issued.flatMap((event) =>
        when(rows.get(event.commandId ?? 0)?.eventId !== event.eventId, `event ${event.eventId} has no row of its own`),
      ),
    ];
  },

  settled_once: (run) => ofCommands(run, settledOnce),

  claim: (run) => ofCommands(run, claimsInOrder),

  wake: ({ row, commands }) => {
    if (row.status !== 'running') return [];
    const open = commands.filter(isOpen);
    return [
      ...open.flatMap((each) => when(each.nextWakeAt === null, `nobody will look at command ${each.commandId} again`)),
      ...when(
        open.length === 0 && row.nextWakeAt === null && row.handledThrough === row.lastEventId,
        'nothing is open and nobody will look again',
      ),
    ];
  },

  projection: ({ row, events, commands, graph }) => {
    const state = replayExecution(events);
    const run = runOf(state);
    const end = events.find((event) => TERMINAL_TYPES.has(event.type));
    const open = commands.filter(isOpen).map((each) => String(each.commandId));
    const { value } = state.snapshot;
    const folded = typeof value === 'string' ? value : Object.keys(value).join();
    const progress = progressOf(run, graph, touchedBy(run, graph), end !== undefined);
    return [
      ...when(folded !== row.status, `folds to ${folded}, the row says ${row.status}`),
      ...when(row.handledThrough !== row.lastEventId, `handled through ${row.handledThrough} of ${row.lastEventId}`),
      ...when(row.openCommands !== open.length, `the head counts ${row.openCommands} open commands of ${open.length}`),
      ...when(row.progress !== progress.percent, `progress ${row.progress}, folded ${progress.percent}`),
      ...when((end?.at ?? null) !== row.endTime, `ended at ${row.endTime}, the log says ${end?.at}`),
      ...when(
        end?.type === 'playbook.completed' && !isDeepStrictEqual(end.context['result'] ?? null, row.result),
        'the result differs from the log',
      ),
      ...when(
        row.status === 'running' && !isDeepStrictEqual(Object.keys(run.open).sort(), open.sort()),
        `open in the fold: ${Object.keys(run.open).join()}; open rows: ${open.join()}`,
      ),
    ];
  },

  snapshot: ({ snapshot, events }) => {
    if (snapshot === null || snapshot.machineVersion !== EXECUTION_MACHINE_VERSION) return [];
    const state = replayExecution(events.filter((event) => event.causeId <= snapshot.throughEventId));
    return [
      ...when(
        snapshot.throughEventId > events.length,
        `stands for event ${snapshot.throughEventId}, which is not there`,
      ),
      ...when(!isDeepStrictEqual(snapshot.value, state.snapshot.value), 'its state differs from the fold'),
      ...when(
        // The stored one went through JSON; so does ours.
        !isDeepStrictEqual(snapshot.context['run'], JSON.parse(JSON.stringify(runOf(state)))),
        `its run differs from the fold through event ${snapshot.throughEventId}`,
      ),
    ];
  },
};

function ofCommands(
  { events, commands }: RecordedRun,
  law: (command: CommandRow, own: readonly LogEvent[]) => readonly string[],
): readonly string[] {
  const byCommand = Map.groupBy(events, (event) => event.commandId);
  return commands.flatMap((command) =>
    law(command, byCommand.get(command.commandId) ?? []).map((each) => `command ${command.commandKey} ${each}`),
  );
}

/** One outcome, one exit, one closing row at most, and a row that says the same. */
function settledOnce(command: CommandRow, own: readonly LogEvent[]): readonly string[] {
  const counted = own.filter((event) => !event.stale);
  const of = (...types: readonly string[]) => counted.filter((event) => types.includes(event.type));
  const closing = counted.filter((event) => event.closes);
  const hasEnded = command.status === 'COMPLETED' || command.status === 'FAILED';
  return [
    ...when(of('call.done', 'call.error').length > 1, 'has two outcomes'),
    ...when(of('step.exit').length > 1, 'left its step twice'),
    ...when(of('command.started').length > 1, 'was started twice'),
    ...when(closing.length > 1, 'was closed twice'),
    ...when(hasEnded && closing.length !== 1, `is ${command.status} and no row closes it`),
    ...when(closing.length === 1 && isOpen(command), `is ${command.status} and was closed`),
    ...when(
      closing[0]?.type === 'command.completed' && command.status !== 'COMPLETED',
      `completed, is ${command.status}`,
    ),
    ...when(closing[0]?.type === 'command.failed' && command.status !== 'FAILED', `failed, is ${command.status}`),
    ...when(command.status === 'RUNNING' && of('command.started').length === 0, 'is RUNNING and was never started'),
    ...when(hasEnded && command.latestEventId > (own.at(-1)?.eventId ?? 0), 'names an event that is not there'),
  ];
}

/** Attempts count up by one, each with one claim, and what counts was reported by the holder of that time. */
function claimsInOrder(command: CommandRow, own: readonly LogEvent[]): readonly string[] {
  const claims = own.filter((event) => event.type === 'command.claimed');
  const last = claims.at(-1);
  const isHeld = command.status === 'CLAIMED' || command.status === 'RUNNING';
  return [
    ...claims.flatMap((claim, index) =>
      when(claim.attempt !== index + 1, `claim ${index + 1} is attempt ${claim.attempt}`),
    ),
    ...when(command.attempt !== claims.length, `counts ${command.attempt} attempts, ${claims.length} claims`),
    ...when(
      isHeld && command.workerId !== (last?.workerId ?? null),
      `is held by ${command.workerId}, not ${last?.workerId}`,
    ),
    ...own
      .filter((event) => event.reportId !== null && event.workerId !== null)
      .flatMap((event) => {
        const granted = claims.find((claim) => claim.attempt === event.attempt);
        const current = claims.findLast((claim) => claim.eventId < event.eventId)?.attempt ?? null;
        return [
          ...when(granted?.workerId !== event.workerId, `was reported (event ${event.eventId}) by a stranger`),
          ...when(!event.stale && current !== event.attempt, `heeded attempt ${event.attempt} during ${current}`),
        ];
      }),
  ];
}

function isOpen({ status }: CommandRow): boolean {
  return status === 'PENDING' || status === 'CLAIMED' || status === 'RUNNING';
}

function count(events: readonly LogEvent[], type: string): number {
  return events.filter((event) => event.type === type).length;
}

function when(isBroken: boolean, sentence: string): readonly string[] {
  return isBroken ? [sentence] : [];
}
