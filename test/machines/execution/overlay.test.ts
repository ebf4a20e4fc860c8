import { expect, test } from 'vitest';
import { Overlay } from '../../../machines/execution/overlay.ts';
import { absorbEvent, newExecution, runOf } from '../../../machines/execution/take-turn.ts';
import { flowchartOf, stepGraphOf } from '../../../machines/playbook/step-graph.ts';
import { arc, every, first, NEVER, playbookOf, step } from '../../support/playbooks.ts';
import { given, type Story } from '../../support/story.ts';

function overlayOf(story: Story) {
  const graph = stepGraphOf(story.plan.playbook);
  const overlay = new Overlay(graph);
  const state = newExecution();
  for (const event of story.log) {
    absorbEvent(state, event);
    overlay.see(event, runOf(state));
  }
  const taken = overlay.taken();
  return {
    taken: Object.fromEntries(graph.edges.map((edge) => [edge.id, taken.get(edge.id) ?? 0])),
    state: (name: string) => overlay.stepState(name, runOf(state), story.isEnded),
    graph,
  };
}

test('the arc that was taken counts, and its neighbours do not', () => {
  const story = given([
    step('start', first(arc('fix', "{{ event.name == 'call.error' }}"), 'go')),
    step('fix'),
    step('go'),
  ]).start();
  const seen = overlayOf(story.fail('start').ok('fix'));
  expect(seen.taken).toEqual({ 'start>fix#0': 1, 'start>go#1': 0 });
  expect(seen.state('start')).toMatchObject({ status: 'failed', activations: 1, error: 'it broke' });
  expect(seen.state('fix')).toMatchObject({ status: 'completed', error: null });
  expect(seen.state('go')).toMatchObject({ status: 'skipped', activations: 0 });
});

test('a loop back counts each time it is taken', () => {
  const story = given([step('start', first(arc('start', '{{ output.data < 2 }}'), 'done')), step('done')]).start();
  const seen = overlayOf(story.ok('start', 0).ok('start', 1).ok('start', 2));
  expect(seen.taken).toEqual({ 'start>start#0': 2, 'start>done#1': 1 });
  expect(seen.state('start').activations).toBe(3);
  expect(seen.state('done')).toMatchObject({ status: 'running', endedAt: null });
});

test('every branch into a join counts, also the one in the middle that leaves no row', () => {
  const story = given([
    step('start', every('a', 'b', 'c')),
    step('a', first('meet')),
    step('b', first('meet')),
    step('c', first('meet')),
    step('meet'),
  ]).start();
  story.ok('start').ok('a');
  expect(overlayOf(story).state('meet').status).toBe('waiting');
  expect(overlayOf(story.ok('b').ok('c').ok('meet')).taken).toEqual({
    'start>a#0': 1,
    'start>b#1': 1,
    'start>c#2': 1,
    'a>meet#0': 1,
    'b>meet#0': 1,
    'c>meet#0': 1,
  });
});

test('a denied step and an empty loop pass on within one turn', () => {
  const story = given([
    step('start', first('denied')),
    step('denied', { ...NEVER, ...first('empty') }),
    step('empty', { loop: { in: [], iterator: 'n' }, ...first('last') }),
    step('last'),
  ]).start();
  const seen = overlayOf(story.ok('start'));
  expect(seen.taken).toEqual({ 'start>denied#0': 1, 'denied>empty#0': 1, 'empty>last#0': 1 });
  expect(seen.state('denied').status).toBe('skipped');
  expect(seen.state('empty')).toMatchObject({ status: 'completed', iterations: { total: 0, done: 0, failed: 0 } });
});

test('an arc out of the playbook counts when the branch ends there', () => {
  const story = given([step('start', first(arc('more', '{{ output.data }}'), 'end')), step('more')]).start();
  const seen = overlayOf(story.ok('start', false));
  expect(seen.taken).toEqual({ 'start>more#0': 0, 'start>end#1': 1 });
  expect(seen.graph.nodes.at(-1)).toEqual({ id: 'end', step: 'end', kinds: [], loop: null, line: null });
});

test('a loop shows how many of its iterations are done, while it runs and after', () => {
  const story = given([step('start', { loop: { in: [1, 2, 3], iterator: 'n' } })]).start();
  story.ok('start#0').fail('start#1');
  expect(overlayOf(story).state('start').iterations).toEqual({ total: 3, done: 2, failed: 1 });
  expect(overlayOf(story.ok('start#2')).state('start').iterations).toEqual({ total: 3, done: 3, failed: 1 });
});

test('what an ended run left open is shown as cancelled', () => {
  const story = given([step('start')])
    .start()
    .cancel();
  expect(['cancelled', 'skipped']).toContain(overlayOf(story).state('start').status);
});

test('a back edge is told, and drawn apart', () => {
  const graph = stepGraphOf(
    playbookOf([step('a', first('b')), step('b', first(arc('a', '{{ "x" < 1 }}'), 'end'))], { entry: 'a' }),
  );
  expect(graph.edges.map(({ id, back }) => [id, back])).toEqual([
    ['a>b#0', false],
    ['b>a#0', true],
    ['b>end#1', false],
  ]);
  const text = flowchartOf(graph, new Map([['a', 'completed']]));
  expect(text).toContain('s1 -.->|"{{ #quot;x#quot; #lt; 1 }}"| s0');
  expect(text).toContain('s2((end))');
  expect(text).toMatch(/classDef completed .*\n {2}class s0 completed/);
});

test('a branch of several that reaches a join which waits already counts, each once', () => {
  const story = given([
    step('start', every('a', 'b')),
    step('a', first('meet')),
    step('b', every('meet', arc('late', '{{ output.data == 1 }}'))),
    step('late', first('meet')),
    step('meet'),
  ]).start();
  story.ok('start').ok('a').ok('b', 1);
  expect(overlayOf(story).taken).toMatchObject({ 'a>meet#0': 1, 'b>meet#0': 1, 'b>late#1': 1, 'late>meet#0': 0 });
});

test('an arc that depends on a condition and leads to a join which waits is not counted on a guess', () => {
  const story = given([
    step('start', every('a', 'b', 'c')),
    step('a', first('meet')),
    step('b', every(arc('meet', '{{ output.data == 2 }}'))),
    step('c', first('meet')),
    step('meet'),
  ]).start();
  story.ok('start').ok('a').ok('b', 1);
  expect(overlayOf(story).taken).toMatchObject({ 'a>meet#0': 1, 'b>meet#0': 0 });
});

test('a step that nobody has reached is pending', () => {
  const seen = overlayOf(given([step('a', first('b')), step('b')]).start());
  expect(seen.state('b')).toMatchObject({ status: 'pending', activations: 0, startedAt: null, error: null });
});

test('a step that failed by its closing row alone shows what that said', () => {
  const story = given([step('a', first(arc('b', '{{ error is defined and error }}'))), step('b')]).start();
  story.close('a', 'command.failed', { error: 'gone' });
  expect(overlayOf(story).state('a')).toMatchObject({ status: 'failed', error: 'gone' });
});

test('a step whose set failed shows that error and leads on by its error arc', () => {
  const story = given([
    step('a', { set: { 'ctx.x': '{{ 1 / workload.zero }}' }, ...first(arc('b', "{{ event.name == 'call.error' }}")) }),
    step('b'),
  ]).start({ zero: 0 });
  const seen = overlayOf(story.ok('a', 1));
  expect(seen.state('a').error).toContain("set of step 'a'");
  expect(seen.taken).toEqual({ 'a>b#0': 1 });
});

test('rows that say less than ours, or come too late, change nothing that is known', () => {
  const story = given([step('a', first('b')), step('b')]).start();
  const before = overlayOf(story);
  const row = { status: 'failed' as const, nodeName: 'a' };
  story.note({ ...row, type: 'call.error', error: 'stale', stale: true, commandId: story.command('a').commandId });
  story.note({ ...row, type: 'call.error', error: 'of no command' });
  story.note({ ...row, type: 'ctx.updated', nodeName: 'b', meta: { arrived: { b: 'somehow' } } });
  expect(overlayOf(story).state('a')).toEqual(before.state('a'));
  expect(overlayOf(story).taken).toEqual(before.taken);
  story.note({ ...row, type: 'ctx.updated', meta: { failed: { kind: 'transform' } } });
  expect(overlayOf(story).state('a').error).toBeNull();
  story.note({ ...row, type: 'loop.done', context: {} });
  expect(overlayOf(story).state('a').iterations).toBeNull();
  story.note({ ...row, type: 'loop.done', context: { stats: { total: 2 } } });
  expect(overlayOf(story).state('a').iterations).toEqual({ total: 2, done: 0, failed: 0 });
});

test('what is reached beside a step that was denied was not reached from that', () => {
  const story = given([step('a', every('b', 'c')), step('b', NEVER), step('c')])
    .start()
    .ok('a');
  expect(overlayOf(story).taken).toEqual({ 'a>b#0': 1, 'a>c#1': 1 });
});

test('steps that are denied again and again within one turn count each round', () => {
  const steps = [step('a', first('b')), step('b', { ...NEVER, ...first('c') }), step('c', { ...NEVER, ...first('b') })];
  const story = given(steps, {}, { maxDenials: 4 }).start().ok('a');
  expect(story.end.type).toBe('playbook.failed');
  expect(overlayOf(story).taken).toEqual({ 'a>b#0': 1, 'b>c#0': 2, 'c>b#0': 1 });
});

test('a drawing leaves out steps it does not know, and shortens long words', () => {
  const graph = stepGraphOf(playbookOf([step('s'.repeat(80))]));
  const text = flowchartOf(graph, new Map([['ghost', 'completed']]));
  expect(text).toContain(`"${'s'.repeat(59)}…<br/>`);
  expect(text).not.toContain('class undefined');
});
