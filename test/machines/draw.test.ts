import { describe, expect, test } from 'vitest';
import { createMachine } from 'xstate';
import { configOf, definitionOf, mermaidOf, pageOf, scxmlOf } from '../../machines/draw.ts';
import { CHARTS, chartNamed } from '../../machines/index.ts';
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { activeStates, nextEvents, outlineOf } from '../../machines/outline.ts';
import { initialSnapshot } from '../../machines/turn.ts';

interface Written {
  readonly states: readonly string[];
  /** `state event guard`. */
  readonly transitions: readonly string[];
}

/** States and transitions as they are written in the config of a chart, read without the outline. */
function writtenIn(config: JsonMap, prefix: string): Written {
  const states: string[] = [];
  const transitions: string[] = [];
  for (const [name, state] of Object.entries(isMap(config['states']) ? config['states'] : {})) {
    const id = `${prefix}.${name}`;
    states.push(id);
    if (!isMap(state)) continue;
    for (const [event, given] of Object.entries(isMap(state['on']) ? state['on'] : {})) {
      const list: readonly Json[] = Array.isArray(given) ? given : [given];
      for (const each of list) transitions.push(`${id} ${event} ${isMap(each) ? (each['guard'] ?? '') : ''}`);
    }
    const inner = writtenIn(state, id);
    states.push(...inner.states);
    transitions.push(...inner.transitions);
  }
  return { states, transitions };
}

const cases = CHARTS.map((chart) => [chart.name, chart, writtenIn(configOf(chart), chart.name)] as const);

test('a chart is found by its name, and nothing by another', () => {
  for (const chart of CHARTS) expect(chartNamed(chart.name)).toBe(chart);
  expect(chartNamed('toString')).toBeNull();
});

test.each(cases)('the outline of %s has every state and transition of its config', (_name, chart, written) => {
  const outline = outlineOf(chart.machine);
  expect(outline.states.map((state) => state.id).sort()).toEqual([...written.states].sort());
  expect(outline.transitions.map((each) => `${each.from} ${each.event} ${each.guard ?? ''}`).sort()).toEqual(
    [...written.transitions].sort(),
  );
  expect(new Set(outline.transitions.map((each) => each.id)).size).toBe(outline.transitions.length);
});

test.each(cases)('every state of %s says what it means and carries a tag', (_name, chart) => {
  expect(chart.description).not.toBe('');
  for (const state of outlineOf(chart.machine).states) {
    expect(state.description, state.id).not.toBe('');
    expect(state.tags.length, state.id).toBeGreaterThan(0);
  }
});

test.each(cases)('no guard or action of %s is an inline function', (_name, chart) => {
  const { states, transitions } = outlineOf(chart.machine);
  const names = [
    ...transitions.flatMap((each) => [each.guard ?? '', ...each.actions]),
    ...states.flatMap((state) => [...state.entry, ...state.exit]),
  ];
  expect(names.filter((name) => name.startsWith('(') || name.startsWith('xstate.'))).toEqual([]);
});

test.each(cases)(
  'the Mermaid drawing of %s can be read back to its states and transitions',
  (_name, chart, written) => {
    const drawn = mermaidOf(chart);
    const states = [...drawn.matchAll(/state "\w+" as (\w+)/g)].map((found) => found[1]);
    expect(states.sort()).toEqual(written.states.map((id) => id.replaceAll('.', '_')).sort());
    const arrows = [...drawn.matchAll(/^ *(\w+) --> \w+: (.*)$/gm)].flatMap((found) =>
      String(found[2])
        .split('<br/>')
        .map((label) => `${found[1]} ${label}`),
    );
    const wanted = written.transitions.map((each) => {
      const [id = '', event = '', guard = ''] = each.split(' ');
      return `${id.replaceAll('.', '_')} ${event}${guard === '' ? '' : ` [${guard}]`}`;
    });
    expect(arrows.sort()).toEqual(wanted.sort());
  },
);

test.each(cases)('the SCXML of %s can be read back to its states and transitions', (_name, chart, written) => {
  const text = scxmlOf(chart);
  const path: string[] = [];
  const states: string[] = [];
  const transitions: string[] = [];
  for (const [, close, tag, attributes = ''] of text.matchAll(/<(\/?)(state|final|parallel|transition)\b([^>]*)>/g)) {
    const attribute = (name: string) => new RegExp(`(?<![\\w:])${name}="([^"]*)"`).exec(attributes)?.[1] ?? '';
    if (tag === 'transition') {
      if (close === '') transitions.push(`${path.at(-1)} ${attribute('event')} ${attribute('cond')}`);
    } else if (close !== '') path.pop();
    else {
      path.push(attribute('id'));
      states.push(attribute('id'));
    }
  }
  expect(states.sort()).toEqual([...written.states].sort());
  expect(transitions.sort()).toEqual([...written.transitions].sort());
});

test.each(cases)('the definition of %s is JSON that names every state', (_name, chart, written) => {
  const definition = definitionOf(chart);
  expect(JSON.parse(JSON.stringify(definition))).toEqual(definition);
  for (const id of written.states) expect(JSON.stringify(definition)).toContain(`"id":"${id}"`);
});

test.each(cases)('the page of %s has a row for every state and transition', (_name, chart, written) => {
  const rows = pageOf(chart)
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  expect(rows).toHaveLength(written.states.length + written.transitions.length);
});

test('what could happen next names the events of a state and of the states around it', () => {
  const chart = chartNamed('execution');
  if (chart === null) throw new Error('there is an execution chart');
  const first = initialSnapshot(chart.machine);
  expect(activeStates(chart.machine, first.value)).toEqual(['execution.created']);
  expect(nextEvents(chart.machine, first)).toEqual([{ type: 'execution.started', guards: [] }]);
  const working = chart.machine.resolveState({ value: { running: 'working' }, context: first.context });
  const next = nextEvents(chart.machine, working);
  expect(next[0]).toEqual({ type: 'ctx.updated', guards: ['isFailure'] });
  expect(next).toContainEqual({ type: 'command.completed', guards: ['isParking', 'isOpen'] });
  const done = chart.machine.resolveState({ value: 'completed', context: first.context });
  expect(nextEvents(chart.machine, done)).toEqual([]);
});

describe('a chart made by others', () => {
  const machine = createMachine({
    id: 'lamp',
    type: 'parallel',
    states: {
      light: {
        initial: 'off',
        states: { off: { on: { press: { target: 'on', guard: () => true, actions: ['shine', () => {}] } } }, on: {} },
      },
      clock: { on: { tick: { actions: { type: 'count', params: { by: 1 } } } } },
      wires: { type: 'parallel', states: { red: {}, blue: {} } },
    },
  });

  test('may say little of itself, and is told by what it has', () => {
    const outline = outlineOf(machine);
    expect([outline.description, outline.initial, outline.states[0]?.description]).toEqual(['', 'lamp', '']);
    expect(outline.transitions.map(({ guard, actions }) => [guard, actions])).toEqual([
      ['(inline)', ['shine', '(inline)']],
      [null, ['count']],
    ]);
  });

  test('is in one state of each of its parts', () => {
    expect(activeStates(machine, initialSnapshot(machine).value)).toEqual([
      'lamp.light.off',
      'lamp.clock',
      'lamp.wires.red',
      'lamp.wires.blue',
    ]);
  });

  test('shows no first state where it is in all of them', () => {
    const drawn = mermaidOf({ machine });
    expect(drawn.match(/^ *\[\*\] --> (\w+)$/gm)?.map((line) => line.trim())).toEqual([
      '[*] --> lamp',
      '[*] --> lamp_light_off',
    ]);
  });
});
