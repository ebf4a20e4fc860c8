import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { absorbEvent, restoreExecution, runOf } from '../../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import { replayExecution } from '../../machines/replay.ts';
import { Chance, forwardWorkflows, law, seeds, workflows } from '../support/arbitraries.ts';
import { checkLog } from '../support/invariants.ts';
import { given, type Story } from '../support/story.ts';

const STEPS_MAX = 600;

/** Reports open commands in any order, with any outcome, until the run ends; true when it did. */
function play(story: Story, chance: Chance, onStep: () => void = () => {}): boolean {
  for (let count = 0; count < STEPS_MAX && !story.isEnded; count += 1) {
    const command = chance.pick(story.open);
    const key = command.event.nodeId;
    if (chance.isOneIn(8)) story.restart();
    if (story.run.open[command.commandId]?.parkedOn !== null) {
      story.unpark(key, chance.isOneIn(3) ? 'error' : 'ok', 1);
      onStep();
      continue;
    }
    switch (chance.below(9)) {
      case 0:
        story.fail(key, { retryable: chance.isOneIn(2) });
        break;
      case 1:
        story.close(key, chance.isOneIn(2) ? 'command.completed' : 'command.failed');
        break;
      case 2:
        story.claim(key);
        break;
      case 3:
        story.park(key, 70 + count);
        break;
      default:
        story.ok(key, chance.below(3), chance.isOneIn(3) ? { ctx: { n: chance.below(5) } } : {});
    }
    onStep();
  }
  return story.isEnded;
}

function storyOf(steps: readonly JsonMap[]): Story {
  return given(steps, {}, { maxStepActivations: 6, maxDenials: 60 }).start();
}

describe('for every playbook and every schedule', () => {
  test('a run ends when all its commands were reported, and its log keeps the rules', () => {
    fc.assert(
      fc.property(workflows, seeds, (steps, seed) => {
        // The story folds its log anew after each turn and compares it with the live state.
        const story = storyOf(steps);
        expect(play(story, new Chance(seed))).toBe(true);
        checkLog(story.log);
        expect(story.run.joins).toEqual([]);
      }),
      law(250),
    );
  });

  test('a snapshot and the rows after it stand for the same as the whole log', () => {
    fc.assert(
      fc.property(workflows, seeds, fc.nat(30), (steps, seed, at) => {
        const story = storyOf(steps);
        story.isChecked = false;
        let turns = 0;
        let stored: { readonly through: number; readonly text: string } | null = null;
        play(story, new Chance(seed), () => {
          turns += 1;
          if (turns === at)
            stored = { through: story.log.length, text: JSON.stringify([story.state.snapshot.value, story.run]) };
        });
        const { through, text } = stored ?? { through: 0, text: '' };
        if (through === 0) return;
        const [value, run] = JSON.parse(text);
        const state = restoreExecution(value, run);
        // Nothing that is final has more to fold.
        if (value === 'completed' || value === 'failed') return;
        for (const event of story.log.slice(through)) absorbEvent(state, event);
        const full = replayExecution(story.log);
        expect(state.snapshot.value).toEqual(full.snapshot.value);
        expect(JSON.parse(JSON.stringify(runOf(state)))).toEqual(JSON.parse(JSON.stringify(runOf(full))));
      }),
      law(150),
    );
  });

  test('what ended absorbs everything', () => {
    fc.assert(
      fc.property(workflows, seeds, (steps, seed) => {
        const chance = new Chance(seed);
        const story = storyOf(steps);
        story.isChecked = false;
        for (let count = chance.below(6); count > 0 && !story.isEnded; count -= 1)
          story.ok(chance.pick(story.open).event.nodeId, 1);
        if (!story.isEnded) story.cancel();
        const before = JSON.stringify([story.state.snapshot.value, story.run]);
        for (const command of story.issued) {
          for (const type of ['call.done', 'call.error', 'command.completed', 'command.failed', 'step.exit']) {
            story.tell({ type, status: 'completed', nodeName: command.step.step.name, commandId: command.commandId });
            expect(story.decided).toEqual([]);
          }
        }
        story.tell({ type: 'execution.cancelled', status: 'cancelled', nodeName: 'x' });
        expect(JSON.stringify([story.state.snapshot.value, story.run])).toBe(before);
      }),
      law(80),
    );
  });

  test('a repeated report changes nothing', () => {
    fc.assert(
      fc.property(workflows, seeds, (steps, seed) => {
        const chance = new Chance(seed);
        const story = storyOf(steps);
        const settled: { readonly step: string; readonly commandId: number }[] = [];
        for (let count = 0; count < 40 && !story.isEnded; count += 1) {
          const command = chance.pick(story.open);
          story.ok(command.event.nodeId, chance.below(2));
          settled.push({ step: command.step.step.name, commandId: command.commandId });
          const before = JSON.stringify([story.state.snapshot.value, story.run]);
          const again = chance.pick(settled);
          for (const type of ['call.done', 'command.completed', 'command.failed']) {
            story.tell({ type, status: 'completed', nodeName: again.step, commandId: again.commandId });
            expect(story.decided).toEqual([]);
          }
          expect(JSON.stringify([story.state.snapshot.value, story.run])).toBe(before);
        }
      }),
      law(60),
    );
  });

  test('the same schedule decides the same', () => {
    fc.assert(
      fc.property(workflows, seeds, (steps, seed) => {
        const [one, two] = [storyOf(steps), storyOf(steps)];
        play(one, new Chance(seed));
        play(two, new Chance(seed));
        expect(two.log).toEqual(one.log);
      }),
      law(40),
    );
  });
});

describe('where no order was asked for', () => {
  test('every step that can be reached runs exactly once, whatever ends first', () => {
    fc.assert(
      fc.property(forwardWorkflows, seeds, (steps, seed) => {
        const chance = new Chance(seed);
        const story = given(steps).start();
        while (!story.isEnded) story.ok(chance.pick(story.open).event.nodeId);
        const reachable = new Set(['s0', ...story.plan.graph.after('s0')]);
        expect([...story.entered].sort()).toEqual([...reachable].sort());
        expect(story.end.type).toBe('playbook.completed');
        expect(story.skipped).toEqual([]);
      }),
      law(200),
    );
  });

  test('a loop has the same aggregate, whatever ends first', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer(), fc.constant(null)), { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 1, max: 5 }),
        seeds,
        (values, limit, seed) => {
          const chance = new Chance(seed);
          const loop = { in: values.length, iterator: 'i', spec: { mode: 'parallel', max_in_flight: limit } };
          const story = given([
            { step: 'each', loop, tool: { kind: 'noop' }, spec: { policy: { failure: { mode: 'best_effort' } } } },
          ]).start();
          while (!story.isEnded) {
            const command = chance.pick(story.open);
            const value = values[command.iterationIndex ?? 0] ?? null;
            if (chance.isOneIn(4)) story.restart();
            if (value === null) story.fail(command.event.nodeId);
            else story.ok(command.event.nodeId, value);
          }
          const failed = values.flatMap((value, index): Json[] => (value === null ? [index] : []));
          expect(story.result).toMatchObject({
            results: values,
            stats: { total: values.length, success: values.length - failed.length, failed: failed.length },
            errors: failed.map((index) => ({ index })),
          });
        },
      ),
      law(80),
    );
  });
});
