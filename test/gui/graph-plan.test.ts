/** The step graph where the server does not draw it: the plan from the document, the states from the events. */
import { describe, expect, test } from 'vitest';
import type { JsonMap, LogEvent } from '../../src/gui/core/wire.ts';
import { planOf, withStates } from '../../src/gui/graph/plan.ts';

const DOCUMENT: JsonMap = {
  workflow: [
    {
      step: 'start',
      tool: { kind: 'noop' },
      next: { spec: { mode: 'inclusive' }, arcs: [{ step: 'a' }, { step: 'b', when: '{{ x }}' }, { step: 'nowhere' }] },
    },
    { step: 'a', tool: [{ one: { kind: 'http' } }, { kind: 'python' }], loop: { in: '{{ items }}' }, next: 'join' },
    { step: 'b', tool: { kind: 'shell' }, next: { arcs: [{ step: 'join' }] } },
    { step: 'join', tool: { kind: 'noop' } },
  ],
};

let count = 0;
function event(type: string, step: string, more: Partial<LogEvent> = {}): LogEvent {
  count += 1;
  return {
    event_id: count,
    event_type: type,
    node_id: step,
    node_name: step,
    node_type: 'step',
    status: 'completed',
    created_at: new Date(count * 1000).toISOString(),
    error: null,
    parent_event_id: null,
    duration: null,
    worker_id: null,
    ...more,
  };
}

describe('the plan', () => {
  const plan = planOf('demo/x', 2, DOCUMENT);

  test('has every step with its tools, entry first', () => {
    expect(plan.entry).toBe('start');
    expect(plan.nodes.map((node) => [node.id, node.kinds.join(), node.loop !== null])).toEqual([
      ['start', 'noop', false],
      ['a', 'http,python', true],
      ['b', 'shell', false],
      ['join', 'noop', false],
    ]);
  });

  test('has an edge per arc to a step that exists, in every spelling of next', () => {
    expect(plan.edges.map((edge) => [edge.id, edge.when, edge.mode])).toEqual([
      ['start>a#0', null, 'inclusive'],
      ['start>b#1', '{{ x }}', 'inclusive'],
      ['a>join#0', null, 'exclusive'],
      ['b>join#0', null, 'exclusive'],
    ]);
  });
});

test('states, rounds and taken edges follow from the events', () => {
  count = 0;
  const story = [
    event('execution.started', 'demo/x'),
    event('step.enter', 'start', { parent_event_id: 1 }),
    event('command.completed', 'start'),
    event('step.exit', 'start'),
    event('step.enter', 'a', { parent_event_id: 3, node_type: 'loop' }),
    event('command.completed', 'a'),
    event('command.failed', 'a', { status: 'failed', error: 'no' }),
    event('ctx.updated', 'b', { meta: { arrived: { join: { from: 'b' } } } }),
    event('step.enter', 'b', { parent_event_id: 3 }),
  ];
  const graph = withStates(planOf('demo/x', 2, DOCUMENT), story);
  const state = (id: string) => graph.nodes.find((node) => node.id === id)?.state;
  expect(state('start')).toMatchObject({ status: 'completed', activations: 1, duration_ms: 2000 });
  expect(state('a')).toMatchObject({ status: 'running', iterations: { total: null, done: 1, failed: 1 } });
  expect(state('join')).toBeNull();
  expect(graph.edges.map((edge) => edge.taken)).toEqual([1, 1, 0, 1]);
  const ended = withStates(graph, [...story, event('execution.cancelled', 'demo/x', { status: 'cancelled' })]);
  expect(ended.nodes.find((node) => node.id === 'b')?.state?.status).toBe('cancelled');
});
