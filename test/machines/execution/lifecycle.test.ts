import { describe, expect, test } from 'vitest';
import type { LogEvent } from '../../../machines/events.ts';
import { executionMachine } from '../../../machines/execution/machine.ts';
import { progressOf, touchedBy } from '../../../machines/execution/progress.ts';
import { newRun } from '../../../machines/execution/run.ts';
import { replayExecution } from '../../../machines/replay.ts';
import { arc, every, first, step } from '../../support/playbooks.ts';
import { given } from '../../support/story.ts';

const PARALLEL = () =>
  given([step('each', { loop: { in: [1, 2, 3], iterator: 'n', spec: { mode: 'parallel' } } })]).start();

describe('cancelling', () => {
  test('closes open commands after the terminal row, and late outcomes change nothing', () => {
    const story = PARALLEL().ok('each#0').claim('each#1').cancel('enough');
    expect(story.told).toEqual(['command.cancelled each#1', 'command.cancelled each#2']);
    expect(story.decided[0]).toMatchObject({
      ...{ status: 'cancelled', nodeName: 'each', nodeType: 'noop', attempt: 1, context: { reason: 'enough' } },
      parentEventId: story.issued[1]?.event.eventId,
      meta: { attempt: 1, step: 'each', activation: 1, iteration_index: 1 },
    });
    expect(story.decided[1]).toMatchObject({ nodeType: 'noop', attempt: 0, meta: { iteration_index: 2 } });
    expect(story.value).toBe('cancelled');
    const before = JSON.stringify([story.state.snapshot.value, story.run]);
    const { commandId } = story.issued[1] ?? { commandId: 0 };
    story.tell({ type: 'call.done', status: 'completed', nodeName: 'each', commandId });
    story.tell({ type: 'command.completed', status: 'completed', nodeName: 'each', commandId });
    story.tell({ type: 'playbook.completed', status: 'completed', nodeName: 'x' });
    expect(story.decided).toEqual([]);
    expect(JSON.stringify([story.state.snapshot.value, story.run])).toBe(before);
  });

  test('leaves the children of parked commands to whoever cancels', () => {
    const story = given([step('w', { tool: { kind: 'playbook', path: 'x', wait: true } })])
      .start()
      .park('w', 5)
      .cancel();
    expect(story.told).toEqual([]);
    expect(story.abandoned).toEqual([]);
  });

  test('drops joins', () => {
    const story = given([step('a', every('b', 'c')), step('b', first('j')), step('c', first('j')), step('j')]);
    story.start().ok('a').ok('b').cancel();
    expect(story.run.joins).toEqual([]);
  });
});

describe('an end from outside', () => {
  test('closes what is open and names the type when no reason is given', () => {
    const story = given([step('a')]).start();
    story.tell({ type: 'playbook.failed', status: 'failed', nodeName: 'x', context: { error: 'mine' } });
    expect(story.told).toEqual(['command.cancelled a']);
    expect(story.decided[0]?.context['reason']).toBe('the execution was ended by playbook.failed');
    expect(story.value).toBe('failed');
  });
});

describe('an outcome', () => {
  test('is the first one recorded, whatever the closing row or a later attempt says', () => {
    const story = given([step('a', first(arc('b', "event.name == 'call.done' and a == 'first'"))), step('b')]).start();
    const { commandId } = story.command('a');
    story.note({
      type: 'call.done',
      status: 'completed',
      nodeName: 'a',
      commandId,
      result: { status: 'completed', context: { data: 'first' } },
    });
    story.restart();
    story.note({ type: 'call.error', status: 'failed', nodeName: 'a', commandId, error: 'second' });
    story.close('a', 'command.failed');
    expect(story.openKeys).toEqual(['b']);
  });

  test('that is an error fails the command also when it was closed as completed', () => {
    const story = given([step('a')]).start();
    story.note({
      type: 'call.error',
      status: 'failed',
      nodeName: 'a',
      commandId: story.command('a').commandId,
      error: 'broke',
    });
    story.close('a', 'command.completed');
    expect(story.end.context['error']).toBe('Failed steps: a: broke');
  });

  test('may be in the closing row itself', () => {
    const story = given([step('a')]).start();
    story.close('a', 'command.completed', { result: { status: 'completed', context: { data: 5 } } });
    expect(story.result).toBe(5);
    const failed = given([step('a')]).start();
    failed.close('a', 'command.failed', {
      context: { error: { kind: 'config', code: 'C', message: 'bad' } },
      error: 'bad',
    });
    expect(failed.end.context['error_detail']).toMatchObject({
      errors: [{ kind: 'config', code: 'C', message: 'bad' }],
    });
  });

  test('of an outrun attempt decides nothing', () => {
    const story = given([step('a')]).start();
    const { commandId } = story.command('a');
    for (const type of ['call.done', 'command.completed', 'command.failed', 'command.cancelled']) {
      story.tell({ type, status: 'completed', nodeName: 'a', commandId, stale: true });
    }
    story.tell({
      type: 'command.completed',
      status: 'completed',
      nodeName: 'a',
      commandId,
      stale: true,
      context: { pending_callback: true },
    });
    expect(story.openKeys).toEqual(['a']);
    expect(story.run.open[commandId]).toMatchObject({ outcome: null, parkedOn: null });
  });

  test('for a command that is closed or unknown decides nothing', () => {
    const story = given([step('a', first('b')), step('b')]).start();
    const { commandId } = story.command('a');
    story.ok('a');
    for (const id of [commandId, 12_345, null]) {
      for (const type of [
        'call.done',
        'call.error',
        'command.completed',
        'command.failed',
        'command.cancelled',
        'step.exit',
      ]) {
        story.tell({ type, status: 'completed', nodeName: 'a', commandId: id });
      }
      story.tell({
        type: 'command.completed',
        status: 'completed',
        nodeName: 'a',
        commandId: id,
        context: { pending_callback: true },
      });
    }
    expect(story.openKeys).toEqual(['b']);
  });
});

describe('a parked command', () => {
  const parked = () =>
    given([step('w', { tool: { kind: 'playbook', path: 'x', wait: true }, ...first('b') }), step('b')])
      .start()
      .park('w', 77);

  test('stays open until its call row', () => {
    const story = parked();
    expect(story.told).toEqual([]);
    expect(story.run.open[story.command('w').commandId]?.parkedOn).toBe(77);
    expect(story.restart().unpark('w', 'ok', { n: 1 }).openKeys).toEqual(['b']);
  });

  test('fails its step when the child failed', () => {
    expect(parked().unpark('w', 'error').end.context['error']).toBe('Failed steps: w: child');
  });
});

describe('rows of other writers', () => {
  const row = (
    type: string,
    more: Partial<LogEvent> = {},
  ): Pick<LogEvent, 'type' | 'status' | 'nodeName'> & Partial<LogEvent> => ({
    type,
    status: 'completed',
    nodeName: 'ghost',
    ...more,
  });

  test('that do not fit the run are ignored', () => {
    const story = given([step('a')]).start();
    const before = JSON.stringify(story.run);
    for (const draft of [
      row('loop.done'),
      row('loop.item'),
      row('command.issued'),
      row('frame.started'),
      row('playbook_started'),
      row('ctx.updated', { context: { values: 3 } }),
      row('ctx.updated', { meta: { arrived: ['x'] } }),
      row('execution.started'),
      row('workflow.completed'),
    ]) {
      story.tell(draft);
    }
    expect(JSON.stringify(story.run)).toBe(before);
  });

  test('may open commands and steps of their own', () => {
    const story = given([step('a')]).start();
    story.tell(row('step.enter', { nodeName: 'ghost', context: { iterations_expected: 2, mode: 'cursor' } }));
    story.tell(row('command.issued', { nodeName: 'ghost', commandId: 5, meta: { iteration_index: 0 } }));
    story.tell(row('command.issued', { nodeName: 'ghost', commandId: 5 }));
    expect(story.run.steps['ghost']?.loop).toMatchObject({ mode: 'cursor', total: 2, open: 1, next: 1 });
    story.tell(row('command.failed', { nodeName: 'ghost', commandId: 5, status: 'failed' }));
    expect(story.run.steps['ghost']?.loop).toMatchObject({ failed: 1, open: 0 });
    story.tell(row('command.issued', { nodeName: 'ghost', commandId: 6, meta: { iteration_index: 1 } }));
    story.tell(row('command.cancelled', { nodeName: 'ghost', commandId: 6 }));
    expect(story.run.active).toEqual(['a']);
    story.tell(row('command.issued', { nodeName: 'nowhere', commandId: 7 }));
    story.tell(row('command.completed', { nodeName: 'nowhere', commandId: 7 }));
    story.tell(row('command.issued', { nodeName: 'nowhere', commandId: 8 }));
    story.tell(row('command.cancelled', { nodeName: 'nowhere', commandId: 8 }));
    story.tell(row('step.enter', { nodeName: 'ghost' }));
    story.tell(row('step.skipped', { nodeName: 'ghost' }));
    expect(story.run.openCount).toBe(1);
  });

  test('are folded by their cause, also when they were numbered before its decisions', () => {
    const story = given([step('a', every('b', 'c')), step('b'), step('c')])
      .start()
      .ok('a')
      .ok('b', 1)
      .ok('c', 2);
    // A batch numbers its rows first: the decisions of row 6 get higher numbers than row 7.
    const shuffled = [...story.log].sort((x, y) => Math.sin(x.eventId * 7) - Math.sin(y.eventId * 7));
    const replayed = replayExecution(shuffled);
    expect(replayed.snapshot.context.run).toEqual(story.run);
    const seen: number[] = [];
    replayExecution(story.log, (event) => seen.push(event.eventId));
    expect(seen).toEqual(story.log.map((event) => event.eventId));
  });
});

describe('progress', () => {
  test('counts ended steps against those that can still be reached', () => {
    const story = given([
      step('a', every('b', 'c')),
      step('b', first('j')),
      step('c', first('j')),
      step('j', first('z')),
      step('z'),
    ]);
    const { graph } = story.plan;
    expect(progressOf(newRun(), graph, touchedBy(newRun(), graph), false)).toEqual({
      percent: 0,
      detail: { total_steps: 1, completed_steps: 0, failed_steps: 0, running_steps: 0, skipped_steps: 0 },
    });
    story.start();
    expect(progressOf(story.run, graph, touchedBy(story.run, graph), false)).toMatchObject({
      percent: 0,
      detail: { total_steps: 5, running_steps: 1 },
    });
    story.ok('a').ok('b');
    expect(progressOf(story.run, graph, touchedBy(story.run, graph), false)).toMatchObject({
      percent: 40,
      detail: { total_steps: 5, completed_steps: 2, running_steps: 1 },
    });
    story.ok('c').ok('j').ok('z');
    expect(progressOf(story.run, graph, touchedBy(story.run, graph), true)).toMatchObject({
      percent: 100,
      detail: { total_steps: 5, completed_steps: 5, running_steps: 0 },
    });
  });

  test('counts joins that wait in any part of a long workflow, and no step of other writers', () => {
    const chain = Array.from({ length: 40 }, (_, n) => step(`s${n}`, first(n === 39 ? 'meet' : `s${n + 1}`)));
    const story = given([step('start', every('s0', 'side')), ...chain, step('side', first('meet')), step('meet')]);
    story.start().ok('start').ok('side');
    const total = () => {
      const { graph } = story.plan;
      return progressOf(story.run, graph, touchedBy(story.run, graph), false).detail['total_steps'];
    };
    expect(story.run.joins).toEqual(['meet']);
    expect(total()).toBe(43);
    story.tell({ type: 'step.enter', status: 'started', nodeName: 'ghost' });
    expect(total()).toBe(44);
  });

  test('is never a hundred before the end', () => {
    const story = given([step('a', first('a'))]).start();
    for (let round = 0; round < 3; round += 1) story.ok('a');
    expect(progressOf(story.run, story.plan.graph, touchedBy(story.run, story.plan.graph), false).percent).toBeLessThan(
      100,
    );
  });
});

describe('the chart', () => {
  test('is plain data, described and tagged in every state', () => {
    expect(JSON.parse(JSON.stringify(executionMachine.config))).toBeTruthy();
    for (const node of Object.values(executionMachine.states)) {
      expect(node.description).toBeTruthy();
      expect(node.tags.length).toBeGreaterThan(0);
    }
  });
});
