import { describe, expect, test } from 'vitest';
import { collectionOf } from '../../../machines/execution/loop.ts';
import type { Json, JsonMap } from '../../../machines/json.ts';
import { admits, arc, first, step } from '../../support/playbooks.ts';
import { given, type Story } from '../../support/story.ts';

const AFTER = step('after', { tool: { kind: 'noop', result: '{{ each }}' } });

function loop(over: Json, spec: JsonMap = {}, keys: JsonMap = {}): Story {
  return given([
    step('each', {
      loop: { in: over, iterator: 'n', spec },
      ...first(arc('after', "event.name == 'loop.done'")),
      ...keys,
    }),
    AFTER,
  ]);
}

const failure = (mode: string): JsonMap => ({ spec: { policy: { failure: { mode } } } });

describe('a collection', () => {
  test.each<[string, Json | undefined, readonly Json[] | null]>([
    ['a list', [3, [4]], [3, [4]]],
    [
      'a map',
      { b: 1, a: null },
      [
        { key: 'b', value: 1 },
        { key: 'a', value: null },
      ],
    ],
    ['a whole number', 3, [0, 1, 2]],
    ['zero', 0, []],
    ['a negative number', -2, []],
    ['a JSON array in a string', ' [1, "x"]', [1, 'x']],
    ['a string', 'abc', ['abc']],
    ['a string that only begins like an array', '[not json', ['[not json']],
    ['an empty string', '', ['']],
    ['null', null, null],
    ['undefined', undefined, null],
    ['a boolean', true, null],
    ['a broken number', 1.5, null],
  ])('is read from %s', (_, value, items) => {
    expect(collectionOf(value)).toEqual(items);
  });

  test('that is written as a list or a map is rendered throughout', () => {
    const items = (story: Story) => story.events('step.enter')[0]?.context['collection'];
    const list = loop(['{{ workload.a }}', 'x{{ 1 + 1 }}', { deep: ['{{ workload.a }}'] }]).start({ a: 7 });
    expect(items(list)).toEqual([7, 'x2', { deep: [7] }]);
    const map = loop({ z: '{{ workload.a }}', '{{ workload.b }}': 1 }).start({ a: 7, b: 'key' });
    expect(items(map)).toEqual([
      { key: 'z', value: 7 },
      { key: 'key', value: 1 },
    ]);
    const broken = loop(['{{ 1 + none }}']).start();
    expect(broken.end.context['error_detail']).toMatchObject({ errors: [{ kind: 'transform' }] });
  });

  test.each([
    ['{{ workload.none }}', {}, 'undefined'],
    ['{{ workload.none }}', { none: null }, 'null'],
    ['{{ workload.none }}', { none: true }, 'true'],
    ['{{ workload.none }}', { none: 2.5 }, '2.5'],
  ])('that is none fails the step and names it: %s with %j', (expression, inputs, got) => {
    const story = loop(expression).start(inputs);
    expect(story.told).toEqual([
      'step.enter each',
      'loop.done each',
      'step.exit each',
      'workflow.failed workflow',
      'playbook.failed tests/told',
    ]);
    expect(story.end.context['error_detail']).toMatchObject({
      errors: [
        { step: 'each', kind: 'config', message: `loop step 'each': '${expression}' is not iterable (got ${got})` },
      ],
    });
  });

  test('that raises fails the step with kind transform', () => {
    expect(loop('{{ 1 / 0 }}').start().end.context['error_detail']).toMatchObject({ errors: [{ kind: 'transform' }] });
  });

  test('that is none can be handled, but not for ever', () => {
    const steps = [step('each', { loop: { in: '{{ none }}', iterator: 'n' }, ...first(arc('each', 'error')) })];
    const story = given(steps);
    story.isChecked = false;
    expect(story.start().end.context['error_detail']).toMatchObject({ errors: [{ code: 'DENIAL_LIMIT' }] });
    const handled = loop(
      '{{ none }}',
      {},
      first(arc('after', "event.name == 'loop.failed' and error.kind == 'config'")),
    ).start();
    expect(handled.openKeys).toEqual(['after']);
  });

  test('may be written as a literal', () => {
    expect(loop([5, 6]).start().last('each').context.iteration).toMatchObject({ item: 5, index: 0, total: 2 });
    expect(loop(true).start().end.context['error']).toContain("'true' is not iterable");
  });

  test('may not be longer than the limit', () => {
    const story = given([step('each', { loop: { in: '{{ 6 }}', iterator: 'n' } })], {}, { loopMaxItems: 5 }).start();
    expect(story.end.context['error_detail']).toMatchObject({ errors: [{ step: 'each', code: 'LOOP_MAX_ITEMS' }] });
    expect(
      given([step('each', { loop: { in: '{{ 5 }}', iterator: 'n' } })], {}, { loopMaxItems: 5 }).start().openKeys,
    ).toEqual(['each#0']);
  });

  test('that is empty completes the step in the same turn', () => {
    const story = loop([]).start();
    expect(story.told).toEqual([
      'step.enter each',
      'loop.done each',
      'step.exit each',
      'step.enter after',
      'command.issued after',
    ]);
    expect(story.decided[0]?.context).toEqual({
      activation: 1,
      iterator: 'n',
      mode: 'sequential',
      iterations_expected: 0,
      max_in_flight: 1,
      collection: [],
    });
    expect(story.decided[1]).toMatchObject({
      status: 'completed',
      context: { iterations: 0, activation: 1, stats: { total: 0, success: 0, failed: 0 } },
    });
    expect(story.last('after').context.steps['each']?.value).toEqual({
      results: [],
      data: [],
      errors: [],
      stats: { total: 0, success: 0, failed: 0 },
      count: 0,
      status: 'completed',
    });
  });

  test('that is large is stored apart and still handed out item by item', () => {
    const items = Array.from({ length: 50 }, (_, id) => ({ id, text: 'x'.repeat(20) }));
    const story = given(
      [step('each', { loop: { in: '{{ workload.items }}', iterator: 'n' } })],
      {},
      { inlineMaxBytes: 500 },
    );
    story.start({ items });
    expect(story.events('step.enter')[0]?.context).toMatchObject({
      collection_ref: expect.stringMatching(/^callboard:/),
    });
    for (let index = 0; index < 50; index += 1) {
      expect(story.last('each').context.iteration).toMatchObject({ item: { id: index }, index });
      story.ok(`each#${index}`, index);
      if (index === 20) story.restart();
    }
    expect(story.end.type).toBe('playbook.completed');
  });

  test('may be a stored result, which is read whole', () => {
    const story = given(
      [step('a', first('each')), step('each', { loop: { in: '{{ a.rows }}', iterator: 'n' } })],
      {},
      { inlineMaxBytes: 200 },
    ).start();
    const rows = Array.from({ length: 40 }, (_, index) => index + 100);
    const stored = story.store({ rows }, 'a', 10);
    story.note({
      type: 'call.done',
      status: 'completed',
      nodeName: 'a',
      commandId: story.command('a').commandId,
      result: {
        status: 'completed',
        context: stored?.summary ?? {},
        ...(stored ? { reference: stored.reference } : {}),
      },
    });
    story.close('a', 'command.completed');
    expect(story.last('each').context.iteration).toMatchObject({ item: 100, total: 40 });
  });
});

describe('iterations', () => {
  test('run one after the other by default, each seeing the writes of the last', () => {
    const story = loop('{{ 100 }}', {}, { tool: { kind: 'noop', result: '{{ ctx.list }}' } }).start();
    expect(story.decided[1]).toMatchObject({
      nodeId: 'each#0',
      nodeName: 'each',
      meta: { iteration_index: 0, iteration_total: 100 },
    });
    for (let index = 0; index < 100; index += 1) {
      const command = story.command(`each#${index}`);
      const list = Array.from({ length: index }, (_, n) => n);
      expect(command.context.ctx).toEqual(index === 0 ? {} : { list });
      story.ok(`each#${index}`, index, { ctx: { list: [...list, index] } });
    }
    expect(story.variables['list']).toEqual(Array.from({ length: 100 }, (_, n) => n));
    expect(story.issued[7]?.key).toBe('each@1#7');
  });

  test('run in parallel up to the limit, issued in order of index', () => {
    const story = loop('{{ 20 }}', { mode: 'parallel', max_in_flight: 3 }).start();
    expect(story.openKeys).toEqual(['each#0', 'each#1', 'each#2']);
    story.ok('each#1', 1);
    expect(story.told).toEqual(['command.issued each#3']);
    let most = 0;
    for (let at = 0; story.openKeys[0]?.startsWith('each'); at += 1) {
      most = Math.max(most, story.open.length);
      story.ok(story.openKeys[at % story.openKeys.length] ?? '', at);
    }
    expect(most).toBe(3);
    expect(story.issued.filter((each) => each.iterationIndex !== null).map((each) => each.iterationIndex)).toEqual(
      Array.from({ length: 20 }, (_, n) => n),
    );
  });

  test('in parallel are a hundred at once when nothing is said', () => {
    expect(loop('{{ 150 }}', { mode: 'parallel' }).start().open).toHaveLength(100);
  });

  test('take a limit from a template, as a number or as text, capped by the engine', () => {
    expect(loop('{{ 9 }}', { mode: 'parallel', max_in_flight: '{{ workload.n }}' }).start({ n: 4 }).open).toHaveLength(
      4,
    );
    expect(
      loop('{{ 9 }}', { mode: 'parallel', max_in_flight: '{{ workload.n }}' }).start({ n: '5' }).open,
    ).toHaveLength(5);
    const capped = given(
      [step('each', { loop: { in: '{{ 9 }}', iterator: 'n', spec: { mode: 'parallel', max_in_flight: 8 } } })],
      {},
      { loopMaxInFlight: 2 },
    );
    expect(capped.start().open).toHaveLength(2);
  });

  test.each([0, -1, 1.5, 'many', '', null, true])('refuse %j as their limit', (n) => {
    const story = loop('{{ 9 }}', { mode: 'parallel', max_in_flight: '{{ workload.n }}' }).start({ n });
    expect(story.end.context['error_detail']).toMatchObject({
      errors: [{ step: 'each', kind: 'config', code: 'LOOP_MAX_IN_FLIGHT' }],
    });
  });

  test('carry their item, index and total', () => {
    expect(loop([7, 8]).start().ok('each#0').last('each').context.iteration).toEqual({
      kind: 'item',
      iterator: 'n',
      item: 8,
      index: 1,
      total: 2,
    });
  });
});

describe('the aggregate', () => {
  const run = (order: readonly number[]) => {
    const story = loop([10, 20, 30], { mode: 'parallel' }).start();
    for (const index of order) story.ok(`each#${index}`, (index + 1) * 20);
    return story;
  };

  test.each([[[0, 1, 2]], [[2, 1, 0]], [[1, 2, 0]]])('is in order of index when they end as %j', (order) => {
    const story = run(order);
    expect(story.told).toEqual(['loop.done each', 'step.exit each', 'step.enter after', 'command.issued after']);
    const value = {
      results: [20, 40, 60],
      data: [20, 40, 60],
      errors: [],
      stats: { total: 3, success: 3, failed: 0 },
      count: 3,
      status: 'completed',
    };
    expect(story.decided[0]).toMatchObject({
      status: 'completed',
      nodeType: 'loop',
      error: null,
      result: { status: 'completed', context: { data: value } },
      context: { iterations: 3, activation: 1, stats: value.stats },
    });
    expect(story.decided[1]).toMatchObject({ status: 'completed', context: { status: 'completed', activation: 1 } });
  });

  test('is the same after a crash in the middle', () => {
    const story = loop([10, 20, 30], { mode: 'parallel' })
      .start()
      .ok('each#2', 'c')
      .fail('each#0')
      .restart()
      .ok('each#1', 'b');
    const aggregate = story.events('loop.done')[0]?.result?.context?.['data'];
    expect(aggregate).toMatchObject({
      results: [null, 'b', 'c'],
      errors: [{ index: 0, kind: 'tool_error', code: 'E', message: 'it broke' }],
      stats: { total: 3, success: 2, failed: 1 },
    });
  });

  test('larger than the limit keeps its counts inline and the rest apart', () => {
    const story = given(
      [
        step('each', {
          loop: { in: [1, 2, 3], iterator: 'n' },
          ...first(arc('b', '{{ each.results[2].text | length == 300 and each.stats.total == 3 }}')),
        }),
        step('b'),
      ],
      {},
      { inlineMaxBytes: 400 },
    ).start();
    for (let index = 0; index < 3; index += 1) story.ok(`each#${index}`, { text: 'x'.repeat(300) });
    const done = story.events('loop.done')[0];
    expect(done?.result?.reference?.ref).toMatch(/^callboard:/);
    expect(done?.result?.context).toMatchObject({
      stats: { total: 3, success: 3, failed: 0 },
      count: 3,
      errors: [],
      status: 'completed',
      _ref: done?.result?.reference?.ref,
    });
    expect(done?.result?.context).not.toHaveProperty('results');
    expect(story.openKeys).toEqual(['b']);
  });

  test('resolves results that are stored apart', () => {
    const story = given([step('each', { loop: { in: [1, 2], iterator: 'n' } })], {}, { inlineMaxBytes: 2_000 }).start();
    for (let index = 0; index < 2; index += 1) {
      const stored = story.store({ big: 'y'.repeat(50), index }, 'each', 10);
      story.note({
        type: 'call.done',
        status: 'completed',
        nodeName: 'each',
        commandId: story.command(`each#${index}`).commandId,
        result: {
          status: 'completed',
          context: stored?.summary ?? {},
          ...(stored ? { reference: stored.reference } : {}),
        },
      });
      story.close(`each#${index}`, 'command.completed');
    }
    expect(story.result).toMatchObject({ results: [{ index: 0 }, { index: 1 }] });
  });

  test('counts an iteration that was closed without a word', () => {
    const story = loop([1, 2], { mode: 'parallel' }, failure('best_effort')).start();
    story.close('each#0', 'command.completed').close('each#1', 'command.failed');
    expect(story.events('loop.done')[0]?.result?.context?.['data']).toMatchObject({
      results: [null, null],
      errors: [{ index: 1, kind: 'unknown', code: null, message: 'the command failed without a reason' }],
      stats: { total: 2, success: 1, failed: 1 },
    });
  });
});

describe('one failed iteration of five', () => {
  const five = (mode: string | null, order: 'sequential' | 'parallel' = 'sequential') =>
    loop([1, 2, 3, 4, 5], { mode: order, max_in_flight: 2 }, mode === null ? {} : failure(mode)).start();
  const play = (story: Story) => {
    while (story.openKeys[0]?.startsWith('each')) {
      const key = story.openKeys[0];
      if (key === 'each#1') story.fail(key, { message: 'second' });
      else story.ok(key, key);
    }
    return story;
  };

  test('lets the others run and fails the step by default', () => {
    const story = play(five(null));
    expect(story.issued).toHaveLength(5);
    expect(story.end.context).toMatchObject({
      error: 'Failed steps: each: second',
      error_detail: {
        failed_steps: ['each'],
        errors: [{ step: 'each', iteration: 1, kind: 'tool_error', code: 'E', message: 'second' }],
      },
    });
    expect(story.events('loop.done')[0]).toMatchObject({ status: 'failed', error: 'second' });
    expect(story.entered).not.toContain('after');
  });

  test('stops the loop under fail_fast; those never issued count for nothing', () => {
    const story = play(five('fail_fast'));
    expect(story.issued).toHaveLength(2);
    expect(story.events('loop.done')[0]?.result?.context?.['data']).toMatchObject({
      results: ['each#0', null, null, null, null],
      stats: { total: 5, success: 1, failed: 1 },
      count: 5,
      status: 'failed',
    });
    expect(story.end.type).toBe('playbook.failed');
  });

  test('lets those in flight finish under fail_fast', () => {
    const story = five('fail_fast', 'parallel').fail('each#0');
    expect(story.openKeys).toEqual(['each#1']);
    story.ok('each#1', 'one');
    expect(story.issued).toHaveLength(2);
    expect(story.events('loop.done')[0]?.result?.context?.['data']).toMatchObject({
      results: [null, 'one', null, null, null],
    });
  });

  test('is only counted under best_effort', () => {
    const story = play(five('best_effort'));
    expect(story.openKeys).toEqual(['after']);
    expect(story.last('after').context.steps['each']?.value).toMatchObject({
      status: 'completed',
      stats: { total: 5, success: 4, failed: 1 },
      errors: [{ index: 1 }],
    });
  });

  test('can be handled by an error arc of the step', () => {
    const story = play(loop([1, 2], {}, first(arc('after', 'error'))).start());
    expect(story.openKeys).toEqual(['after']);
  });
});

describe('a loop step', () => {
  test('entered again starts with fresh counters', () => {
    const story = loop(
      '{{ ctx.items or [1] }}',
      {},
      { set: { 'ctx.items': [1, 2] }, ...first(arc('each', 'loop.length == 1'), 'after') },
    )
      .start()
      .ok('each#0', 'a');
    expect(story.told.slice(0, 3)).toEqual(['loop.done each', 'step.exit each', 'ctx.updated each']);
    expect(story.issued[1]?.key).toBe('each@2#0');
    story.ok('each#0', 'b').ok('each#1', 'c');
    expect(story.last('after').context.steps['each']).toMatchObject({ activation: 2, value: { results: ['b', 'c'] } });
  });

  test('without a success five times in a row is stalled', () => {
    const story = loop([1], {}, { ...failure('best_effort'), ...first('each') }).start();
    for (let round = 0; round < 4; round += 1) story.fail('each#0');
    expect(story.value).toBe('running.working');
    story.fail('each#0');
    expect(story.told).toEqual([
      'loop.done each',
      'step.exit each',
      'loop.stalled each',
      'workflow.failed workflow',
      'playbook.failed tests/told',
    ]);
    expect(story.decided[2]).toMatchObject({
      status: 'failed',
      context: { message: expect.stringContaining("'each'") },
    });
    expect(story.end.context['error_detail']).toMatchObject({ errors: [{ kind: 'logic', code: 'LOOP_STALLED' }] });
  });

  test('that succeeds in between is not stalled', () => {
    const story = loop([1], {}, { ...failure('best_effort'), ...first('each') }).start();
    for (let round = 0; round < 12; round += 1) {
      if (round % 4 === 3) story.ok('each#0');
      else story.fail('each#0');
    }
    expect(story.value).toBe('running.working');
  });

  test('can be denied, and a loop of nothing that comes back to itself ends', () => {
    expect(loop([1], {}, { ...admits('false') }).start().skipped).toContain('each');
    const story = loop([], {}, first('each'));
    story.isChecked = false;
    expect(story.start().end.context['error_detail']).toMatchObject({ errors: [{ code: 'DENIAL_LIMIT' }] });
  });

  test('stops when the run is failing, and lets the claimed iteration finish', () => {
    const story = given([
      step('a', { next: { spec: { mode: 'inclusive' }, arcs: [{ step: 'each' }, { step: 'bad' }] } }),
      step('each', { loop: { in: [1, 2, 3], iterator: 'n', spec: { mode: 'parallel', max_in_flight: 2 } } }),
      step('bad'),
    ])
      .start()
      .ok('a')
      .claim('each#0')
      .fail('bad');
    expect(story.told).toEqual(['command.cancelled each#1', 'ctx.updated bad']);
    story.ok('each#0');
    expect(story.told).toEqual(['workflow.failed workflow', 'playbook.failed tests/told']);
    expect(story.issued.filter((each) => each.iterationIndex !== null)).toHaveLength(2);
  });

  test('of ten thousand items keeps no result in the chart', () => {
    const story = loop('{{ 10000 }}', { mode: 'parallel', max_in_flight: 1_000 });
    story.isChecked = false;
    story.start();
    for (let index = 0; index < 200; index += 1) story.ok(`each#${index}`, 'r'.repeat(1_000));
    expect(JSON.stringify(story.run).length).toBeLessThan(200_000);
  });
});
