import { expect, test } from 'vitest';
import { isActionable } from '../../../machines/batch/actionable.ts';
import { completeDraft } from '../../../machines/execution/take-turn.ts';

const AT = '2026-11-20T10:15:02.113Z';
const event = (eventId: number, type: string, more: { stale?: boolean; meta?: { late: boolean } } = {}) =>
  completeDraft({ type, status: 'completed', nodeName: 'a', ...more }, eventId, eventId, AT);

test('notes move nothing, a settled command does', () => {
  expect(isActionable([event(9, 'report.note'), event(10, 'command.started')], null)).toBe(false);
  expect(isActionable([event(9, 'report.note'), event(10, 'command.completed')], null)).toBe(true);
});

test('stale and late events move nothing', () => {
  const events = [event(9, 'call.done', { stale: true }), event(10, 'call.done', { meta: { late: true } })];
  expect(isActionable(events, null)).toBe(false);
});

test('what comes after the cause of the end found the run ended', () => {
  const events = [event(9, 'command.failed'), event(10, 'command.completed')];
  expect(isActionable(events, 9)).toBe(true);
  expect(isActionable(events.slice(1), 9)).toBe(false);
});
