import { expect, test } from 'vitest';
import { foldCommand } from '../../../machines/command/history.ts';
import { NO_CHILD } from '../../../machines/command/retry-wait.ts';
import type { LogEvent } from '../../../machines/events.ts';
import { logEvent } from '../../api/fake-services.ts';

function after(...rows: readonly (Partial<LogEvent> & { readonly type: string })[]): unknown[] {
  const { value, context } = foldCommand(rows.map((row, index) => logEvent(index + 1, { commandId: 1, ...row })));
  return [value, context.attempt, context.workerId, context.parkedOn];
}

const ISSUED = { type: 'command.issued' };
const CLAIMED = { type: 'command.claimed', attempt: 1, workerId: 'alice' };
const STARTED = { type: 'command.started' };
const PARKED = { type: 'command.completed', context: { pending_callback: true, child_execution_id: 9 } };

test('a command is folded from the rows about it', () => {
  expect(after(ISSUED)).toEqual(['PENDING', 0, null, null]);
  expect(after(ISSUED, CLAIMED, STARTED)).toEqual(['RUNNING', 1, 'alice', null]);
  expect(after(ISSUED, CLAIMED, STARTED, { type: 'call.done' }, { type: 'command.completed' })).toEqual([
    'COMPLETED',
    1,
    'alice',
    null,
  ]);
  expect(after(ISSUED, CLAIMED, { type: 'call.error' }, { type: 'command.failed' })[0]).toBe('FAILED');
  expect(after(ISSUED, { type: 'command.cancelled' })[0]).toBe('CANCELLED');
});

test('a report that waits for a child parks the command, and the call of the child settles it', () => {
  expect(after(ISSUED, CLAIMED, PARKED)).toEqual(['PARKED', 1, 'alice', 9]);
  expect(after(ISSUED, CLAIMED, PARKED, { type: 'call.done' })[0]).toBe('COMPLETED');
  expect(after(ISSUED, CLAIMED, PARKED, { type: 'call.error' })[0]).toBe('FAILED');
});

test('a report that waits for a child it does not name waits for none', () => {
  expect(after(ISSUED, CLAIMED, { ...PARKED, context: { pending_callback: true } })[3]).toBe(NO_CHILD);
});

test('a heartbeat that names a time to resume parks the command until the next claim, another does nothing', () => {
  const waits = { type: 'command.heartbeat', context: { resume_at: '2026-01-01T00:00:00Z' } };
  expect(after(ISSUED, CLAIMED, STARTED, { type: 'command.heartbeat' })[0]).toBe('RUNNING');
  expect(after(ISSUED, CLAIMED, STARTED, waits)).toEqual(['PARKED', 1, 'alice', NO_CHILD]);
  expect(after(ISSUED, CLAIMED, STARTED, waits, { ...CLAIMED, attempt: 2, workerId: 'bob' })).toEqual([
    'CLAIMED',
    2,
    'bob',
    null,
  ]);
});

test('a claim that names no worker holds the command all the same', () => {
  expect(after(ISSUED, { type: 'command.claimed' })).toEqual(['CLAIMED', 0, '', null]);
});

test('nothing that comes after the end changes it', () => {
  expect(after(ISSUED, CLAIMED, { type: 'command.completed' }, { type: 'command.failed' })[0]).toBe('COMPLETED');
});
