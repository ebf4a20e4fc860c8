import { describe, expect, test } from 'vitest';
import { admission, admits, arc, every, first, step } from '../../support/playbooks.ts';
import { given } from '../../support/story.ts';

describe('admission', () => {
  test('runs the step when the first matching rule allows it', () => {
    const story = given([step('a', first('b')), step('b', admits('{{ workload.notify and a.failed > 0 }}'))]);
    expect(story.start({ notify: true }).ok('a', { failed: 1 }).openKeys).toEqual(['b']);
  });

  test('that is denied skips the step, and its unguarded arcs are followed in the same turn', () => {
    const steps = [step('a', first('page')), step('page', { ...admits('notify'), ...first('end') }), step('end')];
    const story = given(steps).start({ notify: false }).ok('a');
    expect(story.told).toEqual(['step.skipped page', 'step.enter end', 'command.issued end']);
    expect(story.decided[0]).toMatchObject({ status: 'skipped', context: { reason: 'admission' }, nodeType: 'step' });
    expect(story.ok('end').end.type).toBe('playbook.completed');
  });

  test('that is denied shows its status to guards and to the commands that follow', () => {
    const look = { tool: { kind: 'noop', result: '{{ steps.page.status }}' } };
    const guard = arc('end', "steps.page.status == 'skipped' and page is undefined");
    const story = given([step('page', { ...admits('false'), ...first(guard) }), step('end', look)]).start();
    expect(story.command('end').context.steps['page']).toMatchObject({ status: 'skipped', value: null, activation: 0 });
  });

  test('admits when no rule matches', () => {
    expect(given([step('a', admission(['false', false]))]).start().openKeys).toEqual(['a']);
  });

  test('takes literal conditions', () => {
    expect(given([step('a', admission([true, false]))]).start().skipped).toEqual(['a']);
    expect(given([step('a', admission([false, false]))]).start().openKeys).toEqual(['a']);
  });

  test('is asked of the entry step too, where no event is defined', () => {
    const story = given([step('a', { ...admits('event is defined'), ...first('b') }), step('b')]).start();
    expect(story.told).toEqual(['step.skipped a', 'step.enter b', 'command.issued b']);
  });

  test('denied at the entry with nothing behind it completes the run without a result', () => {
    const story = given([step('a', admits('false'))]).start();
    expect(story.told).toEqual(['step.skipped a', 'workflow.completed workflow', 'playbook.completed tests/told']);
    expect(story.result).toBeNull();
  });

  test('sees the end that led there and the set of its arc', () => {
    const story = given([
      step('a', first(arc('b', { set: { 'ctx.go': 1 } }))),
      step('b', admits("ctx.go == 1 and event.step == 'a' and output.data.n == 5 and result.n == 5")),
    ]);
    expect(story.start().ok('a', { n: 5 }).openKeys).toEqual(['b']);
  });

  test('of a denied step tells the next guard that it was skipped, without data', () => {
    const story = given([
      step('a', first('b')),
      step('b', {
        ...admits('false'),
        ...first(
          arc('c', "event.name == 'step.done'"),
          arc('d', {
            when: "event.name == 'step.skipped' and output.status == 'skipped' and output.data is undefined and not error",
          }),
        ),
      }),
      step('c'),
      step('d'),
    ]);
    expect(story.start().ok('a').entered).toEqual(['a', 'd']);
  });

  test('that denies a re-entry keeps the previous value', () => {
    const story = given([
      step('a', {
        ...admits('not ctx.done'),
        ...first(arc('b', { when: "event.name == 'call.done'", set: { 'ctx.done': true } }), 'c'),
      }),
      step('b', first('a')),
      step('c', { tool: { kind: 'noop', result: '{{ a }}' } }),
    ]);
    story.start().ok('a', { kept: 1 }).ok('b');
    expect(story.told).toEqual(['step.skipped a', 'step.enter c', 'command.issued c']);
    expect(story.last('c').context.steps['a']).toMatchObject({
      status: 'completed',
      value: { kept: 1 },
      activation: 1,
    });
  });

  test('that raises fails the run at that step', () => {
    const story = given([step('a', first('b')), step('b', admits('1 / 0 > 1'))])
      .start()
      .ok('a');
    expect(story.end.context['error_detail']).toMatchObject({ errors: [{ step: 'b', kind: 'transform' }] });
    expect(story.end.context['error']).toContain('1 / 0');
  });

  test('may deny in a cycle, but not for ever', () => {
    const story = given([
      step('a', first('b')),
      step('b', { ...admits('false'), ...first('c') }),
      step('c', { ...admits('false'), ...first('b') }),
    ]);
    story.isChecked = false;
    story.start().ok('a');
    expect(story.skipped).toHaveLength(1_000);
    expect(story.end.context['error_detail']).toMatchObject({ errors: [{ kind: 'logic', code: 'DENIAL_LIMIT' }] });
  });

  test('of a chain of denied steps reaches its end in one turn', () => {
    const chain = Array.from({ length: 900 }, (_, index) =>
      step(`s${index}`, { ...admits('false'), ...first(`s${index + 1}`) }),
    );
    const story = given([...chain, step('s900')]);
    story.start();
    expect(story.entered).toEqual(['s900']);
    expect(story.skipped).toHaveLength(900);
  });

  describe('of a join', () => {
    const join = (when: string) =>
      given([
        step('a', every('b', 'c', 'd')),
        step('b', first('j')),
        step('c', first('j')),
        step('d', first(arc('j', 'false'))),
        step('j', { ...admits(when), ...first('after') }),
        step('after'),
      ])
        .start()
        .ok('a');

    test('sees the arc taken last', () => {
      const story = join("event.step == 'c' and output.data == 'C'").ok('b', 'B').ok('d').ok('c', 'C');
      expect(story.openKeys).toEqual(['j']);
    });

    test('sees it also when a branch that did not arrive opened the barrier', () => {
      const story = join("event.step == 'c' and output.data == 'C' and event.name == 'call.done'");
      story.ok('b', 'B').ok('c', 'C').restart().ok('d', 'D');
      expect(story.openKeys).toEqual(['j']);
      expect(story.run.arrivals).toEqual({});
    });

    test('that is denied leaves the barrier and goes on', () => {
      const story = join('false').ok('b').ok('c').ok('d');
      expect(story.told).toEqual(['step.skipped j', 'step.enter after', 'command.issued after']);
      expect(story.run.joins).toEqual([]);
    });

    test('sees a loop that ended and a step that was skipped', () => {
      const story = given([
        step('a', every('b', 'c', 'd')),
        step('b', { loop: { in: [1, 2], iterator: 'n' }, ...first('j') }),
        step('c', first('s')),
        step('s', { ...admits('false'), ...first('k') }),
        step('d', first('j', arc('k', 'false'))),
        step('j', admits("event.name == 'loop.done' and loop.length == 2 and output.data.count == 2")),
        step('k'),
      ]);
      story.start().ok('a').ok('d').ok('c');
      story.ok('b#0').ok('b#1');
      expect(story.entered).toContain('j');
    });

    test('sees a failure that an arc handled', () => {
      const story = given([
        step('a', every('b', 'c')),
        step('b', first(arc('j', "event.name == 'call.error'"))),
        step('c', first(arc('j', 'false'))),
        step('j', admits("event.name == 'call.error' and error.code == 'E' and output.status == 'error'")),
        step('x', first('j')),
      ]);
      story.start().ok('a').fail('b').ok('c');
      expect(story.openKeys).toEqual(['j']);
    });
  });
});
