/** Differences of texts, form fields, traces and charts: what pages compute before they show it. */
import { describe, expect, test } from 'vitest';
import { CHARTS } from '../../machines/index.ts';
import { labelWidth, layoutChart } from '../../src/gui/chart/chart-layout.ts';
import { chartModel, eventsOf, initialStates, withOuter } from '../../src/gui/chart/chart-model.ts';
import { changesBetween, contextAt, frameAt, marksOf, nextStateChange } from '../../src/gui/chart/trace.ts';
import type { ChartConfig, TraceFrame } from '../../src/gui/core/wire.ts';
import { byStep, newDraft, outcomeOf, simulationRequest } from '../../src/gui/editor/outcomes.ts';
import { dataOf, fieldsFor, problemsByField } from '../../src/gui/pages/credential-fields.ts';
import { lineDiff } from '../../src/gui/playbook/line-diff.ts';
import { changedValues, fieldsOf, parseInput, textOf, valuesOf } from '../../src/gui/playbook/workload-fields.ts';

describe('differences by lines', () => {
  const diff = (a: string, b: string) => lineDiff(a.split('').join('\n'), b.split('').join('\n'));

  test('the shortest edit is shown', () => {
    expect(diff('abcabba', 'cbabac').filter((line) => line.kind !== 'same')).toHaveLength(5);
  });

  test.each([
    ['abc', 'abc'],
    ['abc', 'axc'],
    ['abcdef', 'bdf'],
    ['', 'a'],
    ['kitten', 'sitting'],
  ])('both texts of %j and %j can be read from it', (a, b) => {
    const lines = diff(a, b);
    expect(
      lines
        .filter((line) => line.kind !== 'added')
        .map((line) => line.text)
        .join(''),
    ).toBe(a);
    expect(
      lines
        .filter((line) => line.kind !== 'removed')
        .map((line) => line.text)
        .join(''),
    ).toBe(b);
  });

  test('lines keep their numbers', () => {
    expect(diff('ab', 'xb').at(-1)).toEqual({ kind: 'same', text: 'b', before: 2, after: 2 });
  });
});

describe('the run form', () => {
  const fields = fieldsOf(null, { who: 'world', times: 3, loud: false, list: [1, 2] });

  test('has a field for each input, by the kind of its default', () => {
    expect(fields.map((field) => field.kind)).toEqual(['string', 'number', 'boolean', 'json']);
  });

  test('sends only what was changed, in its own type', () => {
    const texts = Object.fromEntries(fields.map((field) => [field.name, textOf(field, undefined)]));
    const changed = (edited: Record<string, string>) => changedValues(fields, valuesOf(fields, edited));
    expect(changed(texts)).toEqual({});
    expect(changed({ ...texts, times: '4', loud: 'true', list: '[3]' })).toEqual({
      times: 4,
      loud: true,
      list: [3],
    });
  });

  test('says what is wrong with a value', () => {
    expect(() => valuesOf(fields, { times: 'many' })).toThrow('times must be a number');
    expect(() => valuesOf(fields, { list: '[1,' })).toThrow('list is not valid JSON');
    expect(() => parseInput('[1]')).toThrow('The input must be an object');
  });

  test('written as JSON it holds every input with its value', () => {
    expect(valuesOf(fields, { times: '4' })).toEqual({ who: 'world', times: 4, loud: false, list: [1, 2] });
    expect(changedValues(fields, { times: 3, list: [2], more: true })).toEqual({ list: [2], more: true });
  });
});

describe('a trace', () => {
  const frame = (n: number, states: string, patch: TraceFrame['context_patch'], keyframe = false): TraceFrame => ({
    n,
    event_id: n * 2,
    cause_id: n * 2,
    type: 'x',
    at: '2026-11-20T10:15:02.113Z',
    changed: true,
    states: [states],
    context_patch: patch ?? {},
    keyframe,
  });
  const frames = [
    frame(1, 'a', { run: { open: 1 }, old: true }, true),
    frame(2, 'a', { run: { open: 2 } }),
    frame(3, 'b', { old: null }),
    frame(4, 'b', { run: { open: 5 } }, true),
  ];

  test('gives the context at any frame, keyframe or not', () => {
    expect(contextAt(frames, 2)).toEqual({ before: { run: { open: 2 }, old: true }, after: { run: { open: 2 } } });
    expect(contextAt(frames, 3)).toEqual({ before: { run: { open: 2 } }, after: { run: { open: 5 } } });
    expect(contextAt(frames, 0).before).toEqual({});
  });

  test('names what changed by its path', () => {
    expect(changesBetween({ run: { open: 2 }, old: true }, { run: { open: 3 } })).toEqual([
      { path: 'run.open', before: 2, after: 3 },
      { path: 'old', before: true, after: undefined },
    ]);
  });

  test('is found by event, and walked by change of state', () => {
    expect([frameAt(frames, 4), frameAt(frames, 5), frameAt(frames, 1)]).toEqual([1, 1, -1]);
    expect(nextStateChange(frames, 0, 1)).toBe(2);
  });
});

describe('a chart', () => {
  const model = chartModel('door', {
    initial: 'shut',
    states: {
      shut: { on: { open: 'wide', knock: [{ guard: 'isHome', target: 'wide' }, { actions: ['bark'] }] } },
      wide: {
        initial: 'still',
        on: { leave: 'gone' },
        states: { still: { on: { push: 'swinging' } }, swinging: { on: { stop: { target: 'still' } } } },
      },
      gone: { type: 'final' },
    },
  });

  test('has one arrow between two states, with a line per event', () => {
    expect(model.arrows[0]).toMatchObject({ from: 'door.shut', to: 'door.wide', lines: ['open', 'knock [isHome]'] });
    expect(model.arrows.map((arrow) => arrow.to)).toContain('door.wide.swinging');
    expect(model.states[0]?.inner).toEqual(['knock']);
  });

  test('begins in its initial states, and active states name those around them', () => {
    expect(initialStates(model)).toEqual(['door.shut']);
    expect([...withOuter(['door.wide.still'])]).toEqual(['door.wide', 'door.wide.still']);
    expect(eventsOf(model, withOuter(['door.wide.still']))).toEqual(['leave', 'push']);
  });

  test('an arrow back to its own state has room for its label', () => {
    const loops = chartModel('x', {
      initial: 'a',
      states: { a: { on: { again: 'a', go: 'b' } }, b: { on: { 'a.very.long.event.name': 'b', back: 'a' } } },
    });
    const { boxes, arrows, width } = layoutChart(loops);
    const loop = arrows.find(({ arrow }) => arrow.from === 'x.b' && arrow.to === 'x.b');
    const box = boxes.find((each) => each.state.id === 'x.b')!;
    expect(box.width).toBe(120);
    expect(loop?.points[0]?.x).toBe(box.x + box.width);
    const half = labelWidth(loop!.arrow) / 2;
    expect((loop?.label?.x ?? 0) - half).toBeGreaterThan(box.x + box.width);
    expect((loop?.label?.x ?? 0) + half).toBeLessThanOrEqual(width + 1);
  });

  test.each(CHARTS)('arrows of the chart $name begin and end at the boxes they join', ({ name, machine }) => {
    // As the API sends it.
    const config = JSON.parse(JSON.stringify(machine.config)) as ChartConfig;
    const { boxes, arrows, width } = layoutChart(chartModel(name, config));
    const touches = (id: string, { x, y }: { x: number; y: number }): boolean =>
      boxes.some(
        (box) =>
          `${id}.`.startsWith(`${box.state.id}.`) &&
          x >= box.x &&
          x <= box.x + box.width &&
          Math.min(Math.abs(y - box.y), Math.abs(y - box.y - box.height), Math.abs(x - box.x - box.width), x - box.x) <
            1,
      );
    for (const { arrow, points } of arrows) {
      expect([arrow.id, touches(arrow.from, points[0]!), touches(arrow.to, points.at(-1)!)]).toEqual([
        arrow.id,
        true,
        true,
      ]);
    }
    expect(Math.min(...boxes.map((each) => each.x), ...arrows.map(({ label }) => label?.x ?? width))).toBeLessThan(80);
  });

  test('draws inner states inside their outer one', () => {
    const { boxes, width, height } = layoutChart(model);
    const box = (id: string) => boxes.find((each) => each.state.id === id)!;
    for (const inner of ['door.wide.still', 'door.wide.swinging']) {
      expect(box(inner).x).toBeGreaterThan(box('door.wide').x);
      expect(box(inner).x + box(inner).width).toBeLessThan(box('door.wide').x + box('door.wide').width);
      expect(box(inner).y + box(inner).height).toBeLessThan(box('door.wide').y + box('door.wide').height);
    }
    expect(Math.max(...boxes.map((each) => each.x + each.width))).toBeLessThanOrEqual(width);
    expect(Math.max(...boxes.map((each) => each.y + each.height))).toBeLessThanOrEqual(height);
  });
});

describe('outcomes of a simulation', () => {
  const draft = newDraft(1, 'fetch');

  test('a result, an error and a lost worker are said as the API wants them', () => {
    expect(outcomeOf({ ...draft, text: '{"n": 3}', duration: '250' })).toEqual({
      step: 'fetch',
      result: { n: 3 },
      duration_ms: 250,
    });
    expect(outcomeOf({ ...draft, answer: 'error', kind: 'timeout', text: 'too slow', times: '2' })).toEqual({
      step: 'fetch',
      error: { kind: 'timeout', code: 'SIMULATED', message: 'too slow' },
      times: 2,
    });
    expect(outcomeOf({ ...draft, answer: 'lost' })).toEqual({ step: 'fetch', worker_lost: true });
  });

  test('what cannot be read is told with the step', () => {
    expect(() => outcomeOf({ ...draft, text: '{' })).toThrow('The result of fetch is not valid JSON');
    expect(() => outcomeOf({ ...draft, duration: '-1' })).toThrow('The duration for fetch must be a whole number');
  });

  test('the request holds inputs, outcomes and what else happens', () => {
    expect(simulationRequest('text', { workload: '{"a": 1}', drafts: [draft], strict: true })).toEqual({
      content: 'text',
      workload: { a: 1 },
      outcomes: [{ step: 'fetch', result: {} }],
      default_outcome: 'fail',
    });
  });

  test('unmatched tries are counted by step', () => {
    const tried = (step: string) => ({ step, task: null, iteration: null, try: 1 });
    expect(byStep([tried('a'), tried('b'), tried('a')])).toEqual([
      { step: 'a', count: 2 },
      { step: 'b', count: 1 },
    ]);
  });
});

describe('the form of a credential', () => {
  test('the schema decides its fields, else the type does', () => {
    const schema = { required: ['token'], fields: ['token', 'port'], types: { port: 'integer' } };
    expect(fieldsFor('bearer', schema)).toEqual([
      { name: 'token', kind: 'text', secret: true, required: true },
      { name: 'port', kind: 'number', secret: false, required: false },
    ]);
    expect(fieldsFor('basic', null).map((each) => each.name)).toEqual(['username', 'password']);
  });

  test('empty fields are left out, and numbers are numbers', () => {
    const fields = fieldsFor('postgres', null);
    expect(dataOf(fields, { host: 'db', port: '5432', user: '' })).toEqual({ host: 'db', port: 5432 });
    expect(() => dataOf(fields, { port: 'x' })).toThrow('port must be a number');
  });

  test('each problem stands beside its field, and the others together', () => {
    const errors = [
      'Missing required field: token',
      "Field 'port' must be integer, got string",
      'Unexpected fields: odd',
    ];
    expect([...problemsByField(errors, ['token', 'port'])]).toEqual([
      ['token', ['Missing required field: token']],
      ['port', ["Field 'port' must be integer, got string"]],
      [null, ['Unexpected fields: odd']],
    ]);
  });
});

test('marks of the scrubber are failures and changes of state, failures first when there are too many', () => {
  const frame = (n: number, type: string, state: string): TraceFrame => ({
    n,
    event_id: n,
    cause_id: n,
    type,
    at: '2026-11-20T10:00:00.000Z',
    changed: true,
    states: [state],
  });
  const frames = [
    frame(1, 'execution.started', 'execution.running'),
    frame(2, 'step.enter', 'execution.running'),
    frame(3, 'call.error', 'execution.running'),
    frame(4, 'playbook.completed', 'execution.completed'),
  ];
  expect(marksOf(frames, 10).map((each) => [each.index, each.tone])).toEqual([
    [0, 'running'],
    [2, 'failed'],
    [3, 'completed'],
  ]);
  expect(marksOf(frames, 1).map((each) => each.index)).toEqual([2]);
});
