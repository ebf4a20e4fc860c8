import { expect, test } from 'vitest';
import { Materials, outcomeBody } from '../../../machines/execution/materials.ts';
import { logEvent } from '../../api/fake-services.ts';
import { admits, every, first, step } from '../../support/playbooks.ts';
import { given } from '../../support/story.ts';

test('what a join waits with is still referred to', () => {
  const story = given([
    step('start', every('fast', 'slow')),
    step('fast', first('join')),
    step('slow', first('join')),
    step('join', admits('output.data > 0')),
  ])
    .start()
    .ok('start')
    .ok('fast', 1);
  const { run } = story;
  const { value } = run.arrivals['join'] ?? {};
  expect(story.state.materials.missing(run)).toEqual([]);
  // Only the arrival is left to refer to the value.
  run.steps['fast'] = { ...run.steps['start'], value: null } as (typeof run.steps)['fast'] & object;
  story.state.materials.sweep(run);
  expect(story.state.materials.body(value ?? null)?.data).toBe(1);
});

test('a variable, and the outcome of a command that is not closed yet, are still referred to', () => {
  const story = given([step('a', { set: { 'ctx.x': 1 }, ...first('b') }), step('b')])
    .start()
    .ok('a');
  const { commandId } = story.command('b').event;
  const result = { status: 'completed', context: { data: 7 } };
  const { eventId } = story.note({
    type: 'call.done',
    status: 'completed',
    nodeName: 'b',
    commandId,
    attempt: 1,
    result,
  });
  expect(new Materials().missing(story.run)).toEqual(expect.arrayContaining([story.run.written['x'], eventId]));
  expect(story.state.materials.missing(story.run)).toEqual([]);
});

test('a row that closes an iteration without a word succeeded with nothing or failed without a reason', () => {
  expect(outcomeBody(logEvent(1, { type: 'command.completed' }))).toMatchObject({ data: null, error: null });
  expect(outcomeBody(logEvent(1, { type: 'command.failed' })).error?.message).toBe(
    'the command failed without a reason',
  );
  const result = { status: 'completed', context: { data: 7 } };
  expect(outcomeBody(logEvent(1, { type: 'call.done', result })).data).toBe(7);
});
