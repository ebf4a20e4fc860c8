/**
 * The invariants of a world, each a predicate of its own under the name of the catalogue. Most watch every commit with the
 * rows as they were before it; all look again at the end. They judge by the log, the rows and what outsiders were told,
 * so a promise is checked itself and not by what another guard made of its breach.
 */
import type { BatchRow, CommandRow, EventRow, Flush } from '../../actors/ports.ts';
import { canonicalJson } from '../../machines/canonical-json.ts';
import { TERMINAL_TYPES } from '../../machines/events.ts';
import { runOf } from '../../machines/execution/take-turn.ts';
import { replayExecution } from '../../machines/replay.ts';
import { childrenEnd } from './children.ts';
import type { Before, Database } from './database.ts';
import type { Life } from './kernel.ts';
import type { Ledger } from './ledger.ts';
import type { Plan } from './plan.ts';

export interface Witness {
  readonly plan: Plan;
  readonly database: Database;
  readonly ledger: Ledger;
  /** Everything that was said on the bus or logged. */
  readonly said: readonly string[];
  /** Servers that run, with what is known of their health. */
  servers(): readonly { readonly life: Life; readonly sinceMs: number; readonly isWell: boolean }[];
  now(): number;
}

export interface Invariant {
  readonly name: string;
  readonly onCommit?: (flush: Flush, before: Before) => void;
  /** Between the phases, and (final) when everything should be over. */
  readonly atEnd?: (isFinal: boolean) => void | Promise<void>;
}

export class Violation extends Error {
  override readonly name = 'Violation';
  readonly invariant: string;
  constructor(invariant: string, what: string) {
    super(`${invariant}: ${what}`);
    this.invariant = invariant;
  }
}

type Demand = (holds: boolean, what: string) => void;
type Made = Omit<Invariant, 'name'>;

const BY_NAME: Readonly<Record<string, (world: Witness, demand: Demand) => Made>> = {
  'I-1 order': ordered,
  'I-2 one terminal': oneTerminal,
  'I-3 nothing after': nothingAfter,
  'I-4 projection': projected,
  'I-5 acked = durable': durable,
  'I-6 idempotent intake': idempotent,
  'I-7 claims': claims,
  'I-8 fencing': fencing,
  'I-9 exactly-once transition': onceOnly,
  'children nobody waits for end': childrenEnd,
  'I-11 one sweeper': oneSweeper,
  'I-13 secrets': secrets,
  'I-14 scope': scopes,
  'I-16 batch life': batchLife,
  'I-18 replay': replays,
  'I-19 dry run': dryRuns,
  'I-20 keychain read': keychainReads,
  'I-21 order of writes': pairs,
  'I-24 restart cancels only orphans': onlyOrphans,
  'wake: nothing is forgotten': wakes,
};

export const INVARIANT_NAMES: readonly string[] = Object.keys(BY_NAME);

export function invariantsOf(world: Witness): readonly Invariant[] {
  return Object.entries(BY_NAME).map(([name, make]) => {
    const demand: Demand = (holds, what) => {
      if (!holds) throw new Violation(name, what);
    };
    return { name, ...make(world, demand) };
  });
}

// ---------------------------------------------------------------- the log

/** Numbers go up by one in the order of commits. */
function ordered({ database }: Witness, demand: Demand): Made {
  const last = new Map<number, number>();
  return {
    onCommit({ events }) {
      for (const { executionId, eventId } of events) {
        // Rows by hand come between; they are in the log by then.
        const known = last.get(executionId) ?? 0;
        const expected = eventId - 1 === known || database.store.log(executionId)[eventId - 2]?.eventId === eventId - 1;
        demand(expected && eventId > known, `event ${eventId} of ${executionId} comes after ${known}`);
        last.set(executionId, eventId);
      }
    },
    atEnd(isFinal) {
      for (const { executionId } of database.store.executions()) {
        const log = database.store.log(executionId);
        demand(
          log.every((event, index) => event.eventId === index + 1),
          `the log of ${executionId} has gaps`,
        );
        demand(log[0]?.type === 'execution.started', `${executionId} does not begin with its start`);
        demand(log.filter((event) => event.type === 'execution.started').length === 1, `${executionId} starts twice`);
        for (const event of log) {
          const cause = log[event.causeId - 1];
          demand(
            cause !== undefined && cause.causeId === cause.eventId,
            `event ${event.eventId} of ${executionId} has no cause`,
          );
        }
        const head = database.store.executions().find((row) => row.executionId === executionId);
        // What was written by hand is found in its time.
        demand(!isFinal || head?.lastEventId === log.length, `the head of ${executionId} is not at its end`);
      }
    },
  };
}

function oneTerminal({ database }: Witness, demand: Demand): Made {
  const ended = new Set<number>();
  return {
    onCommit({ events }) {
      for (const { executionId, type } of events) {
        if (!TERMINAL_TYPES.has(type)) continue;
        demand(!ended.has(executionId), `${executionId} ends twice`);
        ended.add(executionId);
      }
    },
    atEnd(isFinal) {
      for (const { executionId, status } of database.store.executions()) {
        const count = database.store.log(executionId).filter((event) => TERMINAL_TYPES.has(event.type)).length;
        demand(
          isFinal ? count === (status === 'running' ? 0 : 1) : count <= 1,
          `${executionId} is ${status} with ${count} terminal events`,
        );
      }
    },
  };
}

const NOT_AFTER: ReadonlySet<string> = new Set([
  ...['command.issued', 'step.enter', 'ctx.updated', 'command.claimed', 'loop.done', 'loop.started', 'step.skipped'],
]);

/** After the end only late reports, and nothing of the row moves but the number of the last event. */
function nothingAfter({ database }: Witness, demand: Demand): Made {
  const bodies = new Map<number, string>();
  const bodyOf = (executionId: number): string => {
    const row = database.store.executions().find((each) => each.executionId === executionId);
    return JSON.stringify({ ...row, lastEventId: 0, handledThrough: 0, nextWakeAt: null });
  };
  return {
    onCommit({ events, heads }, before) {
      const ended = new Set<number>();
      for (const event of events) {
        const wasEnded = (before.executions.get(event.executionId)?.status ?? 'running') !== 'running';
        const isAfter = wasEnded || ended.has(event.executionId);
        if (TERMINAL_TYPES.has(event.type)) ended.add(event.executionId);
        demand(!(isAfter && NOT_AFTER.has(event.type)), `${event.type} of ${event.executionId} comes after its end`);
        if (!wasEnded) continue;
        demand(event.causeId === event.eventId, `${event.type} of ${event.executionId} was decided after its end`);
      }
      for (const { executionId, end } of heads) {
        const known = bodies.get(executionId);
        if (known !== undefined)
          demand(known === bodyOf(executionId), `the row of ${executionId} changed after its end`);
        if (end !== null) bodies.set(executionId, bodyOf(executionId));
      }
    },
    atEnd() {
      for (const { executionId } of database.store.executions()) {
        const log = database.store.log(executionId);
        const end = log.find((event) => TERMINAL_TYPES.has(event.type));
        if (end === undefined) continue;
        for (const event of log.slice(end.eventId))
          demand(!NOT_AFTER.has(event.type), `${event.type} stands after the end of ${executionId}`);
      }
      for (const [executionId, body] of bodies)
        demand(body === bodyOf(executionId), `the row of ${executionId} changed`);
    },
  };
}

/** Rows are what the log folds to. */
function projected({ database }: Witness, demand: Demand): Made {
  let commits = 0;
  const check = (executionId: number): void => {
    const { store } = database;
    const row = store.executions().find((each) => each.executionId === executionId);
    const log = store.log(executionId);
    if (row === undefined || row.lastEventId !== log.length) return;
    const state = replayExecution(log.filter((event) => event.causeId <= row.handledThrough));
    const { value } = state.snapshot;
    const status = typeof value === 'string' ? value : Object.keys(value)[0];
    demand(status === row.status, `${executionId} is ${row.status} and folds to ${status}`);
    const commands = store.commands().filter((each) => each.executionId === executionId);
    const open = commands.filter((each) => each.completedAt === null);
    demand(
      row.openCommands === open.length,
      `${executionId} counts ${row.openCommands} open commands of ${open.length}`,
    );
    const issued = log.filter((event) => event.type === 'command.issued').map((event) => event.commandId);
    demand(
      JSON.stringify(commands.map((each) => each.commandId).sort()) === JSON.stringify(issued.sort()),
      `the commands of ${executionId} are not those of its log`,
    );
    if (row.status !== 'running') {
      demand(open.length === 0 && row.endTime !== null, `${executionId} has ended with open commands`);
      return;
    }
    const run = runOf(state);
    const folded = Object.keys(run.open).sort();
    const stored = open.map((each) => String(each.commandId)).sort();
    demand(JSON.stringify(folded) === JSON.stringify(stored), `open in ${executionId}: ${stored}; folded: ${folded}`);
    for (const command of open) {
      const own = log.filter((event) => event.commandId === command.commandId);
      const granted = own.filter((event) => event.type === 'command.claimed').length;
      demand(granted === command.attempt, `${command.commandId} has attempt ${command.attempt} and ${granted} claims`);
      const parkedOn = run.open[command.commandId]?.parkedOn ?? null;
      // The pause before a next try is the row's own.
      if (parkedOn === null && command.parkedOn === 0 && command.context['resume'] !== undefined) continue;
      demand(command.parkedOn === parkedOn, `${command.commandId} waits for ${command.parkedOn}; folded: ${parkedOn}`);
      const hasStarted = own.some((event) => event.type === 'command.started' && !event.stale);
      demand(hasStarted || command.startedAt === null, `${command.commandId} has started without an event`);
    }
  };
  return {
    onCommit({ heads }) {
      commits += 1;
      const head = heads[commits % Math.max(1, heads.length)];
      if (commits % 12 === 0 && head !== undefined) check(head.executionId);
    },
    atEnd() {
      for (const { executionId } of database.store.executions()) check(executionId);
    },
  };
}

/** The same log gives the same state, also through a stored snapshot. */
function replays({ database }: Witness, demand: Demand): Made {
  return {
    onCommit({ heads }) {
      for (const { executionId, snapshot, handledThrough } of heads) {
        if (snapshot === null) continue;
        // What comes back from it looks for waiting events behind it only.
        demand(
          snapshot.throughEventId <= handledThrough,
          `a snapshot of ${executionId} goes to ${snapshot.throughEventId}, its turns to ${handledThrough}`,
        );
        const log = database.store.log(executionId).filter((event) => event.eventId <= snapshot.throughEventId);
        const folded = canonicalJson(JSON.parse(JSON.stringify(runOf(replayExecution(log)))));
        const stored = canonicalJson(JSON.parse(JSON.stringify(snapshot.context['run'] ?? null)));
        demand(folded === stored, `a snapshot of ${executionId} is not its log:\n${stored}\n${folded}`);
      }
    },
    async atEnd(isFinal) {
      // Logs only grow: what they fold to in the end goes through all that they were before.
      if (!isFinal) return;
      for (const { executionId } of database.store.executions()) {
        const log = database.store.log(executionId);
        const text = JSON.stringify(runOf(replayExecution(log)));
        const again = JSON.stringify(runOf(replayExecution(JSON.parse(JSON.stringify(log)))));
        demand(text === again, `the log of ${executionId} folds to two states`);
        const stored = (await database.store.load([executionId])).get(executionId);
        const through = stored?.snapshot?.throughEventId ?? 0;
        demand(through <= log.length, `the snapshot of ${executionId} is ahead of its log`);
      }
    },
  };
}

/** `workflow.*` stands right before its `playbook.*`, in the same insert. */
function pairs(_: Witness, demand: Demand): Made {
  return {
    onCommit({ events }) {
      for (const [index, event] of events.entries()) {
        if (event.type !== 'playbook.completed' && event.type !== 'playbook.failed') continue;
        const before = events[index - 1];
        demand(
          before?.executionId === event.executionId &&
            before.eventId === event.eventId - 1 &&
            before.type === event.type.replace('playbook', 'workflow'),
          `${event.type} of ${event.executionId} stands alone`,
        );
      }
    },
  };
}

// ---------------------------------------------------------------- what outsiders were told

function durable({ database, ledger }: Witness, demand: Demand): Made {
  const logOf = (executionId: number) => database.store.log(executionId);
  return {
    async atEnd() {
      const known = new Set(database.store.executions().map((row) => row.executionId));
      for (const [key, receipts] of ledger.starts)
        for (const { executionId } of receipts)
          demand(known.has(executionId), `the start ${key} (${executionId}) is lost`);
      for (const { executionId, receipt } of ledger.reports) {
        if (receipt.result === 'unknown' || receipt.result === 'invalid') continue;
        const log = logOf(executionId);
        if (receipt.result === 'accepted' || receipt.result === 'late' || receipt.result === 'stale')
          demand(receipt.eventIds.length > 0, `the report ${receipt.reportId} was ${receipt.result} without events`);
        for (const id of receipt.eventIds)
          demand(log[id - 1]?.commandId === receipt.commandId, `event ${id} of the report ${receipt.reportId} is lost`);
      }
      for (const { executionId, eventId } of ledger.events)
        demand(logOf(executionId)[eventId - 1] !== undefined, `event ${eventId} of ${executionId} is lost`);
      for (const notes of ledger.batches.values())
        for (const { executionId, receipt } of notes) {
          const [row] = await database.store.batches.find([receipt.requestId]);
          demand(row !== undefined, `batch ${receipt.requestId} is lost`);
          const log = logOf(executionId);
          for (const id of receipt.eventIds)
            demand(log[id - 1] !== undefined, `event ${id} of a batch of ${executionId} is lost`);
          const markers = log.filter((event) => isMarkerOf(event, 'batch.accepted', receipt.requestId));
          demand(markers.length === 1, `batch ${receipt.requestId} has ${markers.length} markers`);
        }
    },
  };
}

function idempotent({ database, ledger }: Witness, demand: Demand): Made {
  return {
    async atEnd() {
      for (const [key, receipts] of ledger.starts) {
        const ids = new Set(receipts.map((receipt) => receipt.executionId));
        demand(ids.size === 1, `the start ${key} gave ${[...ids].join(' and ')}`);
        demand(receipts.filter((receipt) => !receipt.duplicate).length <= 1, `the start ${key} was new twice`);
      }
      const keys = new Set<string>();
      for (const row of database.store.executions()) {
        if (row.idempotencyKey === null) continue;
        const key = `${row.path} ${row.idempotencyKey}`;
        demand(!keys.has(key), `two executions have the key ${key}`);
        keys.add(key);
      }
      for (const [key, notes] of ledger.batches) {
        const answers = new Set(notes.map(({ receipt }) => JSON.stringify([receipt.requestId, receipt.eventIds])));
        demand(answers.size === 1, `the batch ${key} had ${answers.size} answers`);
        demand(notes.filter(({ receipt }) => !receipt.duplicate).length <= 1, `the batch ${key} was new twice`);
      }
      const marked = new Set<string>();
      for (const { executionId } of database.store.executions()) {
        const rows = database.store.log(executionId);
        for (const event of rows.filter((each) => each.type === 'batch.accepted')) {
          const key = event.meta['idempotency_key'];
          if (typeof key !== 'string') continue;
          demand(!marked.has(`${executionId}:${key}`), `the batch key ${key} of ${executionId} was accepted twice`);
          marked.add(`${executionId}:${key}`);
        }
        const reports = new Set<string>();
        for (const event of rows) {
          if (event.reportId === null) continue;
          const id = `${event.reportId}/${event.reportSeq}`;
          demand(!reports.has(id), `the report ${id} of ${executionId} stands there twice`);
          reports.add(id);
        }
      }
    },
  };
}

function dryRuns({ database, ledger }: Witness, demand: Demand): Made {
  return {
    atEnd() {
      for (const { ids, minutes, from, to } of ledger.dryRuns) {
        for (const id of ids) {
          const row = database.store.executions().find((each) => each.executionId === id);
          demand(row !== undefined, `a dry run names ${id}, which does not exist`);
          const age = to - Date.parse(row?.startTime ?? '');
          demand(age >= minutes * 60_000 - 700_000, `a dry run names ${id}, which is too young`);
          const end = row?.endTime ?? null;
          demand(end === null || Date.parse(end) >= from - 700_000, `a dry run names ${id}, which had ended`);
        }
        for (const row of database.store.executions()) {
          const written = database.store
            .log(row.executionId)
            .some((event) => event.context['older_than_minutes'] === minutes);
          demand(!written, `a dry run ended ${row.executionId}`);
        }
      }
    },
  };
}

// ---------------------------------------------------------------- commands

/** Attempts count up by one, each has one winner, and nothing is taken from a healthy worker where nothing went wrong. */
function claims({ plan, database, ledger }: Witness, demand: Demand): Made {
  const attempts = new Map<number, number>();
  return {
    onCommit({ events, commands, issued }, before) {
      for (const event of events) {
        if (event.type !== 'command.claimed' || event.commandId === null) continue;
        const last = attempts.get(event.commandId) ?? 0;
        demand(event.attempt === last + 1, `${event.commandId} was granted as ${event.attempt} after ${last}`);
        attempts.set(event.commandId, last + 1);
        const row = before.commands.get(event.commandId);
        demand(row === undefined || row.completedAt === null, `${event.commandId} was granted after it had ended`);
        demand(
          row === undefined || (row.parkedOn ?? 0) === 0,
          `${event.commandId} was granted while it waits for a child`,
        );
        const isTaken = row !== undefined && row.status !== 'PENDING' && row.parkedOn === null;
        demand(!(plan.isCalm && isTaken), `${event.commandId} was taken from ${row?.workerId}, which is well`);
      }
      for (const row of [...commands, ...issued]) {
        const held = row.status === 'CLAIMED' || row.status === 'RUNNING';
        demand(!held || row.attempt === (attempts.get(row.commandId) ?? 0), `${row.commandId} is held without a grant`);
        const old = before.commands.get(row.commandId);
        demand(old === undefined || row.attempt >= old.attempt, `the attempts of ${row.commandId} go back`);
        const isOther = old?.workerId !== undefined && old.workerId !== null && row.workerId !== old.workerId;
        demand(
          !isOther || row.attempt > (old?.attempt ?? 0) || !held,
          `${row.commandId} changed hands without a grant`,
        );
      }
    },
    atEnd() {
      const winners = new Map<string, string>();
      for (const { commandId, attempt, worker } of ledger.grants) {
        const grant = `${commandId}/${attempt}`;
        const winner = winners.get(grant) ?? worker;
        demand(winner === worker, `${grant} was granted to ${winner} and ${worker}`);
        winners.set(grant, worker);
        const row = database.store.commands().find((each) => each.commandId === commandId);
        const claim = database.store
          .log(row?.executionId ?? 0)
          .find(
            (event) => event.type === 'command.claimed' && event.commandId === commandId && event.attempt === attempt,
          );
        demand(claim !== undefined && claim.workerId === worker, `${worker} was told of ${grant}, the log was not`);
      }
    },
  };
}

const REPORTED: ReadonlySet<string> = new Set([
  'call.done',
  'call.error',
  'command.completed',
  'command.failed',
  'step.exit',
]);

/** A report of an attempt that is over decides nothing. */
function fencing(_: Witness, demand: Demand): Made {
  return {
    onCommit({ events, commands }, before) {
      const granted = new Map<number, number>();
      const decidedFor = new Set(
        events
          .filter((event) => event.causeId !== event.eventId)
          .map((event) => `${event.executionId}:${event.causeId}`),
      );
      for (const event of events) {
        if (event.commandId === null) continue;
        if (event.type === 'command.claimed' && event.attempt !== null) granted.set(event.commandId, event.attempt);
        if (!REPORTED.has(event.type) || event.attempt === null || event.workerId === null) continue;
        const row = before.commands.get(event.commandId);
        const current = granted.get(event.commandId) ?? row?.attempt ?? 0;
        const isOld = event.attempt < current;
        demand(
          event.attempt <= current,
          `${event.type} of ${event.commandId} tells of attempt ${event.attempt} of ${current}`,
        );
        demand(
          !isOld || event.stale,
          `${event.type} of ${event.commandId}, attempt ${event.attempt} of ${current}, counts`,
        );
        const decides = decidedFor.has(`${event.executionId}:${event.eventId}`);
        demand(!(isOld && (decides || event.closes)), `a stale ${event.type} of ${event.commandId} decides`);
        const isOther =
          row !== undefined && row.workerId !== null && row.attempt === event.attempt && !granted.has(event.commandId);
        demand(
          !isOther || event.stale || row.workerId === event.workerId,
          `${event.workerId} reports ${event.commandId} of ${row?.workerId}`,
        );
      }
      for (const row of commands) {
        const old = before.commands.get(row.commandId);
        demand(old === undefined || old.completedAt === null, `the row of ${row.commandId} changed after its end`);
      }
    },
  };
}

/** One command for a piece of work, one transition for a command. */
function onceOnly({ database }: Witness, demand: Demand): Made {
  return {
    atEnd() {
      for (const { executionId, status } of database.store.executions()) {
        const log = database.store.log(executionId);
        const keys = new Set<string>();
        const enters = new Map<string, number>();
        for (const event of log) {
          if (event.type === 'command.issued') {
            const { activation, iteration_index: iteration, frame_index: frame, row_index: row, cursor } = event.meta;
            const command = database.store.commands().find((each) => each.commandId === event.commandId);
            const key =
              command?.commandKey ?? JSON.stringify([event.nodeName, activation, iteration, frame, row, cursor]);
            demand(!keys.has(key), `${key} of ${executionId} was issued twice`);
            keys.add(key);
            checkCommand(log, event, status !== 'running', demand);
          }
          if (event.type === 'step.enter') {
            const round = (enters.get(event.nodeName) ?? 0) + 1;
            enters.set(event.nodeName, round);
            demand(
              event.context['activation'] === round,
              `${event.nodeName} of ${executionId} is entered out of order`,
            );
          }
        }
      }
    },
  };
}

const CLOSING: ReadonlySet<string> = new Set(['command.completed', 'command.failed', 'command.cancelled']);

function checkCommand(log: readonly EventRow[], issued: EventRow, hasEnded: boolean, demand: Demand): void {
  const own = log.filter((event) => event.commandId === issued.commandId && !event.stale);
  const name = `${issued.commandId} (${issued.nodeName})`;
  const isClosed = own.some((event) => event.closes || CLOSING.has(event.type));
  demand(isClosed || !hasEnded, `${name} is open in the log of a run that has ended`);
  demand(own.filter((event) => event.closes).length <= 1, `${name} is closed twice`);
  for (const types of [
    ['call.done', 'call.error'],
    ['command.started'],
    ['step.exit'],
    ['command.completed', 'command.failed', 'command.cancelled'],
  ]) {
    const found = own.filter((event) => types.includes(event.type));
    // What a parked command waited for closes it by its call alone.
    demand(found.length <= 1, `${name} has ${found.map((event) => `${event.type}#${event.eventId}`).join(' and ')}`);
  }
  const deciders = own.filter((event) =>
    log.some((each) => each.causeId === event.eventId && each.eventId !== event.eventId),
  );
  demand(deciders.length <= 2, `${name} decided ${deciders.length} times`);
}

/** Every open command of a running execution will be looked at again, and every running execution has something to wait for. */
function wakes({ database }: Witness, demand: Demand): Made {
  return {
    onCommit({ heads }) {
      for (const head of heads) {
        if (head.end !== null || head.late) continue;
        const hasInbox = head.handledThrough < head.lastEventId;
        demand(head.openCommands > 0 || hasInbox || head.nextWakeAt !== null, `${head.executionId} waits for nothing`);
      }
    },
    atEnd() {
      for (const row of database.store.commands())
        demand(row.completedAt !== null || row.nextWakeAt !== null, `${row.commandId} is never looked at again`);
    },
  };
}

// ---------------------------------------------------------------- leases, restarts

/** Tokens only grow: what an old holder writes is refused. */
function oneSweeper({ database }: Witness, demand: Demand): Made {
  return {
    async atEnd() {
      const last = new Map<string, number>();
      for (const { name, token } of database.fenced) {
        demand(token >= (last.get(name) ?? 0), `${name} was written under ${token} after ${last.get(name)}`);
        last.set(name, token);
      }
    },
  };
}

function onlyOrphans(world: Witness, demand: Demand): Made {
  /** When each began, by the clock on the wall: the one of the server that began it may have been wrong. */
  const began = new Map<number, number>();
  return {
    onCommit({ events, started }) {
      for (const { executionId } of started) began.set(executionId, world.now());
      for (const event of events) {
        if (event.type !== 'execution.cancelled' || event.context['cancelled_by'] !== 'auto_resume') continue;
        const startedAt = began.get(event.executionId) ?? 0;
        // A server that has lived through all of it and could say so all the time.
        const other = world.servers().find((each) => each.isWell && each.sinceMs < startedAt - 1_000);
        demand(
          other === undefined || world.servers().length < 2,
          `${event.executionId} was ended by a restart although ${other?.life.name} has run it since it began`,
        );
      }
    },
  };
}

// ---------------------------------------------------------------- batches

const FORWARD: Readonly<Record<BatchRow['state'], readonly BatchRow['state'][]>> = {
  accepted: ['processing'],
  processing: ['processing', 'completed', 'failed'],
  completed: [],
  failed: ['accepted'],
};

function batchLife({ database, ledger }: Witness, demand: Demand): Made {
  return {
    onCommit({ batches }, before) {
      for (const move of batches.moved) {
        const old = before.batches.get(move.requestId);
        if (old === undefined) continue;
        demand(
          FORWARD[old.state].includes(move.state),
          `batch ${move.requestId} goes from ${old.state} to ${move.state}`,
        );
        demand(
          (move.state === 'failed') === (move.errorCode !== null),
          `batch ${move.requestId} is ${move.state} with ${move.errorCode}`,
        );
      }
    },
    async atEnd() {
      for (const { executionId } of database.store.executions()) {
        const log = database.store.log(executionId);
        for (const accepted of log.filter((event) => event.type === 'batch.accepted')) {
          const requestId = Number(accepted.meta['batch_request_id']);
          const [row] = await database.store.batches.find([requestId]);
          const of = (type: string) => log.filter((event) => isMarkerOf(event, type, requestId)).length;
          demand(of('batch.completed') <= 1, `batch ${requestId} completed ${of('batch.completed')} times`);
          demand(of('batch.processing') <= 1, `batch ${requestId} began ${of('batch.processing')} times`);
          demand(
            (row?.state === 'completed') === (of('batch.completed') === 1),
            `batch ${requestId} is ${row?.state} against its log`,
          );
          const timings = row?.timings ?? null;
          demand(row?.state !== 'completed' || timings !== null, `batch ${requestId} completed without timings`);
        }
      }
      const logs = database.store.executions().map((row) => database.store.log(row.executionId));
      for (const { requestId, states } of ledger.seen) {
        // A repeat of its key takes it up again; nobody has to have seen that it had failed.
        const hasFailed = logs.some((log) => log.some((event) => isMarkerOf(event, 'batch.failed', requestId)));
        for (const [index, state] of states.entries()) {
          const last = states[index - 1];
          if (last === undefined || last === state) continue;
          demand(
            rankOf(state) > rankOf(last) || (hasFailed && last !== 'completed'),
            `batch ${requestId} was seen ${last}, then ${state}`,
          );
        }
      }
    },
  };
}

function rankOf(state: string): number {
  return ['accepted', 'processing', 'failed', 'completed'].indexOf(state);
}

function isMarkerOf(event: EventRow, type: string, requestId: number): boolean {
  return event.type === type && event.meta['batch_request_id'] === String(requestId);
}

// ---------------------------------------------------------------- secrets and the keychain

/** What was put into the keychain is nowhere else. */
function secrets({ database, ledger, said }: Witness, demand: Demand): Made {
  return {
    atEnd() {
      const planted = [...ledger.kept.values()].map((entry) => entry.secret);
      if (planted.length === 0) return;
      const sinks = [
        JSON.stringify(database.store.executions()),
        JSON.stringify(database.store.commands()),
        JSON.stringify(database.store.executions().map((row) => database.store.log(row.executionId))),
        JSON.stringify(database.keychain.events),
        JSON.stringify(database.keychain.audits),
        said.join('\n'),
      ];
      for (const secret of planted)
        for (const [index, sink] of sinks.entries()) demand(!sink.includes(secret), `a secret is in sink ${index}`);
    },
  };
}

/** Entries go with their owner, and are shown to nobody else. */
function scopes({ database, ledger }: Witness, demand: Demand): Made {
  return {
    async atEnd() {
      for (const { cacheKey, scope, executionId, rootExecutionId } of ledger.kept.values()) {
        if (scope === 'global') continue;
        const owner = scope === 'local' ? executionId : rootExecutionId;
        const row = database.store.executions().find((each) => each.executionId === owner);
        if (row === undefined || row.status === 'running') continue;
        const entry = await database.keychain.find(cacheKey);
        demand(entry === null, `the ${scope} entry ${cacheKey} outlives ${owner}`);
      }
      for (const read of ledger.reads) {
        const entry = ledger.kept.get(read.name);
        if (read.status !== 'success' || entry === undefined) continue;
        const isOwn =
          read.catalogId === entry.catalogId &&
          (entry.scope === 'global' ||
            (entry.scope === 'local' && read.executionId === entry.executionId) ||
            (entry.scope === 'shared' && read.rootExecutionId === entry.rootExecutionId));
        demand(isOwn, `${read.executionId} reads the ${entry.scope} entry ${read.name} of ${entry.executionId}`);
        demand(JSON.stringify(read.data).includes(entry.secret), `a read of ${read.name} showed something else`);
      }
    },
  };
}

/** Successful reads count once each. */
function keychainReads({ database, ledger }: Witness, demand: Demand): Made {
  return {
    async atEnd() {
      for (const [cacheKey, attempts] of ledger.asked) {
        const stored = database.keychain.events.filter(
          (event) => event.cacheKey === cacheKey && event.type === 'entry.stored',
        ).length;
        // Only entries that were stored once have all of their reads.
        if (stored !== 1) continue;
        const counts = ledger.reads
          .filter((read) => read.cacheKey === cacheKey && read.status === 'success')
          .map((read) => read.accessCount);
        const answered = counts.length;
        demand(new Set(counts).size === answered, `reads of ${cacheKey} were told the counts ${counts}`);
        const entry = await database.keychain.find(cacheKey);
        if (entry === null) continue;
        demand(entry.accessCount >= answered, `${cacheKey} counts ${entry.accessCount} of ${answered} reads`);
        demand(
          entry.accessCount <= attempts,
          `${cacheKey} counts ${entry.accessCount} reads of ${attempts} that were asked`,
        );
      }
    },
  };
}

/** An open command as a reader of a failure sees it. */
export function describeCommand(row: CommandRow): string {
  const { commandId, commandKey, executionId, status, attempt, workerId, parkedOn, nextWakeAt } = row;
  return `${commandId} ${commandKey} of ${executionId}: ${status}, attempt ${attempt}, worker ${workerId}, waits for ${parkedOn}, wakes ${nextWakeAt}`;
}
