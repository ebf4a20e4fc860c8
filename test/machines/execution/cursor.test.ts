import { describe, expect, test } from 'vitest';
import { restoreExecution, runOf } from '../../../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../../../machines/json.ts';
import { arc, first, step } from '../../support/playbooks.ts';
import { given, type Story } from '../../support/story.ts';

const CURSOR = { kind: 'postgres', auth: 'db', claim: 'update t set s = 1 returning id' };

function drain(spec: JsonMap = {}, keys: JsonMap = {}, limits = {}): Story {
  return given(
    [
      step('each', {
        loop: { cursor: CURSOR, iterator: 'row', spec: { mode: 'cursor', ...spec } },
        ...first(arc('after', "event.name == 'loop.done'")),
        ...keys,
      }),
      step('after', { tool: { kind: 'noop', result: '{{ each }}' } }),
    ],
    {},
    limits,
  );
}

const failure = (mode: string): JsonMap => ({ spec: { policy: { failure: { mode } } } });
const rows = (...ids: readonly number[]): Json => ({ status: 'success', rows: ids.map((id) => ({ id })) });

/** Answers the open claim. */
const claimed = (story: Story, data: Json): Story => story.ok('each', data);

/** What the open commands of the step are given. */
function itemsOf(story: Story): readonly Json[] {
  return story.open.map(({ context }) => {
    const { iteration } = context;
    return iteration?.kind === 'item' ? iteration.item : (iteration ?? null);
  });
}

describe('a cursor loop', () => {
  test('that is cancelled names the store it was claiming from', () => {
    const story = drain().start().cancel();
    expect(story.decided).toMatchObject([{ type: 'command.cancelled', nodeId: 'each', nodeType: 'postgres' }]);
  });

  test('asks for frames until one is empty, and its value is counts', () => {
    const story = drain({ frame: { max_rows: 2 }, max_in_flight: 2 }).start();
    expect(itemsOf(story)).toEqual([{ kind: 'claim', frame: 0, max_rows: 2 }]);
    claimed(story, rows(1, 2));
    expect(itemsOf(story)).toEqual([{ id: 1 }, { id: 2 }]);
    story.ok('each#1', 'b').ok('each#0', 'a');
    expect(itemsOf(story)).toEqual([{ kind: 'claim', frame: 1, max_rows: 2 }]);
    claimed(story, rows(3));
    story.ok('each#2', 'c');
    claimed(story, rows());
    expect(story.told.slice(0, 2)).toEqual(['loop.done each', 'step.exit each']);
    expect(story.openKeys).toEqual(['after']);
    story.ok('after', story.state.materials.body(story.run.steps['each']?.value ?? null)?.data ?? null);
    expect(story.result).toMatchObject({
      cursor: 'drained',
      frames: 2,
      count: 3,
      stats: { total: 3, success: 3, failed: 0 },
      errors: [],
      status: 'completed',
    });
  });

  test('keeps what its bodies write into variables', () => {
    const story = claimed(drain({ frame: { max_rows: 2 }, max_in_flight: 2 }).start(), rows(1, 2));
    story.ok('each#1', null, { ctx: { seen: 'b' } });
    expect(story.told).toEqual(['ctx.updated each']);
    story.ok('each#0', null, { ctx: { 'more.n': 1 } });
    claimed(story, rows());
    expect(story.variables).toEqual({ seen: 'b', more: { n: 1 } });
  });

  test('is done at once when the first claim finds nothing', () => {
    const story = claimed(drain().start(), rows());
    expect(story.events('loop.done')[0]).toMatchObject({ status: 'completed' });
    expect(story.state.materials.body(story.run.steps['each']?.value ?? null)?.data).toMatchObject({
      frames: 0,
      count: 0,
      stats: { total: 0 },
    });
    expect(story.openKeys).toEqual(['after']);
  });

  test.each<[string, Json]>([
    ['a list of rows', [{ id: 1 }]],
    ['the result of a statement', rows(1)],
  ])('takes %s', (_what, data) => {
    expect(itemsOf(claimed(drain().start(), data))).toEqual([{ id: 1 }]);
  });

  test.each<[string, Json]>([
    ['no rows at all', { status: 'success' }],
    ['null', null],
    ['text', 'nothing'],
  ])('that is answered with %s is drained', (_what, data) => {
    expect(claimed(drain().start(), data).events('loop.done')).toHaveLength(1);
  });

  test('fails with the error of a claim that fails, first or later', () => {
    for (const isLater of [false, true]) {
      const story = drain().start();
      if (isLater) claimed(story, rows(1)).ok('each#0');
      story.fail('each', { kind: 'connection', message: 'no database' });
      expect(story.end).toMatchObject({ type: 'playbook.failed' });
      expect(story.end.error).toContain('no database');
      expect(story.events('loop.done')[0]?.status).toBe('failed');
    }
  });

  test('gives a whole frame to one body with process: frame', () => {
    const story = claimed(drain({ frame: { max_rows: 3, process: 'frame' } }).start(), rows(1, 2, 3));
    expect(itemsOf(story)).toEqual([[{ id: 1 }, { id: 2 }, { id: 3 }]]);
    story.ok('each#0');
    expect(itemsOf(story)).toEqual([{ kind: 'claim', frame: 1, max_rows: 3 }]);
  });

  test.each([
    [{ max_in_flight: 3 }, 3],
    [{ frame: { row_concurrency: 2, max_rows: 9 } }, 2],
    [{ max_in_flight: 2, frame: { row_concurrency: 4, max_rows: 9 } }, 4],
    [{ max_in_flight: '{{ workload.n }}' }, 5],
    [{}, 1],
  ])('with %j has %i bodies in flight', (spec, most) => {
    const story = claimed(drain(spec).start({ n: 5 }), rows(0, 1, 2, 3, 4, 5, 6));
    expect(story.openKeys).toHaveLength(most);
    story.ok('each#0');
    expect(story.openKeys).toHaveLength(most);
    for (let index = 1; index < 7; index += 1) story.ok(`each#${index}`);
    expect(itemsOf(story)).toMatchObject([{ kind: 'claim', frame: 1 }]);
  });

  test('that cannot tell how many it may have in flight fails before it claims', () => {
    const story = drain({ max_in_flight: '{{ workload.n }}' }).start({ n: 0 });
    expect(story.issued).toEqual([]);
    expect(story.end.error).toContain('max_in_flight must be an integer of at least 1');
  });

  test('gives on to the next frame although bodies failed, and fails at its end', () => {
    const story = claimed(drain({ max_in_flight: 2 }).start(), rows(1, 2))
      .fail('each#0')
      .ok('each#1');
    claimed(story, rows());
    expect(story.end.type).toBe('playbook.failed');
    expect(story.state.materials.body(story.run.steps['each']?.value ?? null)?.data).toMatchObject({
      stats: { total: 2, success: 1, failed: 1 },
      errors: [{ index: 0, kind: 'tool_error', code: 'E' }],
      status: 'failed',
    });
  });

  test('claims nothing more after a failure with fail_fast, once what is in flight has ended', () => {
    const story = claimed(drain({ max_in_flight: 2 }, failure('fail_fast')).start(), rows(1, 2, 3)).fail('each#0');
    expect(story.openKeys).toEqual(['each#1']);
    story.ok('each#1');
    expect(story.end.type).toBe('playbook.failed');
    expect(story.issued.map(({ event }) => event.nodeId)).toHaveLength(3);
  });

  test('succeeds whatever bodies do with best_effort', () => {
    const story = claimed(drain({}, failure('best_effort')).start(), rows(1)).fail('each#0');
    claimed(story, rows());
    expect(story.openKeys).toEqual(['after']);
    expect(story.events('loop.done')[0]).toMatchObject({ status: 'completed' });
  });

  test('fetches a frame that is stored apart', () => {
    const story = drain({ max_in_flight: 4 }, {}, { inlineMaxBytes: 100 }).start();
    const frame = rows(...Array.from({ length: 30 }, (_, id) => id));
    const stored = story.store(frame, 'each', 100);
    if (stored === null) throw new Error('the frame fits');
    const claim = story.command('each');
    claim.isClaimed = true;
    const node = { nodeName: 'each', commandId: claim.commandId, attempt: 1, meta: claim.event.meta };
    const result = { status: 'completed', context: stored.summary, reference: stored.reference };
    story.note({ ...node, type: 'call.done', status: 'completed', result });
    story.close('each', 'command.completed');
    expect(itemsOf(story)).toEqual([{ id: 0 }, { id: 1 }, { id: 2 }, { id: 3 }]);
  });

  test('goes on after a crash, from the log and from a snapshot of the chart', () => {
    const story = claimed(drain({ max_in_flight: 2, frame: { max_rows: 4 } }).start(), rows(1, 2, 3, 4)).ok('each#0');
    story.restart().ok('each#1');
    expect(itemsOf(story)).toEqual([{ id: 3 }, { id: 4 }]);
    const copy = restoreExecution(story.state.snapshot.value, JSON.parse(JSON.stringify(story.run)));
    expect(runOf(copy)).toEqual(story.run);
    story.ok('each#2').ok('each#3');
    claimed(story, rows());
    expect(story.openKeys).toEqual(['after']);
  });

  test('fails where its limit cannot be rendered', () => {
    const story = drain({ max_in_flight: '{{ 1 / 0 }}' }).start();
    expect(story.end.context['error']).toContain("loop of step 'each'");
    expect(story.issued).toEqual([]);
  });

  test('is done when its claim ends without a word, and fails when that fails without one', () => {
    expect(drain().start().close('each', 'command.completed').openKeys).toEqual(['after']);
    const failed = drain().start().close('each', 'command.failed');
    expect(failed.end.context['error']).toBe('Failed steps: each: the command failed without a reason');
  });

  test('whose value is stored apart fails by its first failure, without the list of them', () => {
    const story = claimed(drain({ max_in_flight: 2 }, {}, { inlineMaxBytes: 200 }).start(), rows(1, 2));
    claimed(story.fail('each#0').fail('each#1', { message: 'it broke as well' }), rows());
    expect(story.events('loop.done')[0]?.result?.reference).toBeDefined();
    expect(story.end.context['error']).toBe('Failed steps: each: it broke');
  });

  test('is entered anew with a cursor of its own', () => {
    const story = given([
      step('each', {
        loop: { cursor: CURSOR, iterator: 'row', spec: { mode: 'cursor' } },
        next: { arcs: [{ step: 'each', when: '{{ (ctx.rounds | default(0)) < 1 }}', set: { rounds: 1 } }] },
      }),
    ]).start();
    claimed(story, rows(1)).ok('each#0');
    claimed(story, rows());
    expect(itemsOf(story)).toMatchObject([{ kind: 'claim', frame: 0 }]);
    claimed(story, rows());
    expect(story.events('loop.done')).toHaveLength(2);
    expect(story.end.type).toBe('playbook.completed');
  });

  test('ends with a cancel whatever it was doing', () => {
    const story = claimed(drain({ max_in_flight: 2 }).start(), rows(1, 2)).cancel();
    expect(story.end.type).toBe('execution.cancelled');
    expect(story.isEnded).toBe(true);
  });
});
