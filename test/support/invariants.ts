/**
 * What is true of every execution after every commit (api 3.6, language 13 and 14): checked on the rows of a memory store,
 * and against the fold of the log.
 */
import { expect } from 'vitest';
import type { MemoryStore } from '../../actors/memory/memory-store.ts';
import type { CommandRow, EventRow, ExecutionRow } from '../../actors/ports.ts';
import { retryWaitOf } from '../../machines/command/retry-wait.ts';
import { type LogEvent, TERMINAL_TYPES } from '../../machines/events.ts';
import type { ExecutionState } from '../../machines/execution/take-turn.ts';
import { replayExecution } from '../../machines/replay.ts';

export function checkStore(store: MemoryStore): void {
  for (const row of store.executions()) {
    const log = store.log(row.executionId);
    const commands = store.commands().filter((command) => command.executionId === row.executionId);
    try {
      checkLog(log);
      checkProjection(row, log, commands);
      checkNodes(log, commands);
    } catch (error) {
      const lines = log.map(
        (each) => `${each.eventId}<${each.causeId} ${each.type} ${each.nodeId} ${each.commandId ?? ''}`,
      );
      const held = commands.map((each) => `${each.commandId} ${each.commandKey} ${each.status} ${each.attempt}`);
      throw new Error(['the log and rows of an execution', ...lines, ...held].join('\n'), { cause: error });
    }
  }
}

/** Laws of one log by itself. */
export function checkLog(log: readonly LogEvent[]): void {
  expect(log.map((event) => event.eventId)).toEqual(log.map((_, index) => index + 1));
  expect(log[0]?.type).toBe('execution.started');
  expect(log.filter((event) => event.type === 'execution.started')).toHaveLength(1);
  const inbox = new Set<number>();
  for (const event of log) {
    expect(event.causeId).toBeLessThanOrEqual(event.eventId);
    if (event.causeId === event.eventId) inbox.add(event.eventId);
    else expect(inbox.has(event.causeId)).toBe(true);
  }
  const terminal = log.filter((event) => TERMINAL_TYPES.has(event.type));
  expect(terminal.length).toBeLessThanOrEqual(1);
  for (const event of log) {
    if (!event.type.startsWith('playbook.') || !TERMINAL_TYPES.has(event.type)) continue;
    expect(log[event.eventId - 2]?.type).toBe(event.type.replace('playbook', 'workflow'));
  }
  const [end] = terminal;
  if (end !== undefined) {
    const after = log.slice(end.eventId).map((event) => event.type);
    for (const type of ['command.issued', 'step.enter', 'ctx.updated', 'command.claimed', 'loop.done']) {
      expect(after).not.toContain(type);
    }
  }
  checkCommands(log);
  for (const event of log.filter((each) => each.type === 'step.enter')) {
    const round = log.filter(
      (each) => each.type === 'step.enter' && each.nodeName === event.nodeName && each.eventId <= event.eventId,
    );
    expect(event.context['activation']).toBe(round.length);
  }
}

function checkCommands(log: readonly LogEvent[]): void {
  const issued = log.filter((event) => event.type === 'command.issued');
  const keys = issued.map(
    (event) => `${event.nodeName}@${event.meta['activation']}#${event.meta['iteration_index'] ?? ''}`,
  );
  expect(new Set(keys).size).toBe(keys.length);
  for (const { commandId } of issued) {
    const own = log.filter((event) => event.commandId === commandId);
    expect(own.filter((event) => event.closes).length).toBeLessThanOrEqual(1);
    const attempts = own.filter((event) => event.type === 'command.claimed').map((event) => event.attempt);
    expect(attempts).toEqual(attempts.map((_, index) => index + 1));
    for (const type of [
      'call.done',
      'call.error',
      'command.completed',
      'command.failed',
      'command.started',
      'step.exit',
    ]) {
      expect(own.filter((event) => event.type === type && !event.stale).length).toBeLessThanOrEqual(1);
    }
  }
}

/** What is said of a command names its node, its attempt and the row that issued it (api 3.1, 3.3). */
function checkNodes(log: readonly EventRow[], commands: readonly CommandRow[]): void {
  const rows = new Map(commands.map((row) => [row.commandId, row]));
  for (const { eventId, type, nodeId, nodeType, attempt, parentEventId, commandId } of log) {
    const row = rows.get(commandId ?? 0);
    if (row === undefined) continue;
    const node = row.iterationIndex === null ? row.stepName : `${row.stepName}#${row.iterationIndex}`;
    const isOwn = type.startsWith('command.') || type.startsWith('call.');
    const parent = type === 'command.issued' ? parentEventId : row.eventId;
    expect({ eventId, type, nodeId, nodeType, attempt, parentEventId }).toEqual(
      expect.objectContaining({
        ...{
          nodeId: node,
          nodeType: isOwn ? row.toolKind : 'step',
          attempt: expect.any(Number),
          parentEventId: parent,
        },
      }),
    );
  }
}

/** Rows equal the fold of the log. */
export function checkProjection(row: ExecutionRow, log: readonly EventRow[], commands: readonly CommandRow[]): void {
  const state = replayExecution(log);
  const { run } = state.snapshot.context;
  expect(row.lastEventId).toBe(log.length);
  expect(statusOf(state)).toBe(row.status);
  const open = commands.filter((command) => command.completedAt === null);
  expect(row.openCommands).toBe(open.length);
  const issued = log.filter((event) => event.type === 'command.issued').map((event) => event.commandId);
  expect(commands.map((command) => command.commandId).sort()).toEqual(issued.sort());
  if (row.status !== 'running') {
    expect(open).toEqual([]);
    expect(row.endTime).not.toBeNull();
    return;
  }
  expect(open.map((command) => String(command.commandId)).sort()).toEqual(Object.keys(run.open).sort());
  for (const command of open) {
    const claims = log.filter((event) => event.type === 'command.claimed' && event.commandId === command.commandId);
    expect(command.attempt).toBe(claims.length);
    expect(command.nextWakeAt).not.toBeNull();
    // The chart knows nothing of tries.
    const parkedOn = retryWaitOf(command) === null ? command.parkedOn : null;
    expect(parkedOn).toBe(run.open[command.commandId]?.parkedOn ?? null);
  }
  // Nothing is stuck: something is open, or the run has ended.
  expect(open.length).toBeGreaterThan(0);
}

export function statusOf(state: ExecutionState): string {
  const { value } = state.snapshot;
  return typeof value === 'string' ? value : (Object.keys(value)[0] ?? '');
}
