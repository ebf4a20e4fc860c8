import { describe, expect, test } from 'vitest';
import { durationText, runView, stepLine, widthsOf } from '../../src/cli/live-view.ts';
import { notStarted, progressAfter, type RunProgress, type SeenEvent } from '../../src/cli/step-progress.ts';
import { recordingTerminal } from './recording-terminal.ts';

const STEPS = [
  { name: 'start', kind: 'python' },
  { name: 'each', kind: 'http loop' },
  { name: 'never', kind: 'noop' },
];

describe('a run as the fold of its log', () => {
  test('before the first event every step waits', () => {
    expect(notStarted(STEPS).steps.map((step) => step.state)).toEqual(['waiting', 'waiting', 'waiting']);
  });

  test('a step runs between its entry and its exit and knows how long', () => {
    const entered = run(event('step.enter', 'start', { at: 100 }));
    expect(entered.steps[0]).toMatchObject({ state: 'running', activations: 1, durationMs: null });
    const left = progressAfter(entered, event('step.exit', 'start', { at: 350, status: 'completed', id: 2 }));
    expect(left.steps[0]).toMatchObject({ state: 'done', durationMs: 250 });
    expect(left.lastEventId).toBe(2);
  });

  test('a loop counts its iterations', () => {
    const after = run(
      event('step.enter', 'each', { context: { activation: 1, iterations_expected: 3, iterator: 'n' } }),
      event('command.issued', 'each', { meta: { iteration_index: 0 } }),
      event('command.issued', 'each', { meta: { iteration_index: 1 } }),
      event('call.done', 'each', { meta: { iteration_index: 0 } }),
      event('call.error', 'each', { meta: { iteration_index: 1 }, error: 'no' }),
      event('command.issued', 'each', { meta: { iteration_index: 2 } }),
    );
    expect(after.steps[1]?.loop).toEqual({ expected: 3, done: 1, failed: 1, open: 1 });
    expect(after.steps[1]?.state).toBe('running');
    const ended = progressAfter(after, event('loop.done', 'each', { status: 'failed' }));
    expect(ended.steps[1]?.state).toBe('failed');
  });

  test('entering again starts the counters anew', () => {
    const after = run(
      event('step.enter', 'start'),
      event('call.error', 'start', { error: 'once' }),
      event('step.exit', 'start', { status: 'failed' }),
      event('step.enter', 'start'),
    );
    expect(after.steps[0]).toMatchObject({ state: 'running', activations: 2, error: null });
  });

  test('a skipped step says so, unless it has already run', () => {
    const after = run(event('step.skipped', 'never'), event('step.enter', 'start'), event('step.skipped', 'start'));
    expect(after.steps.map((step) => step.state)).toEqual(['running', 'waiting', 'skipped']);
  });

  test.each(['failed', 'cancelled'] as const)('when the run is %s, what was running has stopped', (end) => {
    const type = end === 'failed' ? 'playbook.failed' : 'execution.cancelled';
    const after = run(event('step.enter', 'start'), event(type, 'demo/x'));
    expect(after.ended).toBe(end);
    expect(after.steps.map((step) => step.state)).toEqual(['stopped', 'waiting', 'waiting']);
  });

  test('late and stale reports and unknown events change no step', () => {
    const before = run(event('step.enter', 'start'));
    const after = [
      event('step.exit', 'start', { status: 'completed', meta: { late: true } }),
      event('call.error', 'start', { error: 'x', meta: { stale: true } }),
      event('something.new', 'start'),
    ].reduce(progressAfter, before);
    expect(after.steps).toEqual(before.steps);
  });

  test('a step the document does not name gets a line of its own', () => {
    expect(run(event('step.enter', 'surprise')).steps.map((step) => step.name)).toContain('surprise');
  });
});

describe('the lines', () => {
  test('a loop shows how far it is', () => {
    const step = {
      ...run(event('step.enter', 'each', { context: { iterations_expected: 4 } })).steps[1]!,
      loop: { expected: 4, done: 1, failed: 1, open: 2 },
    };
    expect(stepLine(step, widthsOf([step]))).toBe('▸  each  http loop  ████████░░░░░░░░ 2/4, 1 failed, 2 open');
  });

  test('text of a document cannot draw on the terminal', () => {
    const after = run(event('step.enter', 'evil\u001b[2J'), event('call.error', 'evil\u001b[2J', { error: 'a\nb' }));
    const line = stepLine(after.steps[3]!, widthsOf(after.steps));
    expect(line).toContain('evil\\u001b[2J');
    expect(line).toContain('a\\u000ab');
  });

  test.each([
    [84.4, '84ms'],
    [1234, '1.2s'],
    [125_000, '2m 5s'],
    [3_599_600, '1h 0m'],
    [12_000_000, '3h 20m'],
    [2_606_400_000, '30d 4h'],
  ])('%d ms reads %s', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });

  test('without a terminal a change is one line, and a loop one for each tenth', () => {
    const terminal = recordingTerminal();
    const view = runView(terminal);
    let now = run(event('step.enter', 'each', { context: { iterations_expected: 100 } }));
    view.show(now);
    view.show(now);
    for (let index = 0; index < 100; index++) {
      now = progressAfter(now, event('call.done', 'each', { meta: { iteration_index: index } }));
      view.show(now);
    }
    expect(terminal.errors().trimEnd().split('\n')).toHaveLength(11);
  });

  test('on a terminal the picture is drawn over', () => {
    const terminal = recordingTerminal({ live: true });
    const view = runView(terminal);
    view.show(notStarted(STEPS));
    view.show(run(event('step.enter', 'start')));
    expect(terminal.errors()).toContain('\u001b[3A');
  });
});

interface EventParts {
  readonly id?: number;
  readonly at?: number;
  readonly status?: string;
  readonly error?: string;
  readonly context?: Record<string, unknown>;
  readonly meta?: Record<string, unknown>;
}

function event(type: string, step: string, parts: EventParts = {}): SeenEvent {
  return {
    event_id: parts.id ?? 1,
    event_type: type,
    node_id: step,
    node_name: step,
    node_type: 'step',
    status: parts.status ?? 'running',
    created_at: new Date(parts.at ?? 0).toISOString(),
    duration: null,
    error: parts.error ?? null,
    context: parts.context ?? {},
    meta: parts.meta ?? {},
  };
}

function run(...events: readonly SeenEvent[]): RunProgress {
  return events.reduce(progressAfter, notStarted(STEPS));
}
