/**
 * What the schema refuses (migrations/0002), for the store in memory: the checks of rows, and the unique keys as text.
 * The charts keep to these rules anyway; a breach in a simulation is a defect found, as it would be in PostgreSQL.
 */
import { TERMINAL_TYPES } from '../../machines/events.ts';
import type { CommandRow, EventRow, ExecutionRow } from '../ports.ts';

/** A row the schema does not allow; nothing was written. */
export class ConstraintError extends Error {
  override readonly name = 'ConstraintError';
  readonly constraint: string;
  constructor(constraint: string) {
    super(`refused by ${constraint}`);
    this.constraint = constraint;
  }
}

const NATURAL_TYPES: ReadonlySet<string> = new Set([
  'command.started',
  'call.done',
  'call.error',
  'step.exit',
  'command.completed',
  'command.failed',
  'command.cancelled',
]);
const TYPE = /^[a-z][a-z_]*([._][a-z_]+)*$/;

/** Keys that no other row of the same execution may have. The first two mean that somebody else appended. */
export function uniqueKeysOf(event: EventRow): readonly string[] {
  const keys = [`event:${event.eventId}`];
  if (TERMINAL_TYPES.has(event.type)) keys.push('terminal');
  if (event.reportId !== null) keys.push(`report:${event.reportId}:${event.reportSeq}`);
  if (!event.stale && event.commandId !== null && NATURAL_TYPES.has(event.type)) {
    keys.push(`natural:${event.commandId}:${event.type}`);
  }
  if (event.closes && event.commandId !== null) keys.push(`closes:${event.commandId}`);
  return keys;
}

export function uniqueKeysOfCommand(command: CommandRow): readonly string[] {
  return [`command:${command.commandId}`, `key:${command.commandKey}`, `issued:${command.eventId}`];
}

/** True for keys whose collision is a lost race and not a defect. */
export function isRace(key: string): boolean {
  return key === 'terminal' || key.startsWith('event:');
}

export function checkEvent(event: EventRow): void {
  demand('event_pkey', event.eventId >= 1);
  demand('event_cause', event.causeId >= 1 && event.causeId <= event.eventId);
  demand('event_type_check', TYPE.test(event.type));
  demand('event_parent_event_id_check', event.parentEventId === null || event.parentEventId < event.eventId);
  demand('event_duration_check', event.duration === null || event.duration >= 0);
  const extra = Object.keys(event.result ?? {}).filter((key) => !['status', 'context', 'reference'].includes(key));
  demand(
    'event_result_check',
    event.result === null || (typeof event.result.status === 'string' && extra.length === 0),
  );
}

export function checkExecution(row: ExecutionRow): void {
  const running = row.status === 'running';
  demand('execution_inbox', row.handledThrough <= row.lastEventId);
  demand('execution_end', running === (row.endTime === null));
  demand('execution_rest', running || (row.progress === 100 && row.openCommands === 0));
  demand('execution_failure', row.status !== 'failed' || row.error !== null);
  demand('execution_progress_check', row.progress >= 0 && row.progress <= 100);
  demand('execution_open_commands_check', row.openCommands >= 0);
}

export function checkCommand(row: CommandRow): void {
  const held = row.status === 'CLAIMED' || row.status === 'RUNNING';
  demand('command_pending', row.status !== 'PENDING' || row.workerId === null);
  demand('command_held', !held || (row.workerId !== null && row.claimedAt !== null && row.attempt >= 1));
  demand('command_wake', !isOpen(row) || row.nextWakeAt !== null);
  demand('command_end', !isOpen(row) === (row.completedAt !== null));
  demand('command_parked', row.parkedOn === null || row.status === 'RUNNING');
}

export function isOpen(row: CommandRow): boolean {
  return row.status === 'PENDING' || row.status === 'CLAIMED' || row.status === 'RUNNING';
}

export function isHeld(row: CommandRow): boolean {
  return row.status === 'CLAIMED' || row.status === 'RUNNING';
}

function demand(constraint: string, holds: boolean): void {
  if (!holds) throw new ConstraintError(constraint);
}
