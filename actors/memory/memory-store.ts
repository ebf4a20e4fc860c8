/**
 * The Store in memory, for tests and the simulator. It passes the same conformance suite as the one on PostgreSQL: a
 * flush is checked completely before anything changes, the same keys are unique, the same losers get the same errors.
 * Hooks let a test fail a commit before it happens or lose its answer afterwards.
 */
import { type LogEvent, TERMINAL_TYPES } from '../../machines/events.ts';
import type { Json } from '../../machines/json.ts';
import { hintOf } from '../command-hint.ts';
import { endedBy } from '../keychain-store.ts';
import {
  type BatchRow,
  type BatchStore,
  type Clock,
  type CommandRow,
  DuplicateKeyError,
  type EventRow,
  type ExecutionRow,
  type Flush,
  type HeadChange,
  StaleError,
  type Store,
  type StoredHold,
  type StoredSnapshot,
} from '../ports.ts';
import { createMemoryBatches, prepareBatches } from './memory-batches.ts';
import { abandonedChildren } from './memory-children.ts';
import {
  ConstraintError,
  checkCommand,
  checkEvent,
  checkExecution,
  isHeld,
  isOpen,
  isRace,
  uniqueKeysOf,
  uniqueKeysOfCommand,
} from './memory-constraints.ts';

export interface CommitHooks {
  /** A throw (or rejection) here leaves nothing written. */
  beforeCommit?(flush: Flush): void | Promise<void>;
  /** A throw here is a lost answer: everything is written. */
  afterCommit?(flush: Flush): void | Promise<void>;
}

export interface MemoryStore extends Store {
  /** Assign to inject failures. */
  readonly hooks: CommitHooks;
  /** Everything there is, for checkers. */
  executions(): readonly ExecutionRow[];
  commands(): readonly CommandRow[];
  log(executionId: number): readonly EventRow[];
  /** Rows of batches, as the reader of them sees it. */
  readonly batches: BatchStore;
  /** Called with what a commit has put into the queue. */
  onJobs(listener: (jobs: Flush['batches']['jobs']) => void): void;
  /** A row written behind the service's back, as an operator may (api 3.8); the head does not move. */
  appendByHand(event: EventRow): void;
}

interface Log {
  readonly events: EventRow[];
  readonly keys: Set<string>;
}

/** `clock` stands for the database's `now()`; what executions take with them at their end goes from `keychain`. */
export function createMemoryStore(
  clock: Clock,
  hooks: CommitHooks = {},
  keychain: { end(executionIds: readonly number[]): void } | null = null,
): MemoryStore {
  const executions = new Map<number, { row: ExecutionRow; snapshot: StoredSnapshot | null }>();
  const logs = new Map<number, Log>();
  const commands = new Map<number, CommandRow>();
  const commandsOf = new Map<number, number[]>();
  const batches = new Map<number, BatchRow>();
  const jobListeners: ((jobs: Flush['batches']['jobs']) => void)[] = [];
  const payloads = new Map<string, { text: string; expiresAt: string | null }>();

  function logOf(executionId: number): Log {
    let log = logs.get(executionId);
    if (log === undefined) {
      log = { events: [], keys: new Set() };
      logs.set(executionId, log);
    }
    return log;
  }

  function reserveKeys(taken: Map<number, Set<string>>, executionId: number, keys: readonly string[]): void {
    const fresh = taken.get(executionId) ?? new Set<string>();
    taken.set(executionId, fresh);
    for (const key of keys) {
      if (fresh.has(key) || logOf(executionId).keys.has(key)) {
        if (isRace(key)) throw new StaleError([executionId]);
        throw new ConstraintError(key);
      }
      fresh.add(key);
    }
  }

  /** All that could be refused, in the order of the statements on PostgreSQL; the result writes. */
  function prepare(flush: Flush): () => void {
    const keys = new Map<number, Set<string>>();
    const heads = new Map(executions);
    const changed = new Map<number, CommandRow>();
    for (const row of flush.started) {
      checkExecution(row);
      if (heads.has(row.executionId)) throw new ConstraintError('execution_pkey');
      if (row.idempotencyKey !== null && find(heads, row.path, row.idempotencyKey) !== null) {
        throw new DuplicateKeyError(row.executionId);
      }
      heads.set(row.executionId, { row, snapshot: null });
    }
    for (const event of flush.events) {
      checkEvent(event);
      reserveKeys(keys, event.executionId, uniqueKeysOf(event));
    }
    for (const row of flush.issued) {
      checkCommand(row);
      reserveKeys(keys, row.executionId, uniqueKeysOfCommand(row));
      changed.set(row.commandId, row);
    }
    for (const change of flush.commands) {
      const before = changed.get(change.commandId) ?? commands.get(change.commandId);
      if (before?.executionId !== change.executionId) throw new ConstraintError('missing_command');
      const after = { ...before, ...change };
      checkCommand(after);
      changed.set(change.commandId, after);
    }
    for (const head of flush.heads) {
      const stored = heads.get(head.executionId);
      const isCurrent =
        stored?.row.lastEventId === head.expectedLastEventId &&
        stored.row.handledThrough === head.expectedHandledThrough;
      if (stored === undefined || !isCurrent) throw new StaleError([head.executionId]);
      const moved = moveHead(stored, head);
      checkExecution(moved.row);
      heads.set(head.executionId, moved);
    }
    const batchRows = prepareBatches(flush, batches, nowText());
    return () => {
      for (const row of batchRows) batches.set(row.requestId, row);
      for (const row of flush.started) put(heads, row.executionId);
      for (const head of flush.heads) put(heads, head.executionId);
      for (const [executionId, fresh] of keys) for (const key of fresh) logOf(executionId).keys.add(key);
      for (const event of flush.events) logOf(event.executionId).events.push(event);
      for (const row of flush.issued) {
        const list = commandsOf.get(row.executionId);
        if (list === undefined) commandsOf.set(row.executionId, [row.commandId]);
        else list.push(row.commandId);
      }
      for (const [commandId, row] of changed) commands.set(commandId, row);
      for (const { ref, data, expiresAt } of flush.results) payloads.set(ref, { text: data, expiresAt });
    };
  }

  function put(heads: ReadonlyMap<number, { row: ExecutionRow; snapshot: StoredSnapshot | null }>, id: number): void {
    const head = heads.get(id);
    if (head !== undefined) executions.set(id, head);
  }

  function select(where: (row: CommandRow) => boolean): CommandRow[] {
    return [...commands.values()].filter(where);
  }

  function events(executionId: number, where: (event: EventRow) => boolean): LogEvent[] {
    const found = (logs.get(executionId)?.events ?? []).filter(where);
    return found.sort((a, b) => a.eventId - b.eventId).map(withoutExecution);
  }

  function isDue(row: CommandRow, seconds = 0): boolean {
    return row.nextWakeAt !== null && Date.parse(row.nextWakeAt) <= clock.now() + seconds * 1000;
  }

  const nowText = () => new Date(clock.now()).toISOString();

  return {
    hooks,
    batches: createMemoryBatches(batches, logOf, commands, clock),
    onJobs: (listener) => jobListeners.push(listener),
    executions: () => [...executions.values()].map((stored) => stored.row),
    commands: () => [...commands.values()],
    log: (executionId) => [...(logs.get(executionId)?.events ?? [])].sort((a, b) => a.eventId - b.eventId),
    appendByHand(event) {
      checkEvent(event);
      const keys = new Map<number, Set<string>>();
      reserveKeys(keys, event.executionId, uniqueKeysOf(event));
      const log = logOf(event.executionId);
      for (const key of keys.get(event.executionId) ?? []) log.keys.add(key);
      log.events.push(event);
    },

    async commit(flush) {
      await hooks.beforeCommit?.(flush);
      // What is stored is what JSON keeps of it, as in a database, and nobody else's object. A Flush is JSON.
      const kept = JSON.parse(JSON.stringify(flush)) as Flush;
      prepare(kept)();
      keychain?.end(endedBy(kept));
      if (kept.batches.jobs.length > 0) for (const listener of jobListeners) listener(kept.batches.jobs);
      await hooks.afterCommit?.(flush);
    },
    async load(executionIds) {
      const loaded = new Map();
      for (const id of new Set(executionIds)) {
        const stored = executions.get(id);
        if (stored === undefined) continue;
        const through = stored.snapshot?.throughEventId ?? 0;
        const own = (commandsOf.get(id) ?? []).flatMap((commandId) => commands.get(commandId) ?? []);
        loaded.set(id, {
          row: stored.row,
          // Whoever loads it folds on in place.
          snapshot: stored.snapshot === null ? null : structuredClone(stored.snapshot),
          tail: events(id, (event) => event.eventId > through),
          openCommands: own.filter(isOpen).sort((a, b) => a.eventId - b.eventId),
        });
      }
      return loaded;
    },
    async events(executionId, eventIds) {
      const wanted = new Set(eventIds);
      return events(executionId, (event) => wanted.has(event.eventId));
    },
    async iterations(executionId, step, activation) {
      const own = select(
        (row) =>
          row.executionId === executionId &&
          row.commandKey.startsWith(`${step}@${activation}#`) &&
          row.iterationIndex !== null,
      ).sort((a, b) => (a.iterationIndex ?? 0) - (b.iterationIndex ?? 0));
      const closing = new Map<number, LogEvent>();
      for (const event of events(executionId, (row) => !row.stale && isOutcome(row))) {
        if (event.commandId !== null && !closing.has(event.commandId)) closing.set(event.commandId, event);
      }
      return own.flatMap((row) => closing.get(row.commandId) ?? []);
    },
    async reported(executionId, reportIds) {
      const wanted = new Set(reportIds);
      return events(executionId, (event) => event.reportId !== null && wanted.has(event.reportId));
    },
    async ending(executionId) {
      return events(executionId, (event) => TERMINAL_TYPES.has(event.type))[0] ?? null;
    },
    async commandEvents(executionId, commandId) {
      return events(executionId, (event) => event.commandId === commandId && !event.stale);
    },
    async command(commandId) {
      return commands.get(commandId) ?? null;
    },
    async commandsClaimedBy(claimId, workerId) {
      return select((row) => isHeld(row) && row.claimId === claimId && row.workerId === workerId).sort(byId);
    },
    async pending(pools, limit) {
      return select((row) => row.status === 'PENDING' && pools.includes(row.pool))
        .sort((a, b) => b.priority - a.priority || byId(a, b))
        .slice(0, limit)
        .map(hintOf);
    },
    async overdue(limit) {
      return select((row) => isOpen(row) && (row.parkedOn ?? 0) === 0 && isDue(row))
        .sort((a, b) => Number(isHeld(b)) - Number(isHeld(a)) || byWake(a, b))
        .slice(0, limit)
        .map((row) => ({ ...hintOf(row), retry: row.parkedOn !== null }));
    },
    async heldBy(workerId) {
      return select((row) => isWorkedOn(row) && row.workerId === workerId)
        .sort(byId)
        .map(hintOf);
    },
    async holds(commandIds) {
      const rows = commandIds.flatMap((commandId) => commands.get(commandId) ?? []);
      return new Map(rows.filter(isWorkedOn).map((row) => [row.commandId, holdOf(row)]));
    },
    async standing(commandIds) {
      const rows = commandIds.flatMap((commandId) => commands.get(commandId) ?? []);
      const stands = (row: CommandRow) =>
        row.status === 'PENDING' || (isOpen(row) && (row.parkedOn ?? 0) === 0 && isDue(row));
      return new Set(rows.filter(stands).map((row) => row.commandId));
    },
    async nextWakeAt() {
      return select(isOpen).sort(byWake)[0]?.nextWakeAt ?? null;
    },
    async parked(childIds) {
      const waits = (child: number) =>
        childIds === undefined
          ? (executions.get(child)?.row.status ?? 'running') !== 'running'
          : childIds.includes(child);
      return select((row) => row.parkedOn !== null && waits(row.parkedOn))
        .sort(byId)
        .flatMap(parkedOf);
    },
    async parkedUntil(seconds, limit) {
      return select((row) => row.parkedOn !== null && isDue(row, seconds))
        .sort(byWake)
        .slice(0, limit)
        .flatMap((row) => parkedOf(row).map((wait) => ({ ...wait, nextWakeAt: row.nextWakeAt ?? '' })));
    },
    async postpone(changes) {
      for (const { commandId, nextWakeAt, republished } of changes) {
        const row = commands.get(commandId);
        if (row === undefined || !isOpen(row)) continue;
        const mark = republished ? { republishedAt: nowText(), republishCount: row.republishCount + 1 } : {};
        commands.set(commandId, { ...row, nextWakeAt, ...mark });
      }
    },
    async touch(holds) {
      for (const { commandId, attempt, nextWakeAt } of holds) {
        const row = commands.get(commandId);
        if (row === undefined || !isWorkedOn(row) || row.attempt !== attempt) continue;
        commands.set(commandId, { ...row, nextWakeAt, heartbeatAt: nowText() });
      }
    },
    async execution(executionId) {
      return executions.get(executionId)?.row ?? null;
    },
    async ended(executionIds) {
      const rows = executionIds.flatMap((id) => executions.get(id)?.row ?? []);
      return rows.filter(({ status }) => status !== 'running');
    },
    async byIdempotencyKey(path, key) {
      return find(executions, path, key);
    },
    async issuedAtStart(executionId) {
      const log = [...(logs.get(executionId)?.events ?? [])].sort((a, b) => a.eventId - b.eventId);
      const next = log.findIndex((event) => event.causeId > 1);
      return log.slice(0, next < 0 ? log.length : next).filter(({ type }) => type === 'command.issued').length;
    },
    async runningDescendants(executionId) {
      const all = [...executions.values()].map((stored) => stored.row).sort((a, b) => a.executionId - b.executionId);
      const found: ExecutionRow[] = [];
      for (let parents = new Set([executionId]); parents.size > 0; ) {
        const generation = all.filter((row) => row.parentExecutionId !== null && parents.has(row.parentExecutionId));
        found.push(...generation);
        parents = new Set(generation.map((row) => row.executionId));
      }
      return found.filter((row) => row.status === 'running').map((row) => row.executionId);
    },
    async abandoned(seconds, limit) {
      const rows = {
        executions: () => [...executions.values()].map((stored) => stored.row),
        command: (commandId: number) => commands.get(commandId),
        log: (executionId: number) => logs.get(executionId)?.events ?? [],
      };
      return abandonedChildren(rows, clock.now() - seconds * 1000, limit);
    },
    async runningSince(before, limit) {
      return [...executions.values()]
        .map((stored) => stored.row)
        .filter((row) => row.status === 'running' && Date.parse(row.startTime) < Date.parse(before))
        .sort((a, b) => Date.parse(a.startTime) - Date.parse(b.startTime) || a.executionId - b.executionId)
        .slice(0, limit)
        .map((row) => row.executionId);
    },
    async withInbox(limit) {
      return [...executions.values()]
        .map((stored) => stored.row)
        .filter(
          (row) =>
            row.status === 'running' &&
            (row.handledThrough < row.lastEventId || logOf(row.executionId).keys.has(`event:${row.lastEventId + 1}`)),
        )
        .map((row) => row.executionId)
        .sort((a, b) => a - b)
        .slice(0, limit);
    },
    async payload(ref) {
      const found = payloads.get(ref);
      if (found === undefined) return undefined;
      if (found.expiresAt !== null && Date.parse(found.expiresAt) <= clock.now()) return undefined;
      // The text was made by JSON.stringify.
      return JSON.parse(found.text) as Json;
    },
  };
}

const OUTCOMES: ReadonlySet<string> = new Set(['call.done', 'call.error', 'command.completed', 'command.failed']);

function moveHead(stored: { row: ExecutionRow; snapshot: StoredSnapshot | null }, head: HeadChange) {
  const ended = stored.row.status !== 'running';
  if (ended && (head.end !== null || head.snapshot !== null)) throw new ConstraintError('execution_terminal');
  const { lastEventId, handledThrough, lastEventType, lastNodeName, currentStep, progress, openCommands } = head;
  const row: ExecutionRow = head.late
    ? { ...stored.row, lastEventId, handledThrough }
    : {
        ...stored.row,
        lastEventId,
        handledThrough,
        lastEventType,
        lastNodeName,
        currentStep,
        progress,
        openCommands,
        nextWakeAt: head.nextWakeAt,
        ...head.end,
        machineVersion: head.snapshot?.machineVersion ?? stored.row.machineVersion,
      };
  return { row, snapshot: head.snapshot ?? stored.snapshot };
}

function find(heads: ReadonlyMap<number, { row: ExecutionRow }>, path: string, key: string): ExecutionRow | null {
  for (const { row } of heads.values()) if (row.path === path && row.idempotencyKey === key) return row;
  return null;
}

function withoutExecution({ executionId: _, catalogId: __, ...event }: EventRow): LogEvent {
  return event;
}

function isOutcome({ type, context }: LogEvent): boolean {
  return OUTCOMES.has(type) && context['pending_callback'] !== true;
}

/** Parked commands are nobody's work: their moment belongs to what they wait for. */
function isWorkedOn(row: CommandRow): boolean {
  return isHeld(row) && row.parkedOn === null;
}

function byId(a: CommandRow, b: CommandRow): number {
  return a.commandId - b.commandId;
}

function byWake(a: CommandRow, b: CommandRow): number {
  return Date.parse(a.nextWakeAt ?? '') - Date.parse(b.nextWakeAt ?? '');
}

function holdOf({ executionId, attempt, workerId, heartbeatAt }: CommandRow): StoredHold {
  return { executionId, attempt, workerId, heartbeatAt };
}

function parkedOf(row: CommandRow) {
  const { executionId, commandId, parkedOn } = row;
  return parkedOn === null ? [] : [{ executionId, commandId, childExecutionId: parkedOn }];
}
