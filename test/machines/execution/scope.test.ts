/** What templates on the server see, by asking for it. */
import { describe, expect, test } from 'vitest';
import { ServerScope } from '../../../machines/execution/scope.ts';
import type { Json, JsonMap } from '../../../machines/json.ts';
import { compileTemplate } from '../../../machines/playbook/template/compiled.ts';
import { renderValue } from '../../../machines/playbook/template/render.ts';
import { admits, arc, first, NEVER, step } from '../../support/playbooks.ts';
import { given, IDENTITY, type Story } from '../../support/story.ts';

/** What a reader of a running execution gets. */
function read(story: Story, template: string, extra?: JsonMap): Json {
  const { plan, run } = story;
  const { materials } = story.state;
  const payload = (ref: string) => story.storedPayload(ref);
  const scope = new ServerScope({ identity: IDENTITY, plan, run, materials, payload }, null, extra);
  // What templates make of JSON is JSON.
  return renderValue(compileTemplate(template), scope) as Json;
}

describe('a reader of a running execution', () => {
  test('may bring names of its own', () => {
    expect(read(given([step('a')]).start(), '{{ n + 1 }}', { n: 1 })).toBe(2);
  });

  test('sees variables that are stored apart whole in ctx', () => {
    const rows = Array.from({ length: 60 }, (_, id) => id);
    const story = given(
      [step('a', { set: { 'ctx.rows': '{{ output.data }}', 'ctx.n': 1 }, ...first('b') }), step('b')],
      {},
      { inlineMaxBytes: 100 },
    );
    expect(read(story.start().ok('a', rows), '{{ ctx }}')).toEqual({ rows, n: 1 });
  });

  test('sees no keychain', () => {
    expect(read(given([step('a')]).start(), '{{ keychain.token is defined }}')).toBe(false);
  });

  test('sees a step that was skipped, and none that has not ended', () => {
    const story = given([step('a', first('b')), step('b', { ...NEVER, ...first('c') }), step('c')]).start();
    expect(read(story, '{{ steps.a is defined }}')).toBe(false);
    expect(read(story, '{{ steps }}')).toEqual({});
    story.ok('a');
    expect(read(story, '{{ [steps.b.status, steps.b.data, steps.b.error] }}')).toEqual(['skipped', null, null]);
    expect(read(story, '{{ steps | list }}')).toEqual(['a', 'b']);
  });

  test.each<[string, Json]>([
    ['ok', ['completed', 1, null]],
    ['fail', ['failed', null, 'it broke']],
  ])('sees of a step that runs again how it ended before (%s)', (outcome, seen) => {
    const story = given([step('a', first(arc('a', "{{ event.name in ['call.done', 'call.error'] }}")))]).start();
    if (outcome === 'ok') story.ok('a', 1);
    else story.fail('a');
    expect(story.run.steps['a']?.status).toBe('open');
    expect(read(story, '{{ [steps.a.status, steps.a.data, steps.a.error.message | default(none)] }}')).toEqual(seen);
  });
});

describe('a step that runs again', () => {
  test('is given how it ended before', () => {
    const story = given([
      step('a', {
        tool: { kind: 'noop', result: '{{ steps.a.status }}' },
        ...first(arc('a', '{{ error is defined }}')),
      }),
    ]).start();
    story.fail('a');
    expect(story.last('a').context.steps['a']).toMatchObject({ status: 'failed', error: { message: 'it broke' } });
  });

  test('is told as failed where its set failed, although its tool did not', () => {
    const story = given([
      step('a', {
        set: { 'ctx.x': '{{ 1 / workload.zero }}' },
        ...first(arc('a', '{{ error is defined and error }}')),
      }),
    ]).start({ zero: 0 });
    story.ok('a', 1);
    expect(read(story, '{{ [steps.a.status, steps.a.error.kind] }}')).toEqual(['failed', 'transform']);
  });
});

test('the entry step is admitted by inputs without their root too', () => {
  expect(given([step('a', admits('n > 1'))]).start({ n: 2 }).entered).toEqual(['a']);
  expect(given([step('a', admits('n > 1'))]).start({ n: 1 }).skipped).toEqual(['a']);
});

describe('event', () => {
  const seen = (template: string) => {
    const story = given([step('a', first(arc('b', { when: '{{ true }}', set: { 'ctx.x': template } }))), step('b')]);
    return story.start().ok('a').variables['x'];
  };

  test('tells when it happened', () => {
    expect(seen('{{ event.timestamp }}')).toBe('2026-11-20T10:15:00.000Z');
  });

  test('has a name that equals texts only, and nothing inside it', () => {
    expect(seen("{{ [event.name == 'step.exit', event.name == 1, event.name.first is defined] }}")).toEqual([
      true,
      false,
      false,
    ]);
  });

  test('has no other members', () => {
    expect(seen('{{ event.worker is defined }}')).toBe(false);
  });
});
