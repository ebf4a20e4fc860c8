import { describe, expect, test } from 'vitest';
import { admits, arc, every, first, NEVER, step } from '../../support/playbooks.ts';
import { given } from '../../support/story.ts';

describe('a join', () => {
  const fork = () =>
    given([
      step('start', every('fast', 'slow', 'long')),
      step('fast', first('join')),
      step('slow', first('join')),
      step('long', first('tail')),
      step('tail', first('join')),
      step('join'),
    ])
      .start()
      .ok('start');

  test('is entered once, after every branch', () => {
    const story = fork().ok('fast').ok('long').ok('tail');
    expect(story.entered).not.toContain('join');
    expect(story.run.joins).toEqual(['join']);
    story.ok('slow');
    expect(story.told).toEqual(['step.enter join', 'command.issued join']);
    expect(story.ok('join').end.type).toBe('playbook.completed');
    expect(story.entered.filter((name) => name === 'join')).toHaveLength(1);
  });

  test('says that it waits, because the log has to know which arcs were taken', () => {
    const story = fork().ok('fast', 1);
    expect(story.told).toEqual(['ctx.updated fast']);
    expect(story.decided[0]).toMatchObject({
      status: 'completed',
      context: { step: 'fast', source: 'arc', values: {} },
      meta: { arrived: { join: { from: 'fast', outcome: 'ok', activation: 1 } } },
    });
    expect(story.ok('slow').told).toEqual([]);
  });

  test('does not wait for branches that were not taken', () => {
    const story = given([
      step('a', every(arc('b', 'true'), arc('c', 'false'))),
      step('b', first('j')),
      step('c', first('j')),
      step('j'),
    ])
      .start()
      .ok('a');
    expect(story.told).toEqual(['step.enter b', 'command.issued b', 'step.skipped c']);
    expect(story.ok('b').told).toEqual(['step.enter j', 'command.issued j']);
  });

  test('opens when a branch ends without reaching it', () => {
    const story = given([
      step('a', every('b', 'c')),
      step('b', first('j')),
      step('c', first(arc('j', 'false'))),
      step('j'),
    ]);
    story.start().ok('a').ok('b').ok('c');
    expect(story.told).toEqual(['step.enter j', 'command.issued j']);
  });

  test('opens when the failure of a branch is handled elsewhere', () => {
    const story = given([
      step('a', every('b', 'c')),
      step('b', first('j')),
      step('c', first(arc('j', "event.name == 'call.done'"), arc('fix', "event.name == 'call.error'"))),
      step('fix'),
      step('j'),
    ])
      .start()
      .ok('a')
      .ok('b')
      .fail('c');
    expect(story.openKeys).toEqual(['fix', 'j']);
  });

  test('waits for a loop in one branch until the loop has left', () => {
    const story = given([
      step('a', every('b', 'again')),
      step('b', first('j')),
      step('again', { set: { 'ctx.n': '{{ (ctx.n or 0) + 1 }}' }, ...first(arc('again', 'ctx.n < 3'), 'j') }),
      step('j'),
    ])
      .start()
      .ok('a')
      .ok('b');
    story.ok('again').ok('again');
    expect(story.entered).not.toContain('j');
    expect(story.ok('again').openKeys).toEqual(['j']);
  });

  test('runs once per round when fork and join lie inside a loop', () => {
    const story = given([
      step('fork', every('b', 'c')),
      step('b', first('j')),
      step('c', first('j')),
      step('j', { set: { 'ctx.round': '{{ (ctx.round or 0) + 1 }}' }, ...first(arc('fork', 'ctx.round < 3'), 'out') }),
      step('out'),
    ]).start();
    for (let round = 0; round < 3; round += 1)
      story
        .ok('fork')
        .ok(round % 2 === 0 ? 'b' : 'c')
        .ok(round % 2 === 0 ? 'c' : 'b')
        .ok('j');
    story.ok('out');
    expect(story.entered.filter((name) => name === 'j')).toHaveLength(3);
    expect(story.end.type).toBe('playbook.completed');
  });

  test('never blocks another for ever', () => {
    // Each of the two joins can be reached from the other.
    const story = given([
      step('a', every('b', 'c')),
      step('b', every('j', 'k')),
      step('c', every('j', 'k')),
      step('j', first(arc('k', 'false'))),
      step('k', first(arc('j', 'false'))),
    ])
      .start()
      .ok('a')
      .ok('b');
    expect(story.run.joins).toEqual(['j', 'k']);
    story.ok('c');
    expect(story.openKeys).toContain('j');
    while (!story.isEnded) story.ok(story.openKeys[0] ?? '');
    expect(story.entered.filter((name) => name === 'j' || name === 'k').sort()).toEqual(['j', 'k']);
  });

  test('that is reached again while it runs waits for its next round', () => {
    const story = given([
      step('a', every('b', 'c')),
      step('b', first('j')),
      step('c', first(arc('d', 'true'))),
      step('d', first('j')),
      step('j', first(arc('b', 'false'))),
    ])
      .start()
      .ok('a')
      .ok('b');
    expect(story.ok('c').run.joins).toEqual(['j']);
    expect(story.ok('d').openKeys).toEqual(['j']);
  });

  test('opens for a join in front of it first', () => {
    const story = given([
      step('a', every('b', 'c', 'd')),
      step('b', first('j')),
      step('c', first('j')),
      step('d', first('k')),
      step('j', first('k')),
      step('k'),
    ])
      .start()
      .ok('a')
      .ok('d')
      .ok('b')
      .ok('c');
    expect(story.openKeys).toEqual(['j']);
    expect(story.ok('j').openKeys).toEqual(['k']);
  });

  test('can be fed by a loop step, whose end is its arrival', () => {
    const story = given([
      step('a', every('l', 'b')),
      step('l', { loop: { in: [1, 2], iterator: 'n' }, ...first('j') }),
      step('b', first('j')),
      step('j'),
    ])
      .start()
      .ok('a')
      .ok('b')
      .ok('l#0');
    expect(story.entered).not.toContain('j');
    story.ok('l#1');
    expect(story.told).toEqual(['loop.done l', 'step.exit l', 'step.enter j', 'command.issued j']);
  });

  test('waits for a parked branch', () => {
    const story = given([
      step('a', every('b', 'w')),
      step('b', first('j')),
      step('w', { tool: { kind: 'playbook', path: 'x', wait: true }, ...first('j') }),
      step('j'),
    ])
      .start()
      .ok('a')
      .park('w', 9)
      .ok('b');
    expect(story.entered).not.toContain('j');
    story.restart().unpark('w', 'ok', { n: 1 });
    expect(story.openKeys).toEqual(['j']);
  });
});

describe('a join that waits', () => {
  test('is admitted by the loop that reached it last', () => {
    const story = given([
      step('start', every('slow', 'each')),
      step('slow', first(arc('join', 'false'))),
      step('each', { loop: { in: [1, 2], iterator: 'n' }, ...first('join') }),
      step('join', admits('loop.length == 2 and output.data.count == 2')),
    ])
      .start()
      .ok('start')
      .ok('each#0')
      .ok('each#1');
    expect(story.run.joins).toEqual(['join']);
    expect(story.ok('slow').entered).toContain('join');
  });

  test('is admitted by the step that was skipped on the way to it', () => {
    const story = given([
      step('start', every('slow', 'no')),
      step('slow', first(arc('join', 'false'))),
      step('no', { ...NEVER, ...first('join') }),
      step('join', admits("output.status == 'skipped' and output.data is undefined")),
    ])
      .start()
      .ok('start');
    expect(story.run.arrivals['join']).toMatchObject({ from: 'no', outcome: 'skipped', value: null });
    expect(story.state.materials.missing(story.run)).toEqual([]);
    expect(story.ok('slow').entered).toContain('join');
  });
});
