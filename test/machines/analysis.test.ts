import { describe, expect, test } from 'vitest';
import { analyse, type Subject, sampleOf } from '../../machines/analysis.ts';
import type { LogEvent } from '../../machines/events.ts';
import { logEvent } from '../api/fake-services.ts';

const ENDED: Subject = { status: 'completed', durationMs: 1_000, eventCount: 0, error: null, stuck: null };
const at = (seconds: number) => new Date(Date.parse('2026-01-01T00:00:00Z') + seconds * 1000).toISOString();

function rows(...changes: readonly (Partial<LogEvent> & { readonly type: string })[]): readonly LogEvent[] {
  return changes.map((change, index) => logEvent(index + 1, { nodeName: 'fetch', at: at(index), ...change }));
}

function judged(subject: Partial<Subject>, events: readonly LogEvent[]) {
  return analyse({ ...ENDED, eventCount: events.length, ...subject }, events);
}

const ERROR = { kind: 'timeout', code: 'TOOL_TIMEOUT', message: 'took too long' };

describe('an analysis', () => {
  test('finds nothing in a run that went well, and counts it', () => {
    const events = rows(
      { type: 'step.enter' },
      { type: 'command.issued', commandId: 1 },
      { type: 'command.claimed', commandId: 1 },
      { type: 'call.done', commandId: 1, meta: { tasks: { fetch: { attempts: 1 } } } },
      { type: 'step.exit', duration: 30 },
      { type: 'step.enter', nodeName: 'store' },
      { type: 'step.exit', nodeName: 'store', duration: 50 },
      { type: 'step.exit', nodeName: 'fetch', duration: 25 },
    );
    expect(judged({}, events)).toEqual({
      steps: 2,
      commands: 1,
      retries: 0,
      slowestSteps: [
        { step: 'fetch', durationMs: 55, activations: 2 },
        { step: 'store', durationMs: 50, activations: 1 },
      ],
      findings: [],
      recommendations: [],
    });
  });

  test('names the failure, its step and event, and what to do about its kind', () => {
    const events = rows(
      {
        type: 'call.error',
        status: 'failed',
        commandId: 1,
        meta: { tasks: { get: { attempts: 3 } }, warnings: ['cut short'] },
        result: { status: 'failed', context: { error: ERROR, failed_task: 'get' } },
      },
      { type: 'playbook.failed', status: 'failed' },
    );
    const { findings, recommendations, retries } = judged({ status: 'failed', error: 'Failed steps: fetch' }, events);
    expect(findings.map(({ severity, code, step, eventId }) => [severity, code, step, eventId])).toEqual([
      ['error', 'execution_failed', null, 2],
      ['error', 'TOOL_TIMEOUT', 'fetch', 1],
      ['warning', 'retried', 'fetch', 1],
      ['warning', 'task_warning', 'fetch', 1],
    ]);
    expect(findings[1]?.message).toBe("Step 'fetch' failed (task 'get'): took too long");
    expect(retries).toBe(2);
    expect(recommendations.join()).toContain('Raise the time-out');
    expect(new Set(recommendations).size).toBe(recommendations.length);
  });

  test('sees lost workers, long waits, slow steps and what came too late', () => {
    const events = rows(
      { type: 'command.issued', commandId: 1, at: at(0) },
      { type: 'command.claimed', commandId: 1, at: at(8.25) },
      {
        type: 'command.claimed',
        commandId: 1,
        meta: { reclaimed: true, reclaimed_from: 'w1', reason: 'worker_offline' },
      },
      { type: 'call.error', commandId: 1, stale: true, status: 'failed' },
      { type: 'step.exit', duration: 40_000 },
      { type: 'report.note', meta: { late: true } },
    );
    const { findings, retries } = judged({ durationMs: 60_000, eventCount: 100 }, events);
    expect(findings.map(({ severity, code }) => `${severity} ${code}`)).toEqual([
      'warning slow_claim',
      'warning worker_lost',
      'info slow_step',
      'info late_events',
      'info stale_events',
      'info partial',
    ]);
    expect(findings[0]?.message).toBe('Command 1 waited 8.3 s for a worker');
    expect(findings[1]?.message).toContain('taken from w1 (worker_offline)');
    expect(retries).toBe(1);
  });

  test('says first that a run is stuck, or why it was cancelled', () => {
    expect(judged({ status: 'running', stuck: 'Waiting for nobody.' }, []).findings).toMatchObject([
      { severity: 'error', code: 'stuck', message: 'Waiting for nobody.' },
    ]);
    const cancelled = judged({ status: 'cancelled', error: 'enough' }, rows({ type: 'execution.cancelled' }));
    expect(cancelled.findings).toMatchObject([{ severity: 'warning', code: 'cancelled', eventId: 1 }]);
  });

  test('says in general words what its rows leave out', () => {
    const messages = (subject: Partial<Subject>, ...changes: readonly (Partial<LogEvent> & { type: string })[]) =>
      judged(subject, rows(...changes)).findings.map(({ message }) => message);
    expect(messages({ status: 'failed' })).toEqual(['The execution failed']);
    expect(messages({ status: 'cancelled' })).toEqual(['The execution was cancelled: no reason was given']);
    expect(messages({}, { type: 'call.error' })).toEqual(["Step 'fetch' failed: no message"]);
    expect(messages({}, { type: 'call.error', error: 'gone' })).toEqual(["Step 'fetch' failed: gone"]);
    expect(messages({}, { type: 'command.claimed', commandId: 1, meta: { reclaimed: true } })).toEqual([
      'Command 1 was taken from its worker (unknown) and run again',
    ]);
    expect(messages({}, { type: 'loop.stalled' })).toEqual(['The loop could not go on']);
  });

  test('tells of a loop that stands still, and of tries that helped only as news', () => {
    const events = rows(
      { type: 'call.done', commandId: 1, meta: { tasks: { get: { attempts: 2 } } } },
      { type: 'loop.stalled', context: { message: 'no iteration is open' } },
    );
    expect(judged({}, events).findings.map(({ severity, message }) => `${severity} ${message}`)).toEqual([
      'error no iteration is open',
      "info Task 'get' of step 'fetch' took 2 tries",
    ]);
  });

  test('counts a claim whose issue lies before the rows as prompt, and a record without tries as one', () => {
    const events = rows(
      { type: 'command.claimed', commandId: 1 },
      { type: 'call.done', commandId: 1, meta: { tasks: { get: 'done', put: { attempts: 'many' } }, warnings: [7] } },
    );
    expect(judged({}, events)).toMatchObject({ retries: 0, findings: [] });
  });

  test('keeps the worst of very many findings', () => {
    const many = Array.from({ length: 150 }, () => ({ type: 'call.done', commandId: 1, meta: { warnings: ['w'] } }));
    const failed = { type: 'call.error', commandId: 2, status: 'failed' } as const;
    const { findings } = judged({}, rows(...many, failed));
    expect(findings).toHaveLength(100);
    expect(findings[0]?.severity).toBe('error');
  });
});

test('a sample has both ends, every failure it has room for, and the rest spread over the log', () => {
  const log = rows(
    ...Array.from({ length: 100 }, (_, index) => ({
      type: 'report.note',
      status: index === 41 ? ('failed' as const) : ('completed' as const),
    })),
  );
  const numbers = (size: number) => sampleOf(log, size).map(({ eventId }) => eventId);
  expect(numbers(200)).toHaveLength(100);
  expect(numbers(0)).toEqual([]);
  expect(numbers(3)).toEqual([1, 42, 100]);
  const ten = numbers(10);
  expect(ten.length).toBeGreaterThan(7);
  expect(ten.length).toBeLessThanOrEqual(10);
  expect(ten).toEqual([...ten].sort((a, b) => a - b));
  expect(ten).toContain(42);
});
