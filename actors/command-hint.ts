/**
 * What one process tells another about a command that can be claimed (api 5.2), and what is read back from it. Hints are
 * data from outside: what does not look like one says no more than that something is there.
 */
import { isMap, type JsonMap } from '../machines/json.ts';
import type { CommandHint, CommandRow } from './ports.ts';

export function hintOf(row: CommandRow): CommandHint {
  const { executionId, commandId, pool, priority, toolKind, stepName, attempt, republishCount, meta } = row;
  const trace = typeof meta['trace'] === 'string' ? meta['trace'] : null;
  return { executionId, commandId, pool, priority, toolKind, stepName, attempt, republishCount, trace };
}

/** `event_id` is the claim handle that older workers put into the claim path. No inputs, no secrets. */
export function messageOf(hint: CommandHint): JsonMap {
  return {
    execution_id: hint.executionId,
    command_id: hint.commandId,
    event_id: hint.commandId,
    step: hint.stepName,
    pool: hint.pool,
    attempt: hint.attempt,
    republish_count: hint.republishCount,
    priority: hint.priority,
    tool_kind: hint.toolKind,
    trace: hint.trace,
    ...(hint.retry === true ? { retry: true } : {}),
  };
}

/** Null when the message does not say which command it is about. */
export function hintIn(pool: string, message: unknown): CommandHint | null {
  if (!isMap(message)) return null;
  const { execution_id: executionId, command_id: commandId, tool_kind: toolKind, step, trace } = message;
  if (!isId(executionId) || !isId(commandId) || typeof toolKind !== 'string') return null;
  return {
    executionId,
    commandId,
    pool,
    toolKind,
    priority: wholeOf(message['priority'], -PRIORITY_MAX, PRIORITY_MAX),
    stepName: typeof step === 'string' ? step : '',
    attempt: wholeOf(message['attempt'], 0, COUNT_MAX),
    republishCount: wholeOf(message['republish_count'], 0, COUNT_MAX),
    trace: typeof trace === 'string' ? trace : null,
    retry: message['retry'] === true,
  };
}

/** As a start may give it. */
const PRIORITY_MAX = 100;
const COUNT_MAX = 1_000_000_000;

function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}

/** The board keeps a list for each priority: one that nobody could have given counts as none. */
function wholeOf(value: unknown, min: number, max: number): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max ? value : 0;
}
