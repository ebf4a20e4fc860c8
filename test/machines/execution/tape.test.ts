import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LogEvent } from '../../../machines/events.ts';
import { newRun } from '../../../machines/execution/run.ts';
import { runOf } from '../../../machines/execution/take-turn.ts';
import { KEYFRAME_EVERY, Tape } from '../../../machines/execution/tape.ts';
import { runFromVisible, visibleRun } from '../../../machines/execution/visible-run.ts';
import type { JsonMap } from '../../../machines/json.ts';
import { applyPatch, mergePatch } from '../../../machines/merge-patch.ts';
import { foldOrder, replayExecution } from '../../../machines/replay.ts';
import { every, step } from '../../support/playbooks.ts';
import { randomStory } from '../../support/random-story.ts';
import { given } from '../../support/story.ts';

const choices = fc.array(fc.nat(5000), { minLength: 1, maxLength: 40 });

/** A log whose inbox events were numbered before any of them was handled, as a batch numbers them. */
function asBatch(log: readonly LogEvent[]): LogEvent[] {
  const inbox = log.filter((event) => event.eventId === event.causeId);
  const decided = log.filter((event) => event.eventId !== event.causeId);
  const numbers = new Map([...inbox, ...decided].map((event, index) => [event.eventId, index + 1]));
  return [...inbox, ...decided].map((event) => ({
    ...event,
    eventId: numbers.get(event.eventId) ?? 0,
    causeId: numbers.get(event.causeId) ?? 0,
  }));
}

test('every frame of a random log shows what a replay up to there shows', () => {
  fc.assert(
    fc.property(choices, fc.boolean(), (seeds, isBatch) => {
      const { log } = randomStory(seeds);
      const order = foldOrder(isBatch ? asBatch(log) : log);
      const tape = new Tape();
      let shown: JsonMap = {};
      order.forEach((event, index) => {
        const before = shown;
        const frame = tape.play(event);
        shown = frame.isKeyframe ? applyPatch({}, frame.patch) : applyPatch(shown, frame.patch);
        const replayed = replayExecution(order.slice(0, index + 1));
        expect(shown).toEqual(JSON.parse(JSON.stringify(visibleRun(runOf(replayed)))));
        expect(tape.state.snapshot.value).toEqual(replayed.snapshot.value);
        expect(frame.n).toBe(index + 1);
        expect(frame.changed || JSON.stringify(before) === JSON.stringify(shown)).toBe(true);
      });
    }),
    { numRuns: 40 },
  );
});

test('playing on from any mark gives the frames of playing from the start', () => {
  fc.assert(
    fc.property(choices, fc.nat(), (seeds, where) => {
      const { log } = randomStory(seeds);
      const whole = new Tape();
      const frames = log.map((event) => whole.play(event));
      const at = where % log.length;
      const first = new Tape();
      for (const event of log.slice(0, at)) first.skip(event);
      const mark = first.mark();
      const second = new Tape(mark);
      const rest = log.slice(at).map((event) => second.play(event));
      expect(rest).toEqual(frames.slice(at));
      // A mark is not touched by who plays on from it.
      expect(new Tape(mark).mark()).toEqual(mark);
    }),
    { numRuns: 40 },
  );
});

test('a run that is shown can be taken back and goes on in the same way', () => {
  fc.assert(
    fc.property(choices, fc.nat(), (seeds, where) => {
      const { log } = randomStory(seeds);
      const at = where % log.length;
      const tape = new Tape();
      for (const event of log.slice(0, at)) tape.skip(event);
      const shown = visibleRun(runOf(tape.state));
      const back = runFromVisible(JSON.parse(JSON.stringify(shown)));
      expect(visibleRun(back)).toEqual(shown);
      const copy = new Tape({ ...tape.mark(), run: back });
      for (const event of log.slice(at)) {
        expect(copy.play(event).states).toEqual(tape.play(event).states);
      }
      expect(visibleRun(runOf(copy.state))).toEqual(visibleRun(runOf(tape.state)));
    }),
    { numRuns: 40 },
  );
});

test('every two-hundredth frame carries everything', () => {
  const { log } = randomStory([1]);
  const [started, ...rest] = log;
  if (started === undefined) throw new Error('a story starts');
  const tape = new Tape();
  tape.play(started);
  const note = (eventId: number): LogEvent => ({ ...started, type: 'report.note', eventId, causeId: eventId });
  const frames = Array.from({ length: 2 * KEYFRAME_EVERY }, (_, index) => tape.play(rest[index] ?? note(index + 2)));
  expect(frames.filter((frame) => frame.isKeyframe).map((frame) => frame.n)).toEqual([200, 400]);
  expect(frames.find((frame) => frame.n === 300)).toMatchObject({ changed: false, patch: {} });
});

test('no sentence of an error is shown', () => {
  const story = randomStory([3, 7, 7, 7, 7]);
  expect(JSON.stringify(visibleRun(story.run))).not.toContain('it broke');
});

test('a hand-made run is read as far as it goes', () => {
  const run = runFromVisible({
    steps: { a: { status: 'odd', activation: 'x', loop: { mode: 'parallel', total: 3, cursor: { frame: 2 } } }, b: 4 },
    open: { 7: { step: 'a' } },
    active: ['a', 4],
    failures: [{ step: 'a', kind: 'tool_error' }, 4],
    arrivals: { j: { from: 'a', failure: { kind: 'transform' } } },
    written: { x: 4, y: 'no' },
    settled: 'no',
    failing: 'yes',
  });
  expect(run.steps['a']).toMatchObject({ activation: 0, loop: { mode: 'parallel', total: 3, cursor: { frame: 2 } } });
  expect(run.open[7]).toMatchObject({ step: 'a', activation: 1, outcome: null });
  expect(run.active).toEqual(['a']);
  expect(run.failures).toEqual([
    { step: 'a', event: null, iteration: null, task: null, kind: 'tool_error', code: null, message: '' },
  ]);
  expect(run.arrivals['j']).toMatchObject({ from: 'a', failure: { kind: 'transform', code: null } });
  expect({ ...run.written }).toEqual({ x: 4 });
  expect([run.settled, run.failing]).toEqual([null, false]);
});

const json = fc.letrec((tie) => ({
  map: fc.dictionary(
    fc.constantFrom('a', 'b', 'c', '__proto__'),
    fc.oneof(fc.nat(9), fc.string(), fc.array(fc.nat(3)), tie('map')),
    { maxKeys: 4 },
  ),
})).map as fc.Arbitrary<JsonMap>;

test('a merge patch turns the one map into the other', () => {
  fc.assert(
    fc.property(json, json, (from, to) => {
      const patch = mergePatch(from, to);
      expect(applyPatch(from, patch ?? {})).toEqual(applyPatch({}, to));
      expect(mergePatch(to, to)).toBeNull();
    }),
  );
});

/** What a viewer has put together after each frame of a log. */
function played(log: readonly LogEvent[]): readonly { readonly shown: JsonMap; readonly changed: boolean }[] {
  const tape = new Tape();
  let shown: JsonMap = {};
  return log.map((event, index) => {
    const frame = tape.play(event);
    expect(tape.n).toBe(index + 1);
    shown = applyPatch(frame.isKeyframe ? {} : shown, frame.patch);
    return { shown, changed: frame.changed };
  });
}

test('a failure shows in its frame with all that it closes', () => {
  const story = given([step('start', every('a', 'b', 'c')), step('a'), step('b'), step('c')])
    .start()
    .ok('start');
  story.park('b', 77).claim('c').fail('a');
  const { shown } = played(story.log).at(-1) ?? {};
  expect(shown).toEqual(JSON.parse(JSON.stringify(visibleRun(story.run))));
  expect(shown).toMatchObject({ failing: true, failures: [{ step: 'a' }], steps: { b: { status: 'skipped' } } });
});

test('what is written after the end is not shown', () => {
  const story = given([step('a')])
    .start()
    .ok('a');
  story.note({ type: 'ctx.updated', status: 'completed', nodeName: 'a', context: { values: { x: 1 } } });
  const frames = played(story.log);
  expect(frames.at(-1)?.changed).toBe(false);
  expect(frames.at(-1)?.shown).toEqual(frames.at(-2)?.shown);
});

test('a run that is made by hand may leave out whatever it likes', () => {
  expect(runFromVisible({})).toEqual(newRun());
  expect(runFromVisible({ steps: [], open: 'none', written: { a: 'b' } })).toEqual(newRun());
});
